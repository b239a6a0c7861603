package httpapi

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// DeadLetters is what the edge needs of the dead-letter queue. Every field is
// required.
type DeadLetters struct {
	Letters  dlq.Letters
	Redrives dlq.Redrives
	Overview dlq.Overview
	Actions  operator.Log // who did what, on anything but sagas
	// VerifyActions checks the seals of that record as Config.Verify does those of events.
	VerifyActions func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (saga.Verification, error)
	Limits        dlq.RedriveLimits
	// WakeRedrives has the loops of this node look for redrives now.
	WakeRedrives func()
	// PolicyOf returns the policy of a topic: its own, the tenant's, or the
	// configuration's.
	PolicyOf func(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error)
	// Drive retries one letter at once and returns how that ended, which is then
	// stored; RETRYING: its target tells later. A failed drive is no error. Faults:
	// NotFound; Conflict; Precondition CodeStale; Invalid CodeTarget; Unavailable
	// CodeNoKafka.
	Drive func(context.Context, dlq.Claim) (dlq.Finish, error)
	// Drives tells whether this server, as it is configured, drives letters to
	// targets of a kind.
	Drives func(dlq.TargetKind) bool
	// ForbiddenTopic tells of topics that nothing is driven to, because what is
	// written there comes back as a dead letter (invariant D6).
	ForbiddenTopic func(topic string) bool
	// UndoneByHand tells the saga that waits for a letter that its step was undone
	// elsewhere; the saga's own commit resolves the letter, which is returned.
	UndoneByHand func(context.Context, dlq.Letter, operator.By) (dlq.Letter, error)
}

func (d *DeadLetters) complete() bool {
	return d.Redrives != nil && d.Overview != nil && d.Actions != nil && d.Limits.MaxRate > 0 && d.WakeRedrives != nil &&
		d.Letters != nil && d.PolicyOf != nil && d.Drive != nil && d.Drives != nil && d.ForbiddenTopic != nil && d.UndoneByHand != nil
}

// queueOpen refuses the operations of the dead-letter queue where there is none.
func (s *server) queueOpen(next http.Handler) http.Handler {
	if s.DeadLetters != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.contract.routeOf(r.Context(), r.Method).deadLetters {
			s.fail(w, r, noRecord())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noRecord is the fault where there is neither a queue nor a record of actions.
func noRecord() error {
	return fault.New(fault.Unavailable, dlq.CodeUnavailable, "the memory store has no dead-letter queue and no record of actions: use PostgreSQL")
}

// letterFault is an error about a dead letter, with what a problem says of it.
type letterFault struct {
	error
	current  *api.DeadLetterCurrent // nil: not said
	message  *api.DeadLetter        // nil: not shown
	imported *api.DeadLetterImport  // nil: nothing was imported
}

func (f *letterFault) Unwrap() error { return f.error }

// insteadOf adds to a conflict what the letter is.
func insteadOf(err error, l *dlq.Letter) error {
	if k := fault.KindOf(err); k != fault.Conflict && k != fault.Precondition {
		return err
	}
	return &letterFault{error: err, current: &api.DeadLetterCurrent{Status: api.DeadLetterStatus(l.Status), Version: l.Version}}
}

func (s *server) moment() dlq.Moment {
	return dlq.Moment{Now: s.now(), Jitter: rand.Float64()} //nolint:gosec // spreads retries, guards nothing
}

// did is the action of the one who asks on a letter.
func (s *server) did(ctx context.Context, id uuid.UUID, verb string, reason *string, detail json.RawMessage) operator.Action {
	req := requestOf(ctx)
	return byOf(ctx, reason).Did(s.NewID(), req.tenant.ID, s.now(), operator.DeadLetter, id.String(), verb, detail)
}

// byOf is who asks, as the record of actions keeps it.
func byOf(ctx context.Context, reason *string) operator.By {
	req := requestOf(ctx)
	by := operator.By{Actor: req.principal, Reason: text(reason), RequestID: req.id, Credential: req.who.KeyID, Address: req.remote, Operation: req.operation}
	if host, _, err := net.SplitHostPort(req.remote); err == nil {
		by.Address = host
	}
	return by
}

// acting returns ctx for stores that tell of their own changes.
func acting(ctx context.Context, reason *string) context.Context {
	return operator.As(ctx, byOf(ctx, reason))
}

// reasonIn returns what a body says of why; nil: nothing.
func reasonIn(b *api.ReasonInput) *string {
	if b == nil {
		return nil
	}
	return b.Reason
}

// live reads a letter that is to be changed. Faults: NotFound; Conflict when it
// is archived; Precondition when match names another version.
func (s *server) live(ctx context.Context, id uuid.UUID, match *string) (dlq.Letter, error) {
	l, err := s.DeadLetters.Letters.Get(ctx, requestOf(ctx).tenant.ID, id)
	if err != nil {
		return l, err
	}
	if l.ArchivedAt != nil {
		return l, insteadOf(fault.New(fault.Conflict, dlq.CodeConflict, "the dead letter is archived").Allowing([]string{verbRestore}), &l)
	}
	switch fits, err := ifMatch(match, l.Version); {
	case err != nil:
		return l, err
	case !fits:
		return l, insteadOf(stale(dlq.CodeStale, "dead letter", l.Version), &l)
	}
	return l, nil
}

// changeLetter reads a letter, decides, and stores the decision with the
// action, and anew when somebody else changed it meanwhile. A decision of the
// same version changes nothing. The detail is what the action says of it.
func (s *server) changeLetter(ctx context.Context, id uuid.UUID, match *string, verb string, reason *string, detail json.RawMessage,
	decide func(context.Context, dlq.Letter) (dlq.Letter, error)) (answer, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	for range maxReloads {
		l, err := s.live(ctx, id, match)
		if err != nil {
			return answer{}, err
		}
		after, err := decide(ctx, l)
		if err != nil {
			return answer{}, insteadOf(err, &l)
		}
		if after.Version == l.Version {
			return s.letterAnswer(ctx, http.StatusOK, &l)
		}
		switch err := s.DeadLetters.Letters.Change(ctx, after, s.did(ctx, id, verb, reason, detail)); {
		case err == nil:
			return s.letterAnswer(ctx, http.StatusOK, &after)
		case !fault.IsCode(err, dlq.CodeStale):
			return answer{}, err
		}
	}
	return answer{}, letterKeepsChanging()
}

func letterKeepsChanging() error {
	return fault.New(fault.Unavailable, codeUnavailable, "the dead letter keeps changing; try again")
}

// letterAnswer answers with a letter and all it carries.
func (s *server) letterAnswer(ctx context.Context, status int, l *dlq.Letter) (answer, error) {
	p, err := s.DeadLetters.PolicyOf(ctx, l.TenantID, l.OriginalTopic)
	if err != nil {
		return answer{}, err
	}
	return answer{status: status, body: toAPILetter(l, letterView{content: true, redact: p.Redact, held: p.Held}), etag: letterETag(l)}, nil
}

// letterETag is the entity tag of a letter; archived it looks different.
func letterETag(l *dlq.Letter) string {
	if l.ArchivedAt != nil {
		return archivedETag(l.Version)
	}
	return etagOf(l.Version)
}

// detailOf is the detail of an action, as canonical JSON. Members are few and
// hold no content.
func detailOf(members map[string]any) json.RawMessage {
	doc, err := json.Marshal(members)
	if err != nil {
		return nil // strings, numbers, booleans and times always encode
	}
	return doc
}
