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
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga"
)

// streamPage is how many events a stream that catches up reads at once.
const streamPage = 200

// StreamEvents checks what is asked for; the answer writes the stream.
func (s *Handlers) StreamEvents(ctx context.Context, in api.StreamEventsRequestObject) (api.Response, error) {
	p := in.Params
	req := rest.RequestOf(ctx)
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
			return nil, rest.BadParameter("Last-Event-ID", "invalid", "is not an event id of this stream")
		}
	case fromStart && p.Cursor != nil:
		return nil, rest.BadParameter("from_start", "excluded", "cannot be combined with cursor")
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
	if st.leave, err = s.Streams.Enter(); err != nil {
		return nil, err
	}
	st.ctx = ctx
	return st, nil
}

// stream is one client's live stream.
type stream struct {
	s        *Handlers
	ctx      context.Context //nolint:containedctx // of the request, for which this is the answer
	leave    func()
	tenant   uuid.UUID
	list     rest.ListID
	filter   saga.EventFilter
	bare     bool          // a HEAD: no body
	redactor rest.Redactor // what its reader may not see; nil: sees all

	out    *http.ResponseController
	w      http.ResponseWriter
	buf    bytes.Buffer
	at     saga.Position // everything up to here was sent, or does not fit
	sent   saga.Position // the client knows this cursor
	quiet  *time.Timer   // fires when nothing was sent for long
	over   *time.Timer   // fires when the stream is too old
	closed bool          // the client does not take any more
}

// Redacted is the stream with each event redacted.
func (st *stream) Redacted(by rest.Redactor) (api.Response, bool) {
	st.redactor = by
	return st, true
}

// Write sends events until the client leaves, is too slow,
// the server stops or the stream is old.
func (st *stream) Write(w http.ResponseWriter) error {
	defer st.leave()
	h := w.Header()
	h.Set("Content-Type", rest.MediaStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies that gather answers would keep it all
	w.WriteHeader(http.StatusOK)
	if st.bare {
		return nil
	}
	st.w, st.out = w, http.NewResponseController(w)
	_ = st.out.SetReadDeadline(time.Time{}) // of the request, which has been read
	st.quiet, st.over = time.NewTimer(st.s.Limits.StreamSilence), time.NewTimer(st.s.Limits.StreamAge)
	defer st.quiet.Stop()
	defer st.over.Stop()
	st.buf.WriteString("retry: 1000\n") // milliseconds until a client comes back
	st.mark()
	st.flush()
	for !st.closed {
		st.round()
	}
	return nil
}

// round catches up with the feed and follows it until it falls behind or ends.
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
	st.catchUp() // what came before the following began
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
				return // too slow for the shared batches: read for itself again
			}
			st.send(batch)
		}
	}
}

// catchUp sends what the feed holds after st.at.
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

// send writes those of a batch that are new and fit, and the cursor on.
func (st *stream) send(batch []saga.StoredEvent) {
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
		if st.buf.Len() >= rest.StreamChunk {
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

// errUncovered is an event with parts that veil cannot look into: a defect.
var errUncovered = errors.New("an event cannot be redacted")

// write puts an event into the buffer.
func (st *stream) write(e *saga.StoredEvent) {
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

// mark ends a message without data, which tells the client how far the feed was
// read although nothing fitted, so that it need not be read again.
func (st *stream) mark() {
	if st.at != st.sent {
		st.buf.WriteString("id: " + st.s.Cursors.Seal(st.list, positionKeys(st.at)) + "\n")
		st.sent = st.at
	}
	st.buf.WriteString("\n")
}

// flush sends the buffer. The server's write deadline, which is for whole
// answers, gives way to one for this part of it.
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

// end says good-bye: the client is to come back with its last id.
func (st *stream) end(because error) {
	if because != nil && st.ctx.Err() == nil {
		st.s.Log.WarnContext(st.ctx, "event stream interrupted", slog.String("request_id", rest.RequestOf(st.ctx).ID),
			slog.Any("error", because))
	}
	st.buf.WriteString(": come back with the last id\nretry: 1000\n")
	st.mark()
	st.flush()
	st.closed = true
}
