package auditapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/httpkit"
)

// streamPage is how many events a stream that catches up reads at once.
const streamPage = 200

// StreamEvents checks the parameters; the returned response writes the stream.
func (s *Handlers) StreamEvents(ctx context.Context, in api.StreamEventsRequestObject) (api.Response, error) {
	p := in.Params
	req := httpkit.RequestOf(ctx)
	filter, err := eventFilter(p.EventType, p.SagaID, p.WorkflowName, p.TraceID, p.Actor, p.From, p.To)
	if err != nil {
		return nil, err
	}
	st := &stream{s: s, tenant: req.Tenant.ID, list: feedOf(req.Tenant.ID), filter: filter,
		bare: req.Method == http.MethodHead}
	fromStart := p.FromStart != nil && *p.FromStart
	resumed := p.LastEventID != nil && *p.LastEventID != ""
	switch {
	case resumed:
		if st.at, err = s.positionOf(st.list, *p.LastEventID); err != nil {
			return nil, httpkit.BadParameter("Last-Event-ID", "invalid", "is not an event id of this stream")
		}
	case fromStart && p.Cursor != nil:
		return nil, httpkit.BadParameter("from_start", "excluded", "cannot be combined with cursor")
	case p.Cursor != nil:
		st.at, err = s.positionOf(st.list, *p.Cursor)
	case !fromStart:
		bounded, cancel := s.Bounded(ctx)
		defer cancel()
		st.at, err = s.Trail.End(bounded, st.tenant)
	}
	if err != nil {
		return nil, err
	}
	if st.leave, err = s.Streams.Enter(ctx); err != nil {
		return nil, err
	}
	st.ctx = ctx
	return st, nil
}

// stream is one client's live stream.
type stream struct {
	s        *Handlers
	ctx      context.Context //nolint:containedctx // of the request, which this responds to
	leave    func()
	tenant   uuid.UUID
	list     httpkit.ListID
	filter   trail.EventFilter
	bare     bool             // a HEAD request: no body
	redactor httpkit.Redactor // removes what the client may not read; nil: nothing

	out    *http.ResponseController
	w      http.ResponseWriter
	buf    bytes.Buffer
	at     trail.Position // everything up to here was sent or does not match
	sent   trail.Position // the last cursor sent
	quiet  *time.Timer    // fires when nothing was sent for a while
	over   *time.Timer    // fires at the stream's maximum age
	closed bool           // the client is gone or too slow
}

// Redacted makes the stream redact each event.
func (st *stream) Redacted(by httpkit.Redactor) (api.Response, bool) {
	st.redactor = by
	return st, true
}

// Write sends events until the client disconnects, is too slow, the server stops or the
// stream reaches its maximum age.
func (st *stream) Write(w http.ResponseWriter) error {
	defer st.leave()
	h := w.Header()
	h.Set("Content-Type", httpkit.MediaStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // or buffering proxies would hold all of it back
	w.WriteHeader(http.StatusOK)
	if st.bare {
		return nil
	}
	st.w, st.out = w, http.NewResponseController(w)
	_ = st.out.SetReadDeadline(time.Time{}) // the request has been read
	st.quiet, st.over = time.NewTimer(st.s.Limits.StreamSilence), time.NewTimer(st.s.Limits.StreamAge)
	defer st.quiet.Stop()
	defer st.over.Stop()
	st.buf.WriteString("retry: 1000\n") // milliseconds until a client reconnects
	st.mark()
	st.flush()
	for !st.closed {
		st.round()
	}
	return nil
}

// round catches up with the feed, and follows it until the client falls behind or the stream
// ends.
func (st *stream) round() {
	if st.catchUp(); st.closed {
		return
	}
	batches, _, stop, err := st.s.Follow(st.ctx, st.tenant)
	if err != nil {
		st.end(err)
		return
	}
	defer stop()
	st.catchUp() // events from before the channel began
	for !st.closed {
		select {
		case <-st.ctx.Done():
			st.closed = true
		case <-st.s.Stopping:
			st.end(nil)
		case <-st.over.C:
			st.end(nil)
		case <-st.quiet.C:
			st.buf.WriteString(": still here\n")
			st.mark()
			st.flush()
		case batch, ok := <-batches:
			if !ok {
				return // too slow for the shared batches: catch up again
			}
			st.send(batch)
		}
	}
}

// catchUp sends the events after st.at.
func (st *stream) catchUp() {
	for !st.closed {
		select {
		case <-st.s.Stopping:
			st.end(nil)
			return
		case <-st.over.C:
			st.end(nil)
			return
		default:
		}
		ctx, cancel := st.s.Bounded(st.ctx)
		events, end, err := st.s.Trail.Feed(ctx, st.tenant, st.at, st.filter, streamPage)
		cancel()
		if err != nil {
			st.end(err)
			return
		}
		if end == st.at {
			return
		}
		st.send(events)
		st.at = end
	}
}

// send writes the events of a batch that are new and match, and then the cursor.
func (st *stream) send(batch []trail.StoredEvent) {
	for i := range batch {
		e := &batch[i]
		if e.Compare(st.at) <= 0 {
			continue
		}
		st.at = e.Position
		if !st.filter.Matches(e) {
			continue
		}
		st.write(e)
		if st.buf.Len() >= httpkit.StreamChunk {
			st.flush()
		}
		if st.closed {
			return
		}
	}
	if st.buf.Len() > 0 {
		st.flush()
	}
}

// errUncovered means that an event has parts that cannot be redacted: a defect.
var errUncovered = errors.New("an event cannot be redacted")

// write puts an event into the buffer.
func (st *stream) write(e *trail.StoredEvent) {
	cursor := st.s.Cursors.Seal(st.list, positionKeys(e.Position))
	var event any = toAPIEvent(e, cursor)
	ok := true
	if st.redactor != nil {
		event, ok = st.redactor.Redact(event)
	}
	data, err := json.Marshal(event)
	if err == nil && !ok {
		err = errUncovered
	}
	if err != nil {
		st.end(err)
		return
	}
	for _, part := range []string{"id: ", cursor, "\nevent: ", string(e.Type), "\ndata: "} {
		st.buf.WriteString(part)
	}
	st.buf.Write(data)
	st.buf.WriteString("\n\n")
	st.sent = e.Position
}

// mark ends a message without data. It carries the cursor past events that did not match, so
// that they need not be read again.
func (st *stream) mark() {
	if st.at != st.sent {
		st.buf.WriteString("id: " + st.s.Cursors.Seal(st.list, positionKeys(st.at)) + "\n")
		st.sent = st.at
	}
	st.buf.WriteString("\n")
}

// flush sends the buffer. The server's write deadline, which is for whole responses, is
// replaced by one for this part.
func (st *stream) flush() {
	if st.closed {
		return
	}
	err := st.out.SetWriteDeadline(time.Now().Add(st.s.Limits.StreamWrite))
	if err == nil {
		_, err = st.w.Write(st.buf.Bytes())
	}
	if err == nil {
		err = st.out.Flush()
	}
	if err != nil {
		st.closed = true // gone, or too slow: it has its last id
	}
	st.buf.Reset()
	st.quiet.Reset(st.s.Limits.StreamSilence)
}

// end closes the stream with an error hint: the client reconnects with its last id.
func (st *stream) end(because error) {
	if because != nil && st.ctx.Err() == nil {
		st.s.Log.WarnContext(st.ctx, "event stream interrupted", slog.String("request_id", httpkit.RequestOf(st.ctx).ID),
			slog.Any("error", because))
	}
	st.buf.WriteString(": come back with the last id\nretry: 1000\n")
	st.mark()
	st.flush()
	st.closed = true
}
