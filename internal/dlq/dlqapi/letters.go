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

// letterFault is an error about a dead letter, with the content of its problem document.
type letterFault struct {
	error
	current  *api.DeadLetterCurrent      // nil omits it
	message  *api.DeadLetter             // nil omits it
	imported *api.DeadLetterImportResult // nil if nothing was imported
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

// didLetter returns the audit record of the caller's action on a letter.
func (s *Handlers) didLetter(ctx context.Context, id uuid.UUID, verb string, reason *string,
	detail any) operator.Action {
	return s.Did(ctx, s.Now(), operator.DeadLetter, id.String(), verb, httpkit.Text(reason), detail)
}

// live reads a letter that is to be changed. Faults: NotFound; Conflict if it is archived;
// Precondition if match names another version.
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

// changeLetter reads a letter, applies decide, and stores the decision with the action. It starts
// over if the letter was changed in the meantime. A decision that keeps the version changes
// nothing. The detail is stored with the action.
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

// letterAnswer responds with a letter and its content.
func (s *Handlers) letterAnswer(ctx context.Context, status int, l *dlq.Letter) (httpkit.Answer, error) {
	p, err := s.PolicyOf(ctx, l.TenantID, l.OriginalTopic)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Status: status, Body: toAPILetter(l, letterView{content: true, redact: p.Redact, held: p.Held}),
		ETag: letterETag(l, &p)}, nil
}

// letterWould responds to a dry run with the letter as it would look afterwards.
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

// letterETag returns the entity tag of a letter; tags of archived letters have a different form.
// Redrives hold and release letters, and the policy of a topic hides and shows payload members,
// without creating a new version of the letter. Both are part of the tag, so that clients that poll
// the letter see these changes.
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
