// Package operator is what is kept of the actions of operators on anything but
// sagas: dead letters, redrives, policies, job runs. Sagas have their own
// trail of events. An action is written in the transaction of the change it
// tells of, and never changed again (DESIGN.md section 5: /audit).
package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Kind says what an action was done to.
type Kind string

// Kinds of subjects.
const (
	DeadLetter  Kind = "dead_letter"
	DeadGroup   Kind = "dead_letter_group" // subject: the fingerprint
	TopicPolicy Kind = "topic_policy"      // subject: the topic
	Redrive     Kind = "redrive"

	JobDefinition Kind = "job_definition"
	JobRun        Kind = "job_run"
	JobBackfill   Kind = "job_backfill"
	JobBulk       Kind = "job_bulk"
	JobWorker     Kind = "job_worker"
	JobScheduler  Kind = "job_scheduler" // subject: the node that leads
	JobSettings   Kind = "job_settings"  // subject: the setting
)

// Kinds is every kind.
var Kinds = []Kind{
	DeadLetter, DeadGroup, TopicPolicy, Redrive,
	JobDefinition, JobRun, JobBackfill, JobBulk, JobWorker, JobScheduler, JobSettings,
}

// Action is one thing somebody did.
type Action struct {
	ID        uuid.UUID // UUIDv7
	TenantID  uuid.UUID
	At        time.Time
	Kind      Kind
	Subject   string // id of what it was done to
	Verb      string // e.g. discard; the operation's last word
	Actor     string // subject of the credential; "" for Skald itself
	Reason    string
	RequestID string
	// Detail is what changed, as canonical JSON without payloads; nil: nothing
	// beyond the verb. Of a deletion it is the tombstone.
	Detail json.RawMessage
}

// By is who acts, for those who make an Action of it.
type By struct {
	Actor     string
	Reason    string // at most 500 characters
	RequestID string
}

// Did returns the action of by on a subject.
func (by By) Did(id, tenant uuid.UUID, at time.Time, kind Kind, subject, verb string, detail json.RawMessage) Action {
	return Action{
		ID: id, TenantID: tenant, At: at, Kind: kind, Subject: subject, Verb: verb,
		Actor: by.Actor, Reason: by.Reason, RequestID: by.RequestID, Detail: detail,
	}
}

// Filter selects actions; zero fields do not restrict.
type Filter struct {
	Kind    Kind
	Subject string
	Actor   string
	Verb    string
	From    time.Time // inclusive
	To      time.Time // exclusive

	Limit  int     // 1..200
	Offset int     // page mode
	After  *Cursor // cursor mode; then Offset is 0
	Total  bool    // count as well, up to ten thousand
}

// Cursor is the last action of the page before.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// Page is one page of actions, newest first.
type Page struct {
	Actions     []Action
	More        bool
	Total       int64 // when Filter.Total
	TotalCapped bool  // there are at least Total
}

// Log shows the actions of a tenant.
type Log interface {
	Actions(ctx context.Context, tenant uuid.UUID, f Filter) (Page, error)
}
