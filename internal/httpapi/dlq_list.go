package httpapi

import (
	"context"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
)

// letterPage is what all lists of letters take beside their filters.
type letterPage struct {
	page, size *int32
	cursor     *string
	include    []string
	full       bool
	oldest     bool
	read       func(context.Context, uuid.UUID, dlq.Query) (dlq.Page, error)
}

// ListDeadLettersOfTopic answers a page of one topic's letters.
func (s *server) ListDeadLettersOfTopic(ctx context.Context, in api.ListDeadLettersOfTopicRequestObject) (api.Response, error) {
	p := in.Params
	f, err := letterFilter(ctx, requestOf(ctx).values())
	if err != nil {
		return nil, err
	}
	if unstorable(in.Topic) {
		return nil, badParameter("topic", "invalid", "holds a NUL character or is not UTF-8")
	}
	f.Topic = in.Topic
	return s.listLetters(ctx, f, letterPage{
		page: p.Page, size: p.PageSize, cursor: p.Cursor, include: p.Include,
		full:   p.View != nil && *p.View == api.ListDeadLettersOfTopicParamsViewFull,
		oldest: p.Order != nil && *p.Order == api.ListDeadLettersOfTopicParamsOrderAsc,
		read: func(ctx context.Context, tenant uuid.UUID, q dlq.Query) (dlq.Page, error) {
			page, err := s.DeadLetters.Letters.List(ctx, tenant, q)
			if err == nil && len(page.Letters) == 0 {
				err = s.knownTopic(ctx, tenant, in.Topic)
			}
			return page, err
		},
	})
}

// ListDeadLetters answers a page of live letters.
func (s *server) ListDeadLetters(ctx context.Context, in api.ListDeadLettersRequestObject) (api.Response, error) {
	p := in.Params
	f, err := letterFilter(ctx, requestOf(ctx).values())
	if err != nil {
		return nil, err
	}
	return s.listLetters(ctx, f, letterPage{
		page: p.Page, size: p.PageSize, cursor: p.Cursor, include: p.Include, full: p.View != nil && *p.View == api.ListDeadLettersParamsViewFull,
		oldest: p.Order != nil && *p.Order == api.ListDeadLettersParamsOrderAsc, read: s.DeadLetters.Letters.List,
	})
}

// ListArchivedDeadLetters answers a page of the archive.
func (s *server) ListArchivedDeadLetters(ctx context.Context, in api.ListArchivedDeadLettersRequestObject) (api.Response, error) {
	p := in.Params
	f, err := letterFilter(ctx, requestOf(ctx).values())
	if err != nil {
		return nil, err
	}
	return s.listLetters(ctx, f, letterPage{
		page: p.Page, size: p.PageSize, cursor: p.Cursor, include: p.Include,
		full: p.View != nil && *p.View == api.ListArchivedDeadLettersParamsViewFull, read: s.DeadLetters.Letters.ListArchived,
	})
}

func (s *server) listLetters(ctx context.Context, f dlq.Filter, p letterPage) (answer, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req := requestOf(ctx)
	list := req.list(append(letterFilters, "order")...)
	paging, err := s.pagingOf(list, p.page, p.size, p.cursor, p.include)
	if err != nil {
		return answer{}, err
	}
	q := dlq.Query{
		Filter: f, Limit: paging.size, Offset: paging.offset(), Total: paging.total, TotalCap: paging.countUpTo(), Oldest: p.oldest, Bare: !p.full, Largest: largestListed,
	}
	if paging.page == 0 {
		if q.After, err = letterCursor(paging.after); err != nil {
			return answer{}, err
		}
	}
	page, err := p.read(ctx, req.tenant.ID, q)
	if err != nil {
		return answer{}, err
	}
	policies := s.policiesOf(req.tenant.ID)
	out := api.DeadLetterList{Messages: make([]api.DeadLetter, len(page.Letters))}
	for i := range page.Letters {
		l := &page.Letters[i]
		view := letterView{content: p.full}
		if p.full || l.Scheduled() {
			policy, err := policies(ctx, l.OriginalTopic)
			if err != nil {
				return answer{}, err
			}
			view.redact, view.held = policy.Redact, policy.Held
		}
		out.Messages[i] = toAPILetter(l, view)
	}
	paging.capped = page.TotalCapped
	out.Pagination = paging.answer(page.More, page.Total, func() string {
		return s.cursors.seal(list, letterKeys(&page.Letters[len(page.Letters)-1]))
	})
	return answer{status: http.StatusOK, body: out}, nil
}

// largestListed is how many bytes a letter in a list shows: of 200 letters that
// is 50 MB at most.
const largestListed = 256 << 10

// policiesOf returns what knows the policies of topics; it asks once for each.
func (s *server) policiesOf(tenant uuid.UUID) func(context.Context, string) (dlq.Policy, error) {
	known := map[string]dlq.Policy{}
	return func(ctx context.Context, topic string) (dlq.Policy, error) {
		if p, ok := known[topic]; ok {
			return p, nil
		}
		p, err := s.DeadLetters.PolicyOf(ctx, tenant, topic)
		if err == nil {
			known[topic] = p
		}
		return p, err
	}
}

// letterKeys are the sort keys of a letter: microseconds of its arrival here or
// in the archive, and its id.
func letterKeys(l *dlq.Letter) []byte {
	at := l.CreatedAt
	if l.ArchivedAt != nil {
		at = *l.ArchivedAt
	}
	return append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())), l.ID[:]...) //nolint:gosec // as it is put back
}

// letterCursor is the inverse of letterKeys.
func letterCursor(b []byte) (*dlq.Cursor, error) {
	if len(b) != 8+16 {
		return nil, badCursor()
	}
	return &dlq.Cursor{At: time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC(), ID: uuid.UUID(b[8:])}, nil //nolint:gosec // as it was put in
}

// GetDeadLetter answers a letter, live or archived, and what is asked for of it.
func (s *server) GetDeadLetter(ctx context.Context, in api.GetDeadLetterRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	tenant := requestOf(ctx).tenant.ID
	l, err := s.DeadLetters.Letters.Get(ctx, tenant, in.MessageID)
	if err != nil {
		return nil, err
	}
	p, err := s.DeadLetters.PolicyOf(ctx, tenant, l.OriginalTopic)
	if err != nil {
		return nil, err
	}
	with := map[api.GetDeadLetterParamsInclude]bool{}
	for _, what := range in.Params.Include {
		with[what] = true
	}
	shown := toAPILetter(&l, letterView{content: true, raw: with[api.GetDeadLetterParamsIncludeRaw], redact: p.Redact, held: p.Held})
	if with[api.GetDeadLetterParamsIncludeAttempts] {
		attempts, err := s.DeadLetters.Letters.Attempts(ctx, tenant, l.ID)
		if err != nil {
			return nil, err
		}
		shown.Attempts = toAPIAttempts(attempts)
	}
	if with[api.GetDeadLetterParamsIncludeLineage] {
		lineage, err := s.DeadLetters.Letters.Lineage(ctx, tenant, l.ID)
		if err != nil {
			return nil, err
		}
		shown.Lineage = toAPILineage(lineage)
	}
	return answer{status: http.StatusOK, body: shown, etag: letterETag(&l)}.unchanged(in.Params.IfNoneMatch)
}

// GetArchivedDeadLetter answers an archived letter.
func (s *server) GetArchivedDeadLetter(ctx context.Context, in api.GetArchivedDeadLetterRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	l, err := s.DeadLetters.Letters.Get(ctx, requestOf(ctx).tenant.ID, in.MessageID)
	if err == nil && l.ArchivedAt == nil {
		err = noLetter("there is no archived dead letter of this id")
	}
	if err != nil {
		return nil, err
	}
	a, err := s.letterAnswer(ctx, http.StatusOK, &l)
	if err != nil {
		return nil, err
	}
	return a.unchanged(in.Params.IfNoneMatch)
}

// ListDeadLetterAttempts answers the retries of a letter.
func (s *server) ListDeadLetterAttempts(ctx context.Context, in api.ListDeadLetterAttemptsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	tenant := requestOf(ctx).tenant.ID
	attempts, err := s.DeadLetters.Letters.Attempts(ctx, tenant, in.MessageID)
	if err == nil && len(attempts) == 0 {
		_, err = s.DeadLetters.Letters.Get(ctx, tenant, in.MessageID)
	}
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: api.DeadLetterAttemptList{Attempts: toAPIAttempts(attempts)}}, nil
}

// GetDeadLetterLineage answers the lineage of a letter.
func (s *server) GetDeadLetterLineage(ctx context.Context, in api.GetDeadLetterLineageRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	lineage, err := s.DeadLetters.Letters.Lineage(ctx, requestOf(ctx).tenant.ID, in.MessageID)
	if err == nil && len(lineage) == 0 {
		err = noLetter("there is no dead letter of this id")
	}
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: api.DeadLetterLineage{Lineage: toAPILineage(lineage)}}, nil
}

// ListDeadLetterRevisions answers the edits of a letter.
func (s *server) ListDeadLetterRevisions(ctx context.Context, in api.ListDeadLetterRevisionsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	tenant := requestOf(ctx).tenant.ID
	l, err := s.DeadLetters.Letters.Get(ctx, tenant, in.MessageID)
	if err != nil {
		return nil, err
	}
	p, err := s.DeadLetters.PolicyOf(ctx, tenant, l.OriginalTopic)
	if err != nil {
		return nil, err
	}
	revisions, err := s.DeadLetters.Letters.Revisions(ctx, tenant, l.ID)
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: api.DeadLetterRevisionList{Revisions: toAPIRevisions(revisions, p.Redact)}}, nil
}
