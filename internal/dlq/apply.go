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

// Chance supplies ids and random numbers to rules that stores call for many letters;
// stores create neither themselves. Both functions are safe for concurrent use.
type Chance struct {
	Jitter func() float64   // in [0,1)
	NewID  func() uuid.UUID // UUIDv7
}

// At is the Moment of one letter.
func (c Chance) At(now time.Time) Moment { return Moment{Now: now, Jitter: c.Jitter()} }

// Conflict is the fault for a letter whose status does not allow an action.
func (l *Letter) Conflict(what string) *fault.Error {
	return fault.New(fault.Conflict, CodeConflict, "the dead letter is %s and cannot be %s", l.Status, what).Allowing(l.Actions())
}

// Unretryable returns the fault that prevents a retry, nil when the letter may be
// retried: PENDING, or DEAD with force.
func (l *Letter) Unretryable(force bool) error {
	switch {
	case CanMove(l.Status, Claimed), force && CanMove(l.Status, ForcedClaim):
		return nil
	case CanMove(l.Status, ForcedClaim):
		return fault.New(fault.Conflict, CodeConflict, "the dead letter is DEAD: retry it with \"force\": true and a reason, or requeue it").Allowing(l.Actions())
	}
	return l.Conflict("retried")
}

// Waited reports whether a saga waits for the letter. Such a letter ends with the saga's step, and
// is discarded or deleted only with force.
func (l *Letter) Waited() bool { return l.Source == FromSaga && l.Status != Resolved }

// Actions lists what can be done to a letter now without force: a DEAD one is requeued
// first, and one that a saga waits for is neither discarded nor deleted.
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

// Requeued returns a DEAD letter made PENDING again. maxRetries, unless nil, is its new
// limit; reset sets its count to 0. Without reset and without a higher limit, one more
// retry is granted: a PENDING letter can always be retried (invariant D3).
func (l Letter) Requeued(reset bool, maxRetries *int, p *Policy, m Moment) (Letter, error) {
	if !CanMove(l.Status, Requeue) {
		return l, l.Conflict("requeued")
	}
	if maxRetries != nil {
		l.MaxRetries = *maxRetries
	}
	if reset {
		l.RetryCount = 0
	}
	l.MaxRetries = max(l.MaxRetries, l.RetryCount+1)
	l.opened(Requeue, p, m)
	return l.next(m), nil
}

// Discarded returns a PENDING letter that is given up.
func (l Letter) Discarded(m Moment) (Letter, error) {
	if !CanMove(l.Status, Discard) {
		return l, l.Conflict("discarded")
	}
	return l.ended(Discard, Discarded, m), nil
}

// ResolvedManually returns a letter that was dealt with elsewhere.
func (l Letter) ResolvedManually(m Moment) (Letter, error) {
	if !CanMove(l.Status, Resolve) {
		return l, l.Conflict("resolved manually")
	}
	return l.ended(Resolve, Manual, m), nil
}

// Acknowledged returns a redriven letter after its consumer has reported the result for
// generation: processed, or failed again.
func (l Letter) Acknowledged(generation int, processed bool, p *Policy, m Moment) (Letter, error) {
	switch {
	case l.Resolution == Confirmed && processed && generation == l.Generation:
		return l, nil // told twice
	case l.Resolution != Redriven || !CanMove(l.Status, Confirm) || !CanMove(l.Status, Refute):
		return l, l.Conflict("acknowledged")
	case generation != l.Generation:
		return l, fault.New(fault.Conflict, CodeConflict, "the dead letter is in generation %d, not %d", l.Generation, generation)
	case processed:
		return l.ended(Confirm, Confirmed, m), nil
	}
	l.RetryCount++
	if l.RetryCount >= l.MaxRetries {
		l.RetryCount = max(l.MaxRetries, 0)
		return l.ended(Refute, Exhausted, m), nil
	}
	l.opened(Refute, p, m)
	return l.next(m), nil
}

// Restored returns an archived letter as it is among the live ones: PENDING, with a
// retry left (invariant D3), and without an automatic one.
func (l Letter) Restored(m Moment) (Letter, error) {
	if !CanMove(l.Status, Restore) {
		return l, l.Conflict("restored")
	}
	l.Status, l.Resolution, l.TerminalAt, l.NextRetryAt = moved(l.Status, Pending, Restore), "", nil, nil
	l.MaxRetries = max(l.MaxRetries, l.RetryCount+1)
	return l.next(m), nil
}

// Deletable returns nil when the letter may be deleted. Fault: Conflict while it is
// being retried.
func (l *Letter) Deletable() error {
	if l.Status == Retrying {
		return l.Conflict("deleted")
	}
	return nil
}

// Edit is what PATCH changes; nil members stay as they are.
type Edit struct {
	MaxRetries  *int
	NextRetryAt *time.Time
	Labels      []string // nil: as they are; empty: none
	Assignee    *string
	Note        *string
}

// Edited applies an edit. Faults: Conflict when the status forbids it, Invalid
// when a PENDING letter would be left without a retry (invariant D3).
func (l Letter) Edited(e Edit, m Moment) (Letter, error) {
	if e.MaxRetries != nil {
		switch {
		case l.Status == Retrying:
			return l, l.Conflict("given a new number of retries")
		case l.Status == Pending && *e.MaxRetries <= l.RetryCount:
			return l, invalid("/max_retries", "too_small", fmt.Sprintf("must be more than retry_count, which is %d: discard the letter instead", l.RetryCount))
		}
		l.MaxRetries = max(*e.MaxRetries, l.RetryCount)
	}
	if e.NextRetryAt != nil {
		if l.Status != Pending {
			return l, l.Conflict("given a time of its next retry")
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
	return l.next(m), nil
}

// opened makes l PENDING.
func (l *Letter) opened(on Trigger, p *Policy, m Moment) {
	l.Status = moved(l.Status, Pending, on)
	l.waits(p, m)
}

// waits gives l, which is PENDING, the time of its next retry.
func (l *Letter) waits(p *Policy, m Moment) {
	l.Resolution, l.TerminalAt = "", nil
	l.NextRetryAt = l.nextRetry(p, l.Failures(), m)
	l.HeldRetryAt, l.RetryAsked = nil, false
}

// nextRetry returns when l is retried automatically after this many failures; nil:
// never.
func (l *Letter) nextRetry(p *Policy, failures int, m Moment) *time.Time {
	if l.HeldAsPermanent(p) {
		return nil
	}
	return p.NextRetry(l.Source, failures, m.Now, m.Jitter)
}

// HeldAsPermanent reports whether l waits for a person because a retry would only fail again.
func (l *Letter) HeldAsPermanent(p *Policy) bool {
	return l.Failure.Class == Permanent && l.Source.automatic() && !p.RetryPermanent
}

// ended makes l terminal.
func (l Letter) ended(on Trigger, r Resolution, m Moment) Letter {
	s := moved(l.Status, r.Status(), on)
	if l.TerminalAt == nil || l.Status != s {
		l.TerminalAt = &m.Now
	}
	l.Status, l.Resolution, l.NextRetryAt, l.HeldRetryAt, l.RetryAsked = s, r, nil, nil, false
	return l.next(m)
}

// next is l as its next version.
func (l Letter) next(m Moment) Letter {
	l.Version++
	l.UpdatedAt = m.Now
	return l
}

// NotFound is the fault of a letter that the tenant does not have.
func NotFound(id uuid.UUID) *fault.Error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no dead letter %s", id)
}

// Stale is the fault of a change to a version of a letter that is not the stored
// one, which is present.
func Stale(id uuid.UUID, present int64) *fault.Error {
	return fault.New(fault.Precondition, CodeStale, "dead letter %s is at version %d", id, present)
}

// TargetNotConfigured is the fault of a retry to a kind of target that this server is
// not configured for.
func TargetNotConfigured(kind TargetKind) string {
	if kind == ToKafka {
		return "Kafka is not configured: set kafka.brokers (SKALD_KAFKA_BROKERS), or give the letter an HTTP target"
	}
	return "target kind not configured on this server: " + string(kind)
}
