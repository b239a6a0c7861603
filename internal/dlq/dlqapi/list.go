package dlqapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/page"
)

// letterPage contains the page parameters of a list of letters.
type letterPage struct {
	page, size *int32
	cursor     *string
	include    []string
}

// readLetters is a list method of the store.
type readLetters func(context.Context, uuid.UUID, dlq.Query) (page.Of[dlq.Letter], error)

// ListDeadLettersOfTopic returns a page of one topic's letters.
func (s *Handlers) ListDeadLettersOfTopic(ctx context.Context,
	in api.ListDeadLettersOfTopicRequestObject) (api.Response, error) {
	p := in.Params
	if httpkit.Unstorable(in.Topic) {
		return nil, httpkit.BadParameter("topic", "invalid", "contains a NUL character or is not UTF-8")
	}
	return s.listLetters(ctx, in.Topic, p, letterPage{p.Page, p.PageSize, p.Cursor, p.Include},
		func(ctx context.Context, tenant uuid.UUID, q dlq.Query) (page.Of[dlq.Letter], error) {
			found, err := s.Letters.List(ctx, tenant, q)
			if err == nil && len(found.Items) == 0 {
				err = s.knownTopic(ctx, tenant, in.Topic)
			}
			return found, err
		})
}

// ListDeadLetters returns a page of live letters.
func (s *Handlers) ListDeadLetters(ctx context.Context, in api.ListDeadLettersRequestObject) (api.Response, error) {
	p := in.Params
	return s.listLetters(ctx, "", p, letterPage{p.Page, p.PageSize, p.Cursor, p.Include}, s.Letters.List)
}

// ListArchivedDeadLetters returns a page of the archive.
func (s *Handlers) ListArchivedDeadLetters(ctx context.Context,
	in api.ListArchivedDeadLettersRequestObject) (api.Response, error) {
	p := in.Params
	return s.listLetters(ctx, "", p, letterPage{p.Page, p.PageSize, p.Cursor, p.Include}, s.Letters.ListArchived)
}

// listLetters returns a page of a list, limited to one topic unless topic is "". params are the
// parameters of the list, including its filters.
func (s *Handlers) listLetters(ctx context.Context, topic string, params any, p letterPage,
	read readLetters) (httpkit.Answer, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	query := req.Values()
	f, err := letterFilter(ctx, params)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if topic != "" {
		f.Topic = topic
	}
	full, oldest := query.Get("view") == "full", query.Get("order") == "asc"
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.page, p.size, p.cursor, p.include)
	if err != nil {
		return httpkit.Answer{}, err
	}
	found, err := read(ctx, req.Tenant.ID, dlq.Query{Filter: f, ByTime: asked.Request, Oldest: oldest, Bare: !full,
		Largest: largestListed})
	if err != nil {
		return httpkit.Answer{}, err
	}
	policies := s.policies(req.Tenant.ID)
	out := api.DeadLetterList{Messages: make([]api.DeadLetter, len(found.Items)),
		Pagination: httpkit.Pagination(asked, found, (*dlq.Letter).Place)}
	for i := range found.Items {
		l := &found.Items[i]
		view := letterView{content: full, gate: s.Gate}
		if full || l.Scheduled() {
			policy, err := policies(ctx, l.OriginalTopic)
			if err != nil {
				return httpkit.Answer{}, err
			}
			view.redact, view.held = policy.Redact, policy.Held
		}
		out.Messages[i] = toAPILetter(l, view)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// largestListed is the maximum number of bytes of a letter shown in a list, so that 200 letters
// need at most 50 MB.
const largestListed = 256 << 10

// letterAndPolicy reads a letter and the policy of its topic, which defines what is redacted.
func (s *Handlers) letterAndPolicy(ctx context.Context, tenant, id uuid.UUID) (l dlq.Letter, p dlq.Policy, err error) {
	if l, err = s.Letters.Get(ctx, tenant, id); err == nil {
		p, err = s.PolicyOf(ctx, tenant, l.OriginalTopic)
	}
	return l, p, err
}

// GetDeadLetter returns a letter, live or archived, in the requested form.
func (s *Handlers) GetDeadLetter(ctx context.Context, in api.GetDeadLetterRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	l, p, err := s.letterAndPolicy(ctx, tenant, in.MessageID)
	if err != nil {
		return nil, err
	}
	with := map[api.GetDeadLetterParamsInclude]bool{}
	for _, what := range in.Params.Include {
		with[what] = true
	}
	shown := toAPILetter(&l, letterView{content: true, raw: with[api.GetDeadLetterParamsIncludeRaw],
		redact: p.Redact, held: p.Held, gate: s.Gate})
	if with[api.GetDeadLetterParamsIncludeAttempts] {
		attempts, err := s.Letters.Attempts(ctx, tenant, l.ID)
		if err != nil {
			return nil, err
		}
		shown.Attempts = toAPIAttempts(attempts)
	}
	if with[api.GetDeadLetterParamsIncludeLineage] {
		lineage, err := s.Letters.Lineage(ctx, tenant, l.ID)
		if err != nil {
			return nil, err
		}
		shown.Lineage = toAPILineage(lineage)
	}
	a := httpkit.Answer{Status: http.StatusOK, Body: shown, ETag: letterETag(&l, &p)}
	return a.Unchanged(in.Params.IfNoneMatch)
}

// GetArchivedDeadLetter returns an archived letter.
func (s *Handlers) GetArchivedDeadLetter(ctx context.Context,
	in api.GetArchivedDeadLetterRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	l, err := s.Letters.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.MessageID)
	if err == nil && l.ArchivedAt == nil {
		err = noLetter("there is no archived dead letter with this id")
	}
	if err != nil {
		return nil, err
	}
	a, err := s.letterAnswer(ctx, http.StatusOK, &l)
	if err != nil {
		return nil, err
	}
	return a.Unchanged(in.Params.IfNoneMatch)
}

// ListDeadLetterAttempts returns the retries of a letter.
func (s *Handlers) ListDeadLetterAttempts(ctx context.Context,
	in api.ListDeadLetterAttemptsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	attempts, err := s.Letters.Attempts(ctx, tenant, in.MessageID)
	if err == nil && len(attempts) == 0 {
		_, err = s.Letters.Get(ctx, tenant, in.MessageID)
	}
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.DeadLetterAttemptList{Attempts: toAPIAttempts(attempts)}}, nil
}

// GetDeadLetterLineage returns the lineage of a letter.
func (s *Handlers) GetDeadLetterLineage(ctx context.Context,
	in api.GetDeadLetterLineageRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	lineage, err := s.Letters.Lineage(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.MessageID)
	if err == nil && len(lineage) == 0 {
		err = noLetter("there is no dead letter with this id")
	}
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.DeadLetterLineage{Lineage: toAPILineage(lineage)}}, nil
}

// ListDeadLetterRevisions returns the edits of a letter.
func (s *Handlers) ListDeadLetterRevisions(ctx context.Context,
	in api.ListDeadLetterRevisionsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	l, p, err := s.letterAndPolicy(ctx, tenant, in.MessageID)
	if err != nil {
		return nil, err
	}
	revisions, err := s.Letters.Revisions(ctx, tenant, l.ID)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK,
		Body: api.DeadLetterRevisionList{Revisions: toAPIRevisions(revisions, p.Redact)}}, nil
}
