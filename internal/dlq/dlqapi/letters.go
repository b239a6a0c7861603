package dlqapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/loop"
)

// letterFault is an error about a dead letter, with what its problem document contains.
type letterFault struct {
	error
	current  *api.DeadLetterCurrent      // nil: left out
	message  *api.DeadLetter             // nil: left out
	imported *api.DeadLetterImportResult // nil: nothing was imported
}

func (f *letterFault) Unwrap() error { return f.error }

// Describe adds the letter to a problem document.
func (f *letterFault) Describe(p *api.Problem) {
	p.Current, p.Message, p.Import = f.current, f.message, f.imported
}

// withCurrentLetter adds the letter's current state to a conflict.
func withCurrentLetter(err error, l *dlq.Letter) error {
	if k := fault.KindOf(err); k != fault.Conflict && k != fault.Precondition {
		return err
	}
	return &letterFault{error: err, current: &api.DeadLetterCurrent{Status: api.DeadLetterStatus(l.Status),
		Version: l.Version}}
}

func (s *Handlers) moment() dlq.Moment {
	return dlq.Moment{Now: s.Now(), Jitter: loop.Chance()}
}

// didLetter returns the record of an action by the caller on a letter.
func (s *Handlers) didLetter(ctx context.Context, id uuid.UUID, verb string, reason *string,
	detail any) operator.Action {
	return s.Did(ctx, s.Now(), operator.DeadLetter, id.String(), verb, httpkit.Text(reason), detail)
}

// live reads a letter for a change. Faults: NotFound; Conflict when it is archived;
// Precondition when match names another version.
func (s *Handlers) live(ctx context.Context, id uuid.UUID, match *string) (dlq.Letter, error) {
	l, err := s.Letters.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
	if err != nil {
		return l, err
	}
	if l.ArchivedAt != nil {
		return l,
			withCurrentLetter(
				fault.New(fault.Conflict, dlq.CodeConflict, "the dead letter is archived").Allowing([]string{verbRestore}),
				&l)
	}
	switch fits, err := httpkit.IfMatch(httpkit.WithoutHold(match), l.Version); {
	case err != nil:
		return l, err
	case !fits:
		return l, withCurrentLetter(httpkit.Stale(dlq.CodeStale, "dead letter", l.Version), &l)
	}
	return l, nil
}

// changeLetter reads a letter, decides, and stores the decision with the action; it starts again
// when the letter was changed in the meantime. A decision with the same version changes nothing.
// The detail is stored with the action.
func (s *Handlers) changeLetter(ctx context.Context, id uuid.UUID, match *string, verb string, reason *string,
	detail map[string]any,
	decide func(context.Context, dlq.Letter) (dlq.Letter, error)) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		l, err := s.live(ctx, id, match)
		if err != nil {
			return httpkit.Answer{}, err
		}
		after, err := decide(ctx, l)
		if err != nil {
			return httpkit.Answer{}, withCurrentLetter(err, &l)
		}
		if httpkit.DryRun(ctx) {
			return s.letterWould(ctx, &l, &after)
		}
		if after.Version == l.Version {
			return s.letterAnswer(ctx, http.StatusOK, &l)
		}
		switch err := s.Letters.Change(ctx, after, s.didLetter(ctx, id, verb, reason, detail)); {
		case err == nil:
			return s.letterAnswer(ctx, http.StatusOK, &after)
		case !fault.IsCode(err, dlq.CodeStale):
			return httpkit.Answer{}, err
		}
	}
	return httpkit.Answer{}, httpkit.KeepsChanging("dead letter")
}

// letterAnswer returns a letter with its content.
func (s *Handlers) letterAnswer(ctx context.Context, status int, l *dlq.Letter) (httpkit.Answer, error) {
	p, err := s.PolicyOf(ctx, l.TenantID, l.OriginalTopic)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Status: status, Body: toAPILetter(l, letterView{content: true, redact: p.Redact, held: p.Held}),
		ETag: letterETag(l, &p)}, nil
}

// letterWould answers a dry run with a letter as it would be.
func (s *Handlers) letterWould(ctx context.Context, before, after *dlq.Letter) (httpkit.Answer, error) {
	was, err := s.letterAnswer(ctx, http.StatusOK, before)
	if err != nil {
		return was, err
	}
	is, err := s.letterAnswer(ctx, http.StatusOK, after)
	if err != nil {
		return is, err
	}
	return httpkit.Would(was, is.Body.(api.DeadLetter),
		func(l *api.DeadLetter) **api.PlannedChanges { return &l.Changes })
}

// letterETag is the entity tag of a letter; an archived one has another form. What a redrive or the
// policy of its topic does to how it is shown makes no new version of it: it is held or released,
// and members of its payload are hidden or shown. That is part of the tag, so that those who poll
// the letter see it.
func letterETag(l *dlq.Letter, p *dlq.Policy) string {
	etag, by := httpkit.ArchivedETag(l.Version), ""
	if l.ArchivedAt == nil {
		held := l.HeldBy(p.Held)
		if etag, by = httpkit.ETagOf(l.Version), string(held); held == dlq.HeldByRedrive {
			by = l.CollectedBy.String()
		}
	}
	if len(p.Redact) > 0 {
		hidden := sha256.Sum256([]byte(strings.Join(p.Redact, "\n")))
		by += "-" + hex.EncodeToString(hidden[:6])
	}
	return httpkit.ShownETag(etag, by)
}
