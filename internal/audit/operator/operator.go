// Package operator is the audit trail of operators: their actions, and Skald's own, on
// everything but sagas, which have their own trail of events. An action is written in
// the transaction of the change that it records, sealed into its tenant's chain soon
// after, and never changed again (docs/decisions/0048-one-record-of-actions.md). GET /audit
// lists them together with what operators did to sagas, read from those events (0102).
package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Kind is the type of an action's subject.
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
	JobFence      Kind = "job_fence"     // subject: the key
	JobQueue      Kind = "job_queue"     // subject: the name

	Workflow      Kind = "workflow"    // subject: the name
	Participant   Kind = "participant" // subject: the name
	Webhook       Kind = "webhook"
	APIKey        Kind = "api_key"
	Session       Kind = "session"
	Retention     Kind = "retention" // subject: what was cleaned up
	Schema        Kind = "schema"    // subject: the migration
	Erasure       Kind = "erasure"   // subject: what was retried, such as saga:ID
	SagaBulk      Kind = "saga_bulk"
	Certification Kind = "certification"
	Saga          Kind = "saga" // never recorded: its events are
)

// Kinds lists every kind.
var Kinds = []Kind{
	DeadLetter, DeadGroup, TopicPolicy, Redrive,
	JobDefinition, JobRun, JobBackfill, JobBulk, JobWorker, JobScheduler, JobSettings, JobFence, JobQueue,
	Workflow, Participant, Webhook, APIKey, Session, Retention, Schema, Erasure, SagaBulk, Certification, Saga,
}

// Deployment takes the place of the tenant in actions that concern all of them: no
// tenant has this id.
var Deployment = uuid.Nil

// Action is the record of one change.
type Action struct {
	ID       uuid.UUID // UUIDv7
	TenantID uuid.UUID
	At       time.Time
	Kind     Kind
	Subject  string // id of the changed object
	// SubjectName is the subject's name as it is now; "": it is the subject, or unknown. Only
	// lists have it.
	SubjectName string

	Verb      string // e.g. discard; the last word of the operation
	Actor     string // subject of the credential; "" for Skald itself
	ActorName string // principal.Principal.Name at that time
	Reason    string
	RequestID string
	// Detail is what changed, as canonical JSON without payloads; nil: the verb is enough. For
	// a deletion it is the tombstone.
	Detail json.RawMessage

	Credential uuid.UUID // the API key's id; zero: none, or another credential
	Address    string    // of the request's client; "": not from a network
	Operation  string    // operationId of the contract, or the command; "": none
	// Before and After are Hash of the subject; nil: it did not exist, or its kind is
	// not hashed.
	Before, After []byte
	Result        string // Done when empty
}

// Place is its position in a list.
func (a *Action) Place() page.TimeID { return page.TimeID{At: a.At, ID: a.ID} }

// Results of actions.
const (
	Done  = "done"  // the request was carried out, in the transaction of this record
	Asked = "asked" // it will be carried out, in many transactions
)

// MaxReason bounds a reason, in characters.
const MaxReason = 500

// By is the actor, as recorded in an Action.
type By struct {
	Actor      string
	ActorName  string
	Reason     string // at most MaxReason characters
	RequestID  string
	Credential uuid.UUID
	Address    string
	Operation  string
}

type byKey struct{}

// As returns ctx with the actor: stores that record their own changes read it from
// there, so that no caller can forget to pass it.
func As(ctx context.Context, by By) context.Context { return context.WithValue(ctx, byKey{}, by) }

// Acting returns the actor in ctx; the zero By is Skald itself.
func Acting(ctx context.Context) By {
	by, _ := ctx.Value(byKey{}).(By)
	return by
}

// Did returns the record of an action by by on a subject.
func (by By) Did(id, tenant uuid.UUID, at time.Time, kind Kind, subject, verb string, detail json.RawMessage) Action {
	return Action{
		ID: id, TenantID: tenant, At: at, Kind: kind, Subject: subject, Verb: verb,
		Actor: by.Actor, ActorName: by.ActorName, Reason: by.Reason, RequestID: by.RequestID, Detail: detail,
		Credential: by.Credential, Address: by.Address, Operation: by.Operation,
	}
}

// From returns the action with the hashes of its subject before and after; nil: it did
// not exist.
func (a Action) From(before, after any) Action {
	a.Before, a.After = Hash(before), Hash(after)
	return a
}

// Deed is something that an actor did, of which an object has kept who and when.
type Deed struct {
	Actor string
	At    time.Time
	About []string  // subjects of which one is that of the action's record
	Saga  uuid.UUID // that the actor may have started; zero: none
}

// Filter selects actions; zero fields do not restrict.
type Filter struct {
	Kind    Kind
	Subject string
	Actor   string
	Verb    string

	Operation string
	RequestID string
	From      time.Time // inclusive
	To        time.Time // exclusive
	// Sagas: with what operators did to sagas.
	Sagas bool

	page.ByTime
}

// Log is the record of the actions of a tenant.
type Log interface {
	// Record stores an action whose work takes many transactions, before the first of them. It
	// is durable on return.
	Record(ctx context.Context, a Action) error
	Actions(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Action], error)
	// Names returns what people called the actors of a tenant's deeds, as it is recorded with what
	// they did; "" where nothing is recorded, or no name.
	Names(ctx context.Context, tenant uuid.UUID, deeds []Deed) ([]string, error)
}
