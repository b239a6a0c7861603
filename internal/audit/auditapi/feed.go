package auditapi

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
)

// Follow sends live events to waiting requests: every event of a tenant after a position, in
// batches, which the receiver must not change. The channel is closed when its reader falls behind;
// the reader must then call Follow again. The caller must call stop.
type Follow func(ctx context.Context, tenant uuid.UUID) (batches <-chan []trail.StoredEvent, after trail.Position,
	stop func(), err error)

// lookLonger is how long one request searches for events that match a filter. After that, it
// returns no events and a cursor to continue with.
const lookLonger = time.Second

// feedOf identifies the feed of a tenant for its cursors. Cursors do not depend on filters: a
// position in the feed is valid with any filter.
func feedOf(tenant uuid.UUID) httpkit.ListID {
	return httpkit.NewListID(tenant, "/api/v1/saga-events", nil)
}

func positionKeys(p trail.Position) []byte {
	//nolint:gosec // ids are positive
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.TxID), uint64(p.ID))
}

// positionOf decodes a cursor of the feed.
func (s *Handlers) positionOf(list httpkit.ListID, cursor string) (trail.Position, error) {
	b, err := s.Cursors.Open(list, cursor)
	if err != nil {
		return trail.Position{}, err
	}
	if len(b) != 16 {
		return trail.Position{}, httpkit.BadCursor()
	}
	//nolint:gosec // as it was put in
	return trail.Position{TxID: binary.BigEndian.Uint64(b), ID: int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

// eventFilter reads the filter from a feed's parameters.
func eventFilter(types []api.AuditEventType, id *uuid.UUID, workflow, trace, actor *string, from,
	to *time.Time) (trail.EventFilter, error) {
	f := trail.EventFilter{WorkflowName: httpkit.Text(workflow), TraceID: httpkit.Text(trace), Actor: httpkit.Text(actor)}
	for _, t := range types {
		f.Types = append(f.Types, eventtype.Type(t))
	}
	if id != nil {
		if *id == uuid.Nil {
			return f, httpkit.BadParameter("saga_id", "invalid", "must be a saga id")
		}
		f.SagaID = *id
	}
	for _, bound := range []struct {
		name string
		in   *time.Time
		out  *time.Time
	}{{"from", from, &f.From}, {"to", to, &f.To}} {
		if bound.in == nil {
			continue
		}
		if *bound.out = bound.in.UTC(); bound.out.Year() < 1970 || bound.out.Year() > 9999 {
			return f, httpkit.BadParameter(bound.name, "invalid", "must be in the years 1970 to 9999")
		}
	}
	if wrong := httpkit.InOrder("from", "to", f.From, f.To); wrong != nil {
		return f, wrong
	}
	return f, nil
}

// ListEvents returns a page of the feed, either immediately or as soon as an event has arrived.
func (s *Handlers) ListEvents(ctx context.Context, in api.ListEventsRequestObject) (api.Response, error) {
	p := in.Params
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	wait, _, err := s.WaitOf(p.Wait, nil)
	if err != nil {
		return nil, err
	}
	filter, err := eventFilter(p.EventType, p.SagaID, p.WorkflowName, p.TraceID, p.Actor, p.From, p.To)
	if err != nil {
		return nil, err
	}
	list, size, at := feedOf(tenant), httpkit.DefaultPageSize, trail.Position{}
	if p.PageSize != nil {
		size = int(*p.PageSize)
	}
	if p.Cursor != nil {
		if at, err = s.positionOf(list, *p.Cursor); err != nil {
			return nil, err
		}
	}
	page, err := s.readFeed(ctx, tenant, at, filter, size)
	if err == nil && wait > 0 && len(page.events) == 0 && !page.more {
		page, err = s.awaitEvents(ctx, tenant, page.end, filter, size, wait)
	}
	if err != nil {
		return nil, err
	}
	next := s.Cursors.Seal(list, positionKeys(page.end))
	out := api.AuditEventList{
		Events:     make([]api.AuditEvent, len(page.events)),
		Pagination: api.Pagination{PageSize: size, HasNext: page.more, NextCursor: &next},
	}
	if page.more {
		httpkit.RequestOf(ctx).Next = next
	}
	for i := range page.events {
		e := &page.events[i]
		out.Events[i] = toAPIEvent(e, s.Cursors.Seal(list, positionKeys(e.Position)))
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// feedPage is a page of the feed, and the position up to which the feed was read.
type feedPage struct {
	events []trail.StoredEvent
	end    trail.Position
	more   bool // there are later events, though perhaps none of them matches
}

// readFeed reads until the page is full, the feed ends, or the time is up.
func (s *Handlers) readFeed(ctx context.Context, tenant uuid.UUID, at trail.Position, f trail.EventFilter,
	size int) (feedPage, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	until := time.Now().Add(lookLonger)
	p := feedPage{end: at}
	for {
		events, end, err := s.Trail.Feed(ctx, tenant, p.end, f, size+1-len(p.events))
		if err != nil {
			return p, err
		}
		p.events = append(p.events, events...)
		if len(p.events) > size { // the extra event shows that there are more
			p.events, p.more = p.events[:size], true
			p.end = p.events[size-1].Position
			return p, nil
		}
		if end == p.end {
			return p, nil
		}
		p.end = end
		if time.Now().After(until) {
			p.more = true
			return p, nil
		}
	}
}

// awaitEvents waits for a matching event and then returns the page.
func (s *Handlers) awaitEvents(ctx context.Context, tenant uuid.UUID, at trail.Position, f trail.EventFilter, size int,
	wait time.Duration) (feedPage, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		batches, _, stop, err := s.Follow(ctx, tenant)
		if err != nil {
			return feedPage{}, err
		}
		// This reads the events from before Follow; later ones arrive in batches.
		page, err := s.readFeed(ctx, tenant, at, f, size)
		if err != nil || len(page.events) > 0 || page.more {
			stop()
			return page, err
		}
		fits := s.nextFit(ctx, batches, page.end, f, over.C)
		stop()
		if fits {
			return s.readFeed(ctx, tenant, page.end, f, size)
		}
		at = page.end
	}
}

// nextFit returns true when an event after a position matches, the wait is over, or the client has
// disconnected. It returns false when the batches have ended.
func (s *Handlers) nextFit(ctx context.Context, batches <-chan []trail.StoredEvent, at trail.Position,
	f trail.EventFilter,
	over <-chan time.Time) bool {
	for {
		select {
		case <-over:
			return true
		case <-s.Stopping:
			return true
		case <-ctx.Done():
			return true
		case batch, ok := <-batches:
			if !ok {
				return false
			}
			for i := range batch {
				if batch[i].Compare(at) > 0 && f.Matches(&batch[i]) {
					return true
				}
			}
		}
	}
}

// ListSagaEvents returns a page of a saga's history.
func (s *Handlers) ListSagaEvents(ctx context.Context, in api.ListSagaEventsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p := in.Params
	req := httpkit.RequestOf(ctx)
	list := req.List()
	size, after := httpkit.DefaultPageSize, int64(0)
	if p.PageSize != nil {
		size = int(*p.PageSize)
	}
	if p.Cursor != nil {
		b, err := s.Cursors.Open(list, *p.Cursor)
		if err != nil {
			return nil, err
		}
		if len(b) != 8 {
			return nil, httpkit.BadCursor()
		}
		after = int64(binary.BigEndian.Uint64(b)) //nolint:gosec // as it was put in
	}
	filter, err := eventFilter(p.EventType, nil, nil, nil, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	newestFirst := p.Order != nil && *p.Order == api.ListSagaEventsParamsOrderDesc
	events, more, err := s.Trail.Events(ctx, req.Tenant.ID, in.SagaID, filter, newestFirst, after, size)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		if err := s.hasEvents(ctx, req.Tenant.ID, in.SagaID); err != nil {
			return nil, err
		}
	}
	out := api.AuditEventList{Events: make([]api.AuditEvent, len(events)),
		Pagination: api.Pagination{PageSize: size, HasNext: more}}
	for i := range events {
		cursor := s.Cursors.Seal(list, binary.BigEndian.AppendUint64(nil, uint64(events[i].ID))) //nolint:gosec // positive
		out.Events[i] = toAPIEvent(&events[i], cursor)
		if more && i == len(events)-1 {
			out.Pagination.NextCursor, req.Next = &cursor, cursor
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// hasEvents returns nil if the tenant has or had a saga with this id. Each saga has a start event,
// whatever happened to it later, until its events are deleted from the archive. Fault: NotFound.
func (s *Handlers) hasEvents(ctx context.Context, tenant, id uuid.UUID) error {
	events, _, err := s.Trail.Events(ctx, tenant, id, trail.EventFilter{}, false, 0, 1)
	if err != nil || len(events) > 0 {
		return err
	}
	if _, err = s.Sagas.Get(ctx, tenant, id); fault.KindOf(err) == fault.NotFound {
		_, err = s.Archive.GetArchived(ctx, tenant, id, saga.Logs{Brief: true})
	}
	return err
}

// VerifyAudit reports whether a part of the audit trail is unchanged.
func (s *Handlers) VerifyAudit(ctx context.Context, in api.VerifyAuditRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	from, limit := int64(1), 100
	if in.Params.FromSeq != nil {
		from = *in.Params.FromSeq
	}
	if in.Params.Limit != nil {
		limit = int(*in.Params.Limit)
	}
	check, ofActions := s.Verify, in.Params.Trail != nil && *in.Params.Trail == api.VerifyAuditParamsTrailActions
	tenant, err := scopeOfRecord(ctx, in.Params.Scope)
	switch {
	case err != nil:
		return nil, err
	case ofActions && s.Actions == nil:
		return nil, NoRecord()
	case ofActions:
		check = s.VerifyActions
	case tenant == operator.Deployment:
		return nil, httpkit.ParameterFault(httpkit.CodeInvalidParameter,
			fault.Field{Parameter: "scope", Code: "excluded", Message: "deployment requires trail=actions: every event belongs to a tenant"})
	}
	var known trail.Verification
	if in.Params.Kept != nil {
		seq, hash, _ := strings.Cut(*in.Params.Kept, ":") // the contract has checked its form
		n, err := strconv.ParseInt(seq, 10, 64)
		if err != nil {
			return nil, httpkit.ParameterFault(httpkit.CodeInvalidParameter,
				fault.Field{Parameter: "kept", Code: "invalid", Message: "must be the number and hash of a seal"})
		}
		if known, err = check.kept(ctx, tenant, n, hash); err != nil {
			return nil, err
		}
		if known.FirstBad != nil {
			return httpkit.Answer{Status: http.StatusOK, Body: toAPIVerification(&known, ofActions)}, nil
		}
		if in.Params.FromSeq == nil {
			from = n + 1
		}
	}
	v, err := check(ctx, tenant, from, limit)
	if err != nil {
		return nil, err
	}
	if v.Head == nil {
		v.Head = known.Head
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIVerification(&v, ofActions)}, nil
}

// kept checks the seal with the given number, and that its hash equals the one that was kept
// elsewhere.
func (check Verify) kept(ctx context.Context, tenant uuid.UUID, seq int64, hash string) (trail.Verification, error) {
	v, err := check(ctx, tenant, seq, 1)
	switch {
	case err != nil || v.FirstBad != nil && v.FirstBad.Seq != 0: // an event after the end does not concern this seal
	case v.Head == nil:
		v.FirstBad = &trail.Tampered{Kind: trail.MissingSeals, Seq: seq,
			Detail: "the chain ends before the kept seal, or the kept seal belongs to another chain"}
	case hex.EncodeToString(v.Head.Hash) != hash:
		v.FirstBad = &trail.Tampered{Kind: trail.SealMismatch, Seq: seq,
			Detail: "the hash of the seal differs from the kept hash: the chain was replaced, or the kept hash belongs to another chain"}
	default:
		v.FirstBad = nil
	}
	return v, err
}

// NoRecord returns the fault for a server without an audit trail of actions.
func NoRecord() error {
	return fault.New(fault.Unavailable, dlq.CodeUnavailable, "the memory store has no dead-letter queue and no record of actions: use PostgreSQL")
}
