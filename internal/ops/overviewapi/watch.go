package overviewapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
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
	st := &stream{s: s, ctx: ctx, tenant: httpkit.RequestOf(ctx).Tenant.ID, watched: w, seen: overview.Watch(w),
		bare: httpkit.RequestOf(ctx).Method == http.MethodHead}
	found, err := st.look()
	if err != nil {
		return nil, err
	}
	st.first = found
	st.leave, err = s.Streams.Enter(ctx)
	return st, err
}

// stream is one client's.
type stream struct {
	s       *Handlers
	ctx     context.Context //nolint:containedctx // of the request, which this responds to
	leave   func()
	tenant  uuid.UUID
	watched *overview.Watched
	seen    *overview.Sighting
	first   []overview.State
	bare    bool // a HEAD request: no body

	w      http.ResponseWriter
	out    *http.ResponseController
	buf    bytes.Buffer
	quiet  *time.Timer // fires when nothing was sent for a while
	closed bool        // the client is gone or too slow, or the stream has ended
}

// Redacted returns the stream: states have no content of clients.
func (st *stream) Redacted(httpkit.Redactor) (api.Response, bool) { return st, true }

func (st *stream) look() ([]overview.State, error) {
	ctx, cancel := st.s.Bounded(st.ctx)
	defer cancel()
	return st.s.Store.States(ctx, st.tenant, st.watched)
}

// Write sends states until the client leaves or is too slow, the server stops, or the stream reaches its maximum age.
func (st *stream) Write(w http.ResponseWriter) error {
	defer st.leave()
	h := w.Header()
	h.Set("Content-Type", httpkit.MediaStream)
	h.Set("Cache-Control", httpkit.NotStored)
	h.Set("X-Accel-Buffering", "no") // or buffering proxies would hold all of it back
	w.WriteHeader(http.StatusOK)
	if st.bare {
		return nil
	}
	st.w, st.out = w, http.NewResponseController(w)
	_ = st.out.SetReadDeadline(time.Time{}) // the request has been read
	st.quiet = time.NewTimer(st.s.Limits.StreamSilence)
	over, tick := time.NewTimer(st.s.Limits.StreamAge), time.NewTicker(watchEvery)
	defer st.quiet.Stop()
	defer over.Stop()
	defer tick.Stop()
	st.buf.WriteString("retry: 1000\n\n") // milliseconds until a client reconnects
	st.tell(st.first)
	for !st.closed {
		select {
		case <-st.ctx.Done():
			st.closed = true
		case <-st.s.Stopping:
			st.end()
		case <-over.C:
			st.end()
		case <-st.quiet.C:
			st.buf.WriteString(": still here\n\n")
			st.flush()
		case <-tick.C:
			found, err := st.look()
			if err != nil {
				st.fail(err)
				continue
			}
			st.tell(found)
		}
	}
	return nil
}

// tell sends the states that have changed.
func (st *stream) tell(found []overview.State) {
	for _, is := range st.seen.Changed(found) {
		out := api.WatchedState{Kind: api.WatchedStateKind(is.Kind), ID: is.ID}
		if is.Gone() {
			out.Gone = new(true)
		} else {
			out.Version, out.State, out.UpdatedAt = &is.Version, &is.State, &is.Updated
		}
		data, err := json.Marshal(out)
		if err != nil {
			st.fail(err)
			return
		}
		st.buf.WriteString("event: " + string(is.Kind) + "\ndata: ")
		st.buf.Write(data)
		st.buf.WriteString("\n\n")
	}
	if st.buf.Len() > 0 {
		st.flush()
	}
}

func (st *stream) flush() {
	err := st.out.SetWriteDeadline(time.Now().Add(st.s.Limits.StreamWrite))
	if err == nil {
		_, err = st.w.Write(st.buf.Bytes())
	}
	if err == nil {
		err = st.out.Flush()
	}
	if err != nil {
		st.closed = true // gone, or too slow
	}
	st.buf.Reset()
	st.quiet.Reset(st.s.Limits.StreamSilence)
}

func (st *stream) fail(err error) {
	if st.ctx.Err() == nil {
		st.s.Log.WarnContext(st.ctx, "watch stream interrupted",
			slog.String("request_id", httpkit.RequestOf(st.ctx).ID), slog.Any("error", err))
	}
	st.end()
}

// end closes the stream; the client connects again.
func (st *stream) end() {
	st.buf.WriteString(": connect again\nretry: 1000\n\n")
	st.flush()
	st.closed = true
}
