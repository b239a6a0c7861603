package dlq

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// Moment carries everything non-deterministic that a decision needs.
type Moment struct {
	Now    time.Time
	Jitter float64 // in [0,1)
}

// Chance supplies ids and random numbers to rules that stores apply to many letters, because stores
// create neither. Both functions are safe for concurrent use.
type Chance struct {
	Jitter func() float64   // in [0,1)
	NewID  func() uuid.UUID // UUIDv7
}

// At returns the Moment for one letter.
func (c Chance) At(now time.Time) Moment { return Moment{Now: now, Jitter: c.Jitter()} }

// Conflict returns the fault for an action that the letter's status does not allow.
func (l *Letter) Conflict(what string) *fault.Error {
	return fault.New(fault.Conflict, CodeConflict, "the dead letter is %s and cannot be %s", l.Status, what).Allowing(l.Actions())
}

// Unretryable returns the fault that prevents a retry. It returns nil if the letter may be retried,
// that is, if it is PENDING, or DEAD and force is set.
func (l *Letter) Unretryable(force bool) error {
	switch {
	case CanMove(l.Status, Claimed), force && CanMove(l.Status, ForcedClaim):
		return nil
	case CanMove(l.Status, ForcedClaim):
		return fault.New(fault.Conflict, CodeConflict, "the dead letter is DEAD: retry it with \"force\": true and a reason, or requeue it").Allowing(l.Actions())
	}
	return l.Conflict("retried")
}

// Waited reports whether a saga is waiting for the letter. Such a letter ends together with the
// saga's step, and can be discarded or deleted only with force.
func (l *Letter) Waited() bool { return l.Source == FromSaga && l.Status != Resolved }

// Actions lists the actions that a letter currently accepts without force. A DEAD letter must be
// requeued first, and a letter that a saga is waiting for cannot be discarded or deleted.
func (l *Letter) Actions() []string {
	all := l.statusActions()
	if !l.Waited() {
		return all
	}
	return slices.DeleteFunc(all, func(verb string) bool { return verb == VerbDiscard || verb == VerbDelete })
}

func (l *Letter) statusActions() []string {
	switch l.Status {
	case Pending:
		return []string{VerbRetry, VerbDiscard, VerbResolve, VerbUpdate, VerbDelete}
	case Dead:
		return []string{VerbRequeue, VerbResolve, VerbUpdate, VerbDelete}
	case Resolved:
		if l.Resolution == Redriven {
			return []string{VerbAck, VerbUpdate, VerbDelete}
		}
		return []string{VerbUpdate, VerbDelete}
	}
	return []string{VerbUpdate}
}

// decision accumulates a Change while the rules are applied.
type decision struct {
	Change
	m       Moment
	same    bool              // the report is a duplicate
	illegal *IllegalEdgeError // the first transition that the table does not contain; nil if there is none
}

// newDecision begins a change of l.
func newDecision(l *Letter, m Moment) *decision {
	return &decision{Change: Change{Before: Precondition{l.Version, l.Token}, After: *l}, m: m}
}

// done returns the change, with the letter at its next version.
func (d *decision) done() Change {
	if !d.same {
		d.After.Version++
		d.After.UpdatedAt = d.m.Now
	}
	return d.Change
}

// to moves the letter along one edge. If the table does not contain the edge, nothing of the
// decision is stored.
func (d *decision) to(next Status, on Trigger) {
	if d.illegal == nil && !edge(d.After.Status, next, on) {
		d.illegal = &IllegalEdgeError{From: d.After.Status, To: next, On: on}
	}
	d.After.Status = next
}

// refuses returns the fault for an action that the table does not allow in this status, or nil if
// it is allowed.
func (d *decision) refuses(on Trigger, what string) error {
	if CanMove(d.After.Status, on) {
		return nil
	}
	return d.After.Conflict(what).Because(&IllegalEdgeError{From: d.After.Status, On: on})
}

func (d *decision) requeue(e RequeueRequested) error {
	if no := d.refuses(Requeue, "requeued"); no != nil {
		return no
	}
	l := &d.After
	if e.MaxRetries != nil {
		l.MaxRetries = *e.MaxRetries
	}
	if e.Reset {
		l.RetryCount = 0
	}
	l.MaxRetries = max(l.MaxRetries, l.RetryCount+1)
	d.open(Requeue, e.Policy)
	return nil
}

func (d *decision) discard() error {
	if no := d.refuses(Discard, "discarded"); no != nil {
		return no
	}
	d.end(Discard, Discarded)
	return nil
}

func (d *decision) resolve() error {
	if no := d.refuses(Resolve, "resolved manually"); no != nil {
		return no
	}
	d.end(Resolve, Manual)
	return nil
}

func (d *decision) consumerReported(e ConsumerReported) error {
	l := &d.After
	switch {
	case l.Resolution == Confirmed && e.Processed && e.Generation == l.Generation:
		d.same = true // reported twice
		return nil
	case l.Resolution != Redriven || !CanMove(l.Status, Confirm) || !CanMove(l.Status, Refute):
		return l.Conflict("acknowledged")
	case e.Generation != l.Generation:
		return fault.New(fault.Conflict, CodeConflict, "the dead letter is in generation %d, not %d", l.Generation, e.Generation)
	case e.Processed:
		d.end(Confirm, Confirmed)
		return nil
	}
	l.RetryCount++
	if l.RetryCount >= l.MaxRetries {
		l.RetryCount = max(l.MaxRetries, 0)
		d.end(Refute, Exhausted)
		return nil
	}
	d.open(Refute, e.Policy)
	return nil
}

func (d *decision) restore() error {
	if no := d.refuses(Restore, "restored"); no != nil {
		return no
	}
	l := &d.After
	d.to(Pending, Restore)
	l.Resolution, l.TerminalAt, l.NextRetryAt = "", nil, nil
	l.MaxRetries = max(l.MaxRetries, l.RetryCount+1)
	return nil
}

// Deletable returns nil if the letter may be deleted, and a Conflict fault while it is being
// retried.
func (l *Letter) Deletable() error {
	if l.Status == Retrying {
		return l.Conflict("deleted")
	}
	return nil
}

// edit applies an edit. Faults: Conflict if the status forbids it; Invalid if it would leave a
// PENDING letter without a retry (invariant D3).
func (d *decision) edit(e Edit) error {
	l := &d.After
	if e.MaxRetries != nil {
		switch {
		case l.Status == Retrying:
			return l.Conflict("given a new number of retries")
		case l.Status == Pending && *e.MaxRetries <= l.RetryCount:
			return invalid("/max_retries", "too_small", fmt.Sprintf("must be greater than retry_count, which is %d: to stop retries, discard the letter", l.RetryCount))
		}
		l.MaxRetries = max(*e.MaxRetries, l.RetryCount)
	}
	if e.NextRetryAt != nil {
		if l.Status != Pending {
			return l.Conflict("rescheduled")
		}
		at := e.NextRetryAt.UTC().Truncate(time.Microsecond)
		l.NextRetryAt, l.HeldRetryAt, l.RetryAsked = &at, nil, true
	}
	if e.Labels != nil {
		l.Labels = slices.Clone(e.Labels)
		slices.Sort(l.Labels)
		l.Labels = slices.Compact(l.Labels)
	}
	if e.Assignee != nil {
		l.Assignee = *e.Assignee
	}
	if e.Note != nil {
		l.Note = *e.Note
	}
	return nil
}

// open sets the letter to PENDING.
func (d *decision) open(on Trigger, p *Policy) {
	d.to(Pending, on)
	d.After.waits(p, d.m)
}

// end moves the letter to a terminal status.
func (d *decision) end(on Trigger, why Resolution) {
	l := &d.After
	was := l.Status
	d.to(why.Status(), on)
	if l.TerminalAt == nil || l.Status != was {
		l.TerminalAt = &d.m.Now
	}
	l.Resolution, l.NextRetryAt, l.HeldRetryAt, l.RetryAsked = why, nil, nil, false
}

// waits sets the time of the next retry of l, which must be PENDING.
func (l *Letter) waits(p *Policy, m Moment) {
	l.Resolution, l.TerminalAt = "", nil
	l.NextRetryAt = l.nextRetry(p, l.Failures(), m)
	l.HeldRetryAt, l.RetryAsked = nil, false
}

// nextRetry returns the time of the next automatic retry after this many failures, or nil if there
// is none.
func (l *Letter) nextRetry(p *Policy, failures int, m Moment) *time.Time {
	if l.HeldAsPermanent(p) {
		return nil
	}
	return p.NextRetry(l.Source, failures, m.Now, m.Jitter)
}

// HeldAsPermanent reports whether l waits for an operator because a retry would only fail
// again.
func (l *Letter) HeldAsPermanent(p *Policy) bool {
	return l.Failure.Class == Permanent && l.Source.automatic() && !p.RetryPermanent
}

// NotFound returns the fault for a letter that does not exist in the tenant.
func NotFound(id uuid.UUID) *fault.Error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no dead letter %s", id)
}

// Stale returns the fault for a change based on an outdated version of a letter; present is the
// stored letter.
func Stale(id uuid.UUID, present int64) *fault.Error {
	return fault.New(fault.Precondition, CodeStale, "dead letter %s is at version %d", id, present)
}

// TargetNotConfigured returns the fault for a retry to a kind of target that this server is not
// configured for.
func TargetNotConfigured(kind TargetKind) string {
	if kind == ToKafka {
		return "Kafka is not configured: set kafka.brokers (SKALD_KAFKA_BROKERS), or give the letter an HTTP target"
	}
	return "target kind " + string(kind) + " is not configured on this server"
}
