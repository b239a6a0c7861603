package jobapi

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// shownDefinition is a job definition in responses. The members of its spec have the names that the
// rules use.
type shownDefinition struct {
	ID          uuid.UUID `json:"id"`
	Name        string    `json:"name"`
	Version     int64     `json:"version"`
	SpecVersion int       `json:"spec_version"`
	jobrun.Spec
	Unreadable  bool                `json:"definition_unreadable,omitempty"`
	Event       *shownTrigger       `json:"event,omitempty"`
	Enabled     bool                `json:"enabled"`
	Paused      bool                `json:"paused"`
	PausedAt    *time.Time          `json:"paused_at,omitempty"`
	PausedUntil *time.Time          `json:"paused_until,omitempty"`
	PauseReason string              `json:"pause_reason,omitempty"`
	Changes     *api.PlannedChanges `json:"changes,omitempty"` // set in responses to dry runs
	BuiltIn     bool                `json:"built_in"`
	NextDueAt   *time.Time          `json:"next_due_at,omitempty"`
	NextRunAt   *time.Time          `json:"next_run_at,omitempty"`

	// RecentRuns is nil unless requested.
	RecentRuns []api.JobRunOutcome `json:"recent_runs,omitzero"`

	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by,omitempty"`
	// CreatedByName and the other names are filled in when the response is sent.
	CreatedByName string `json:"created_by_name,omitempty"`
	UpdatedByName string `json:"updated_by_name,omitempty"`

	DeletedAt *time.Time        `json:"deleted_at,omitempty"`
	Links     map[string]string `json:"links"`
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
	// CreatedByName is filled in when the response is sent, from the action record of Definition.
	CreatedByName string    `json:"created_by_name,omitempty"`
	Definition    uuid.UUID `json:"-"`
}

type shownVersions struct {
	Versions []shownVersion `json:"versions"`
}

// shownTrigger is an event trigger. Its conditions form one free-form member.
type shownTrigger struct {
	EventType string          `json:"event_type"`
	Match     json.RawMessage `json:"match,omitempty"`
	Args      string          `json:"args_from,omitempty"`
}

// showSpec separates a spec from its event trigger, which has a different form in responses.
func showSpec(s *jobrun.Spec) (jobrun.Spec, *shownTrigger) {
	out := *s
	out.Event = nil
	if s.Event == nil {
		return out, nil
	}
	e := shownTrigger{EventType: s.Event.EventType, Args: s.Event.Args}
	if s.Event.Match != nil {
		e.Match, _ = json.Marshal(s.Event.Match) // it was read from JSON, so it encodes without an error
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
	out.Unreadable = d.Unreadable
	out.Spec, out.Event = showSpec(&d.Spec)
	if d.Unreadable {
		out.Spec = out.Spec.Complete() // with the defaults of omitted fields
	}
	return out
}

// recentRuns is the number of ended runs that are shown per definition.
const recentRuns = 20

// definitionExtras are the optional parts of definitions that a request may ask for.
type definitionExtras struct{ recentRuns, nextRunAt bool }

// showWith returns definitions in the form of responses, with the requested extras.
func (s *Handlers) showWith(
	ctx context.Context, definitions []jobrun.Definition, with definitionExtras,
) ([]shownDefinition, error) {
	now, ids := s.Now(), make([]uuid.UUID, len(definitions))
	ends := map[uuid.UUID][]api.JobRunOutcome{}
	for i := range definitions {
		ids[i] = definitions[i].ID
	}
	if with.recentRuns && len(ids) > 0 {
		found, err := s.Runs.RecentEnds(ctx, httpkit.RequestOf(ctx).Tenant.ID, ids, recentRuns)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			ends[e.DefinitionID] = append(ends[e.DefinitionID], api.JobRunOutcome{
				RunID: e.RunID, State: api.JobRunState(e.State), FinishedAt: e.At,
			})
		}
	}
	return httpkit.Each(definitions, func(d *jobrun.Definition) shownDefinition {
		out := showDefinition(d, now)
		if with.recentRuns {
			out.RecentRuns = append([]api.JobRunOutcome{}, ends[d.ID]...)
		}
		if with.nextRunAt {
			out.NextRunAt = nextRun(d, now)
		}
		return out
	}), nil
}

// nextRun returns the next slot of a definition's schedule, or nil if the schedule creates no runs.
func nextRun(d *jobrun.Definition, now time.Time) *time.Time {
	if d.Spec.Schedule == nil || !d.Enabled || d.Paused(now) {
		return nil
	}
	compiled, err := jobrun.CompileSchedule("/schedule", *d.Spec.Schedule)
	if err != nil {
		return nil // it was valid when it was stored, but its time zone no longer exists
	}
	for _, t := range compiled.Preview(now.Add(-1), 1) { // Next is exclusive
		if t.Note != schedule.SkippedGap {
			return &t.At
		}
	}
	return nil
}

func definitionPath(d *jobrun.Definition) string {
	return "/api/v1/job-definitions/" + url.PathEscape(d.ID.String())
}
