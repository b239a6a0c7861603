package jobrun

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Request is a request for a run.
type Request struct {
	ID           uuid.UUID // zero: a new id
	Trigger      Trigger
	Key          string    // idempotency key, from one of the key functions below
	ScheduledFor time.Time // zero: now
	Repeats      time.Time // the ScheduledFor of the run that it repeats, and its own, but it is due now; zero: none
	Args         json.RawMessage
	Priority     *int // nil: the definition's
	Labels       map[string]string
	// Immediate runs ignore concurrency policies: respect_concurrency false.
	Immediate bool
	// NotForbidden runs wait for their key if the definition's policy is forbid.
	NotForbidden  bool
	Policy        Policy // a backfill's override; "": the definition's
	RootRunID     uuid.UUID
	RetryOfRunID  uuid.UUID
	RetryNumber   int
	SagaID        uuid.UUID
	SagaStep      int
	SagaAction    string
	EventID       uuid.UUID
	LetterID      uuid.UUID
	BackfillID    uuid.UUID
	CorrelationID string
	TraceID       string
	TraceState    string
	Baggage       string
	By            string // the subject of the initiator
	As            string // the role of the requester; "": determined by the trigger
}

// These functions return the idempotency keys of runs (S4). Each key is unique within its tenant.

// TimeKey returns the key of a slot's run (J-22).
func TimeKey(definition uuid.UUID, slot time.Time) string {
	return fmt.Sprintf("time:%s:%s", definition, slot.UTC().Format(time.RFC3339Nano))
}

// EventKey returns the key of the run of a definition that an event triggers.
func EventKey(event, definition uuid.UUID) string {
	return fmt.Sprintf("event:%s:%s", event, definition)
}

// ManualKey returns the key of a requested run, derived from a principal's Idempotency-Key or from
// a new id.
func ManualKey(key string) string { return "manual:" + key }

// BackfillKey returns the key of the run that a backfill creates for a slot.
func BackfillKey(backfill uuid.UUID, slot time.Time) string {
	return fmt.Sprintf("backfill:%s:%s", backfill, slot.UTC().Format(time.RFC3339Nano))
}

// SagaKey returns the key of the n-th run of a saga step's action. It contains the tenant unless
// that is uuid.Nil, because two tenants may have the same saga id and their workers may write to
// the same system (decision 0051).
func SagaKey(tenant, saga uuid.UUID, step int, action string, n int) string {
	key := fmt.Sprintf("saga:%s:%d:%s:%d", saga, step, action, n)
	if tenant != uuid.Nil {
		key = tenant.String() + "/" + key
	}
	return key
}

// FollowKey returns the key of a follow-up run; key distinguishes the follow-ups of one
// run.
func FollowKey(run uuid.UUID, key string) string { return fmt.Sprintf("follow:%s:%s", run, key) }

// LetterKey returns the key of the n-th retry of a dead letter.
func LetterKey(letter uuid.UUID, n int) string { return fmt.Sprintf("dlq:%s:%d", letter, n) }

// New returns the run of d that a requests. It is PENDING, and already admitted if it is due and
// ignores concurrency policies. The leader admits all other runs.
func New(d *Definition, a Request, s Settings, m Moment) Run {
	id := a.ID
	if id == uuid.Nil {
		id = m.NewID()
	}
	slot := a.ScheduledFor
	if slot.IsZero() {
		slot = m.Now
	}
	due := slot
	if !a.Repeats.IsZero() {
		slot = a.Repeats
	}
	if a.Trigger == ByTime && d.Spec.JitterMS > 0 {
		due = due.Add(time.Duration(m.Jitter * float64(d.Spec.JitterMS) * float64(time.Millisecond)))
	}
	r := Run{
		ID:             id,
		TenantID:       d.TenantID,
		DefinitionID:   d.ID,
		DefinitionName: d.Name,
		SpecVersion:    d.SpecVersion,
		CommandName:    d.Spec.CommandName,
		Version:        1,
		State:          Pending,
		Trigger:        a.Trigger,
		ScheduledFor:   slot.UTC(),
		AvailableAt:    due.UTC(),
		Queue:          d.Spec.Queue,
		Priority:       d.Spec.Priority,
		RequiredLabels: Pairs(d.Spec.Requires),
		Labels:         Pairs(d.Spec.Labels, a.Labels),
		Args:           a.Args,
		IdempotencyKey: a.Key,
		Concurrency:    d.Spec.Concurrency,
		TimeoutMS:      d.Spec.TimeoutMS,
		MaxLosses:      d.Spec.MaxLosses,
		Continuation:   NoDoubt,
		RootRunID:      a.RootRunID,
		RetryOfRunID:   a.RetryOfRunID,
		RetryNumber:    a.RetryNumber,
		SagaID:         a.SagaID,
		SagaStep:       a.SagaStep,
		SagaAction:     a.SagaAction,
		EventID:        a.EventID,
		LetterID:       a.LetterID,
		BackfillID:     a.BackfillID,
		CorrelationID:  a.CorrelationID,
		TraceID:        a.TraceID,
		TraceState:     a.TraceState,
		Baggage:        a.Baggage,
		CreatedAt:      m.Now,
		UpdatedAt:      m.Now,
		InitiatedBy:    a.By,
		InitiatedAs:    a.As,
	}
	r.InitiatedAs = r.Rights()
	if r.Queue == "" {
		r.Queue = DefaultQueue
	}
	if r.MaxLosses == 0 {
		r.MaxLosses = s.Int(MaxLosses)
	}
	if r.RootRunID == uuid.Nil {
		r.RootRunID = id
	}
	if r.Args == nil {
		r.Args = d.Spec.DefaultArgs
	}
	if a.Priority != nil {
		r.Priority = *a.Priority
	}
	if a.Policy != "" {
		r.Concurrency = a.Policy
	}
	if r.Concurrency == "" {
		r.Concurrency = Allow
	}
	if r.Concurrency == Forbid && a.NotForbidden {
		r.Concurrency = Queue
	}
	if r.Concurrency != Allow && !a.Immediate {
		if r.ConcurrencyKey = d.Spec.ConcurrencyKey; r.ConcurrencyKey == "" {
			r.ConcurrencyKey = d.ID.String()
		}
	}
	if r.ConcurrencyKey == "" && !due.After(m.Now) {
		r.AdmittedAt = &m.Now
	}
	return r
}

// Pairs returns labels as sorted name=value pairs. For a name in several maps, the last map takes
// precedence.
func Pairs(sets ...map[string]string) []string {
	all := map[string]string{}
	for _, set := range sets {
		for k, v := range set {
			all[k] = v
		}
	}
	out := make([]string, 0, len(all))
	for k, v := range all {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// RerunRequest returns the request for a manual rerun of an ended run. The rerun has the same slot,
// arguments, priority, labels and links, and a fresh budget. The caller sets the key.
func RerunRequest(r *Run) Request {
	labels := make(map[string]string, len(r.Labels))
	for _, pair := range r.Labels {
		name, value, _ := strings.Cut(pair, "=")
		labels[name] = value
	}
	return Request{
		Trigger:       ByHand,
		Repeats:       r.ScheduledFor,
		Args:          r.Args,
		Priority:      &r.Priority,
		Labels:        labels,
		RootRunID:     r.RootRunID,
		RetryOfRunID:  r.ID,
		RetryNumber:   r.RetryNumber + 1,
		CorrelationID: r.CorrelationID,
		TraceID:       r.TraceID,
		TraceState:    r.TraceState,
		Baggage:       r.Baggage,
	}
}

// These are the roles whose permissions runs may have, named as in package access.
const (
	AsAdmin    = "admin"
	AsOperator = "operator"
)

// Rights returns the role whose permissions a run of a built-in command has. A manual run has its
// requester's role. Slots and backfills have the administrator's role, because configuring
// schedules and backfills requires jobs:admin. Runs of events, sagas and dead letters have the
// operator's role, because the principal that publishes, starts or retries did not configure the
// link. Runs of unknown origin have the operator's role as well.
func (r *Run) Rights() string {
	switch {
	case r.InitiatedAs != "":
		return r.InitiatedAs
	case r.Trigger == ByTime, r.Trigger == ByBackfill:
		return AsAdmin
	}
	return AsOperator
}

// Alone reports whether a run is created only if no other run with its concurrency key is active.
// This applies to manual runs with the policy forbid.
func (r *Run) Alone() bool {
	return r.Trigger == ByHand && r.Concurrency == Forbid && r.ConcurrencyKey != ""
}
