// Package operator is the audit trail of operators. It contains their actions, and Skald's own, on
// everything except sagas, which have an audit trail of events. An action is written in the
// transaction of the change that it records, sealed into its tenant's chain soon after, and never
// changed again (docs/decisions/0048-one-record-of-actions.md). GET /audit lists these actions
// together with operators' actions on sagas, which it reads from the events (0102).
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
	JobSettings   Kind = "job_settings"  // subject: the name of the setting
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
	Saga          Kind = "saga" // never recorded as an action, because sagas have events
)

// Kinds lists all kinds.
var Kinds = []Kind{
	DeadLetter, DeadGroup, TopicPolicy, Redrive,
	JobDefinition, JobRun, JobBackfill, JobBulk, JobWorker, JobScheduler, JobSettings, JobFence, JobQueue,
	Workflow, Participant, Webhook, APIKey, Session, Retention, Schema, Erasure, SagaBulk, Certification, Saga,
}

// Deployment is used instead of a tenant in actions that concern all tenants; no tenant has this
// id.
var Deployment = uuid.Nil

// Action is the record of one change.
type Action struct {
	ID       uuid.UUID // UUIDv7
	TenantID uuid.UUID
	At       time.Time
	Kind     Kind
	Subject  string // id of the changed object
	// SubjectName is the current name of the subject. It is "" if the name equals the subject or is
	// unknown. It is set only in lists.
	SubjectName string

	Verb      string // for example discard; the last word of the operation
	Actor     string // subject of the credential; "" for Skald itself
	ActorName string // principal.Principal.Name at the time of the action
	Reason    string
	RequestID string
	// Detail contains the changes, as canonical JSON without payloads; nil means that the verb says
	// enough. For a deletion it is the tombstone.
	Detail json.RawMessage

	Credential uuid.UUID // the API key's id; zero: no credential, or one that is not an API key
	Address    string    // of the request's client; "": not from a network
	Operation  string    // operationId of the contract, or the command; "": none
	// Before and After are the Hash of the subject. Nil means that the subject did not exist or
	// that its kind is not hashed.
	Before, After []byte
	Result        string // "" means Done
}

// Place returns the action's position in a list.
func (a *Action) Place() page.TimeID { return page.TimeID{At: a.At, ID: a.ID} }

// Results of actions.
const (
	Done  = "done"  // the request was carried out in the transaction of this record
	Asked = "asked" // it will be carried out in many transactions
)

// MaxReason is the maximum length of a reason, in characters.
const MaxReason = 500

// By is the actor as recorded in an Action.
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

// As returns ctx with the actor. Stores that record their own changes read the actor from ctx, so
// that no caller can forget to pass it.
func As(ctx context.Context, by By) context.Context { return context.WithValue(ctx, byKey{}, by) }

// Acting returns the actor in ctx; the zero By means Skald itself.
func Acting(ctx context.Context) By {
	by, _ := ctx.Value(byKey{}).(By)
	return by
}

// Did returns the record of an action by the actor by on a subject.
func (by By) Did(id, tenant uuid.UUID, at time.Time, kind Kind, subject, verb string, detail json.RawMessage) Action {
	return Action{
		ID: id, TenantID: tenant, At: at, Kind: kind, Subject: subject, Verb: verb,
		Actor: by.Actor, ActorName: by.ActorName, Reason: by.Reason, RequestID: by.RequestID, Detail: detail,
		Credential: by.Credential, Address: by.Address, Operation: by.Operation,
	}
}

// From returns the action with the hashes of its subject before and after the change; nil means
// that the subject did not exist.
func (a Action) From(before, after any) Action {
	a.Before, a.After = Hash(before), Hash(after)
	return a
}

// Deed is something that an actor did. The object concerned has stored the actor and the time.
type Deed struct {
	Actor string
	At    time.Time
	About []string  // possible subjects of the action's record
	Saga  uuid.UUID // a saga that the actor may have started; zero: none
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
	// Sagas includes operators' actions on sagas.
	Sagas bool

	page.ByTime
}

// Log is the record of the actions of a tenant.
type Log interface {
	// Record stores an action whose work takes many transactions, before the first of them. The
	// action is durable on return.
	Record(ctx context.Context, a Action) error
	Actions(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Action], error)
	// Names returns the names of the actors of a tenant's deeds, as recorded with their actions. It
	// returns "" where no action or no name is recorded.
	Names(ctx context.Context, tenant uuid.UUID, deeds []Deed) ([]string, error)
}
