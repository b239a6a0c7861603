package auditapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/httpkit"
)

// streamPage is the number of events that a stream reads at once while it catches up.
const streamPage = 200

// StreamEvents checks the parameters. The returned response writes the stream.
func (s *Handlers) StreamEvents(ctx context.Context, in api.StreamEventsRequestObject) (api.Response, error) {
	p := in.Params
	req := httpkit.RequestOf(ctx)
	filter, err := eventFilter(p.EventType, p.SagaID, p.WorkflowName, p.TraceID, p.Actor, p.From, p.To)
	if err != nil {
		return nil, err
	}
	st := &stream{s: s, tenant: req.Tenant.ID, list: feedOf(req.Tenant.ID), filter: filter}
	fromStart := p.FromStart != nil && *p.FromStart
	resumed := p.LastEventID != nil && *p.LastEventID != ""
	switch {
	case resumed:
		if st.at, err = s.positionOf(st.list, *p.LastEventID); err != nil {
			return nil, httpkit.BadHeader("Last-Event-ID", "invalid", "is not an event id of this stream")
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
	if st.Stream, err = s.Stream(ctx); err != nil {
		return nil, err
	}
	st.ctx, st.Mark = ctx, st.mark
	return st, nil
}

// stream is the live stream of one client.
type stream struct {
	*httpkit.Stream
	s        *Handlers
	ctx      context.Context //nolint:containedctx // of the request, which this responds to
	tenant   uuid.UUID
	list     httpkit.ListID
	filter   trail.EventFilter
	redactor httpkit.Redactor // removes what the client may not read; nil: removes nothing

	at   trail.Position // every event up to this position was sent or does not match
	sent trail.Position // the last cursor sent
}

// Redacted makes the stream redact each event.
func (st *stream) Redacted(by httpkit.Redactor) (api.Response, bool) {
	st.redactor = by
	return st, true
}

// Write sends events until the stream ends.
func (st *stream) Write(w http.ResponseWriter) error {
	st.Run(w, st.round)
	return nil
}

// round catches up with the feed, and follows it until the client falls behind or the stream
// ends.
func (st *stream) round() {
	if st.catchUp(); st.Ended() {
		return
	}
	batches, _, stop, err := st.s.Follow(st.ctx, st.tenant)
	if err != nil {
		st.End(err)
		return
	}
	defer stop()
	st.catchUp() // events from before the channel was opened
	for {
		batch, ok := httpkit.Next(st.Stream, batches)
		if !ok {
			return // ended, or too slow for the shared batches: catch up again
		}
		st.send(batch)
	}
}

// catchUp sends the events after st.at.
func (st *stream) catchUp() {
	for !st.Ended() {
		ctx, cancel := st.s.Bounded(st.ctx)
		events, end, err := st.s.Trail.Feed(ctx, st.tenant, st.at, st.filter, streamPage)
		cancel()
		if err != nil {
			st.End(err)
			return
		}
		if end == st.at {
			return
		}
		st.send(events)
		st.at = end
	}
}

// send writes the events of a batch that are new and match.
func (st *stream) send(batch []trail.StoredEvent) {
	for i := range batch {
		e := &batch[i]
		if e.Compare(st.at) <= 0 {
			continue
		}
		st.at = e.Position
		if st.filter.Matches(e) && !st.write(e) {
			return
		}
	}
	st.Send()
}

// errUncovered means that an event has parts that cannot be redacted, which is a defect.
var errUncovered = errors.New("an event cannot be redacted")

// write puts an event into the buffer. It returns false if the stream has ended.
func (st *stream) write(e *trail.StoredEvent) bool {
	cursor := st.s.Cursors.Seal(st.list, positionKeys(e.Position))
	var event any = toAPIEvent(e, cursor)
	if st.redactor != nil {
		var ok bool
		if event, ok = st.redactor.Redact(event); !ok {
			st.End(errUncovered)
			return false
		}
	}
	if !st.Event(cursor, string(e.Type), event) {
		return false
	}
	st.sent = e.Position
	return true
}

// mark returns a cursor that lies after events that did not match, or "" if nothing has to be sent.
func (st *stream) mark() string {
	if st.at == st.sent {
		return ""
	}
	st.sent = st.at
	return st.s.Cursors.Seal(st.list, positionKeys(st.at))
}
