package jobapi

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/jobrun"
)

// shownDefinition is a job definition in responses: the members of its spec have the
// names that the rules use.
type shownDefinition struct {
	ID          uuid.UUID `json:"id"`
	Name        string    `json:"name"`
	Version     int64     `json:"version"`
	SpecVersion int       `json:"spec_version"`
	jobrun.Spec
	Event       *shownTrigger     `json:"event,omitempty"`
	Enabled     bool              `json:"enabled"`
	Paused      bool              `json:"paused"`
	PausedAt    *time.Time        `json:"paused_at,omitempty"`
	PausedUntil *time.Time        `json:"paused_until,omitempty"`
	PauseReason string            `json:"pause_reason,omitempty"`
	BuiltIn     bool              `json:"built_in"`
	NextDueAt   *time.Time        `json:"next_due_at,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	CreatedBy   string            `json:"created_by,omitempty"`
	UpdatedAt   time.Time         `json:"updated_at"`
	UpdatedBy   string            `json:"updated_by,omitempty"`
	DeletedAt   *time.Time        `json:"deleted_at,omitempty"`
	Links       map[string]string `json:"links"`
}

type shownDefinitions struct {
	JobDefinitions []shownDefinition `json:"job_definitions"`
	Pagination     api.Pagination    `json:"pagination"`
}

// shownVersion is one version of a definition's spec.
type shownVersion struct {
	Number int `json:"spec_version"`
	jobrun.Spec
	Event     *shownTrigger `json:"event,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
	CreatedBy string        `json:"created_by,omitempty"`
}

type shownVersions struct {
	Versions []shownVersion `json:"versions"`
}

// shownTrigger is an event trigger. Its conditions are one member of free form.
type shownTrigger struct {
	EventType string          `json:"event_type"`
	Match     json.RawMessage `json:"match,omitempty"`
	Args      string          `json:"args_from,omitempty"`
}

// showSpec separates a spec from its event trigger, which has another form in
// responses.
func showSpec(s *jobrun.Spec) (jobrun.Spec, *shownTrigger) {
	out := *s
	out.Event = nil
	if s.Event == nil {
		return out, nil
	}
	e := shownTrigger{EventType: s.Event.EventType, Args: s.Event.Args}
	if s.Event.Match != nil {
		e.Match, _ = json.Marshal(s.Event.Match) // it was read from JSON
	}
	return out, &e
}

func showDefinition(d *jobrun.Definition, now time.Time) shownDefinition {
	path := definitionPath(d)
	out := shownDefinition{
		ID: d.ID, Name: d.Name, Version: d.Version, SpecVersion: d.SpecVersion, Enabled: d.Enabled, Paused: d.Paused(now),
		BuiltIn:   d.BuiltIn,
		NextDueAt: d.NextDueAt, CreatedAt: d.CreatedAt, CreatedBy: d.CreatedBy, UpdatedAt: d.UpdatedAt,
		UpdatedBy: d.UpdatedBy, DeletedAt: d.DeletedAt,
		Links: map[string]string{
			"self": path, "versions": path + "/versions", "runs": "/api/v1/job-runs?definition=" + d.ID.String(),
			"next_runs": path + "/next-runs", "backfills": path + "/backfills",
		},
	}
	if out.Paused {
		out.PausedAt, out.PausedUntil, out.PauseReason = d.PausedAt, d.PausedUntil, d.PauseReason
	}
	out.Spec, out.Event = showSpec(&d.Spec)
	return out
}

func definitionPath(d *jobrun.Definition) string {
	return "/api/v1/job-definitions/" + url.PathEscape(d.ID.String())
}
