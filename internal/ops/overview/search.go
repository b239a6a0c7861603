package overview

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MostHits is the maximum number of hits of one kind that a search returns.
const MostHits = 10

// HitKind is the kind of a hit.
type HitKind string

// Kinds of hits.
const (
	HitSaga       HitKind = "saga"
	HitRun        HitKind = "job_run"
	HitLetter     HitKind = "dead_letter"
	HitGroup      HitKind = "dead_letter_group"
	HitRedrive    HitKind = "redrive"
	HitWorker     HitKind = "worker"
	HitWebhook    HitKind = "webhook"
	HitWorkflow   HitKind = "workflow"
	HitDefinition HitKind = "job_definition"
	HitTopic      HitKind = "topic"
)

// Match is the field that matched.
type Match string

// Fields that are searched.
const (
	ByID          Match = "id"
	ByFingerprint Match = "fingerprint"
	ByBusinessKey Match = "business_key"
	ByCorrelation Match = "correlation_id"
	ByTrace       Match = "trace_id"
	ByName        Match = "name"
)

// Hit is one result of a search.
type Hit struct {
	Kind     HitKind
	ID       string
	Title    string
	State    string // "": the hit has none
	Archived bool
	At       *time.Time
	Matched  Match
	Begins   bool // the match is only a prefix match
}

// Part returns the part of the overview that the caller must be allowed to read.
func (h *Hit) Part() Part {
	switch h.Kind {
	case HitSaga, HitWorkflow:
		return Sagas
	case HitWebhook:
		return Webhooks
	case HitLetter, HitGroup, HitRedrive, HitTopic:
		return DeadLetters
	}
	return JobRuns
}

// Query is a person's search query.
type Query struct {
	Text        string
	Prefix      string    // text that keys and names may begin with instead of matching exactly
	ID          uuid.UUID // zero: it cannot be one
	Fingerprint string    // "": it cannot be one
	Shown       Shown
}

// Shown lists the parts, apart from sagas, that the caller may read.
type Shown struct{ Letters, Runs bool }

var fingerprint = regexp.MustCompile(`^[0-9a-f]{32}$`)

// AskedFor parses the text that a person typed or pasted. IDs may be in upper case or in braces.
func AskedFor(text string, show Shown) Query {
	q := Query{Text: strings.TrimSpace(text), Shown: show}
	q.Prefix = cmp.Or(strings.TrimSuffix(q.Text, "*"), q.Text)
	if id, err := uuid.Parse(q.Text); err == nil {
		q.ID = id
	}
	if low := strings.ToLower(q.Text); fingerprint.MatchString(low) {
		q.Fingerprint = low
	}
	return q
}

// Link returns the path of the operation that returns the hit.
func (h *Hit) Link() string {
	lists := map[HitKind]string{
		HitSaga: "sagas", HitRun: "job-runs", HitLetter: "dlq/messages", HitGroup: "dlq/groups", HitRedrive: "dlq/redrives",
		HitWorker: "workers", HitWebhook: "webhooks", HitWorkflow: "workflows", HitDefinition: "job-definitions",
		HitTopic: "dlq/topics",
	}
	list := lists[h.Kind]
	if h.Kind == HitLetter && h.Archived {
		list = "dlq/archive"
	}
	return "/api/v1/" + list + "/" + url.PathEscape(h.ID)
}
