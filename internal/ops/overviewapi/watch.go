package overviewapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/ops/overview"
)

// watchEvery is how often a stream reads the states that it follows.
const watchEvery = time.Second

// Watch streams the states of resources as they change.
func (s *Handlers) Watch(ctx context.Context, in api.WatchRequestObject) (api.Response, error) {
	p := in.Params
	w := &overview.Watched{Sagas: p.Saga, Runs: p.Run, Letters: p.Letter, Redrives: p.Redrive, Groups: p.Group}
	switch n := w.Len(); {
	case n == 0:
		return nil, httpkit.BadParameter("saga", "required", "name at least one resource: saga, run, letter, redrive or group")
	case n > overview.MostWatched:
		return nil, httpkit.BadParameter("saga", "too_many", "%d resources were named; a stream follows at most %d", n,
			overview.MostWatched)
	}
	_, shown := s.omitted(ctx)
	for _, part := range []struct {
		part  overview.Part
		named int
		code  string
	}{
		{overview.JobRuns, len(p.Run), jobrun.CodeUnavailable},
		{overview.DeadLetters, len(p.Letter) + len(p.Redrive) + len(p.Group), dlq.CodeUnavailable},
	} {
		if part.named == 0 || shown(part.part) {
			continue
		}
		req := httpkit.RequestOf(ctx)
		if err := req.Who.Require(needs[part.part]); req.Who.Subject != "" && err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Unavailable, part.code, "the memory store has only sagas: use PostgreSQL")
	}
	st := &stream{s: s, ctx: ctx, tenant: httpkit.RequestOf(ctx).Tenant.ID, watched: w, seen: overview.Watch(w)}
	found, err := st.look()
	if err != nil {
		return nil, err
	}
	st.first = found
	st.Stream, err = s.Stream(ctx)
	return st, err
}

// stream is the stream of one client.
type stream struct {
	*httpkit.Stream
	s       *Handlers
	ctx     context.Context //nolint:containedctx // the context of the request that the stream answers
	tenant  uuid.UUID
	watched *overview.Watched
	seen    *overview.Sighting
	first   []overview.State
}

// Redacted returns the stream unchanged, because states contain no client content.
func (st *stream) Redacted(httpkit.Redactor) (api.Response, bool) { return st, true }

func (st *stream) look() ([]overview.State, error) {
	ctx, cancel := st.s.Bounded(st.ctx)
	defer cancel()
	return st.s.Store.States(ctx, st.tenant, st.watched)
}

// Write sends states until the stream ends.
func (st *stream) Write(w http.ResponseWriter) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	found := st.first
	st.Run(w, func() {
		st.tell(found)
		if _, ok := httpkit.Next(st.Stream, tick.C); !ok {
			return
		}
		var err error
		if found, err = st.look(); err != nil {
			st.End(err)
		}
	})
	return nil
}

// tell sends the states that have changed to the client.
func (st *stream) tell(found []overview.State) {
	for _, is := range st.seen.Changed(found) {
		out := api.WatchedState{Kind: api.WatchedStateKind(is.Kind), ID: is.ID}
		if is.Gone() {
			out.Gone = new(true)
		} else {
			out.Version, out.State, out.UpdatedAt = &is.Version, &is.State, &is.Updated
		}
		if !st.Event("", string(is.Kind), out) {
			return
		}
	}
	st.Send()
}
