package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
)

var feeds = []contract{
	{"the feed contains every event of every path through a saga unchanged, with its digest", feedReadsBack},
	{"calls of any size make up the whole feed, in order", feedPages},
	{"every filter alone and combined selects exactly its events", feedFilters},
	{"a filter without matches still advances in bounded steps, and stops at the end", feedOfNothing},
	{"a reader that runs alongside sixteen writers misses no event and gets none twice", feedWhileWriting},
	{"a tenant sees only its own events", feedForeign},
	{"events of inline steps are found by the name that the client gave them", feedOfInlineSteps},
}

// feed reads all events of the fixture's tenant, size events at a time.
func (f *fixture) feed(filter trail.EventFilter, size int) []trail.StoredEvent {
	f.t.Helper()
	f.Settle(f.t)
	var all []trail.StoredEvent
	for at := (trail.Position{}); ; {
		events, end, err := f.Trail.Feed(f.t.Context(), f.tenant.ID, at, filter, size)
		if err != nil {
			f.t.Fatalf("feed: %v", err)
		}
		if len(events) > size || end.Compare(at) < 0 {
			f.t.Fatalf("%d events in a call of %d, from %v to %v", len(events), size, at, end)
		}
		all = append(all, events...)
		if len(events) < size && end == at {
			return all
		}
		at = end
	}
}

// told plays every scenario and returns the committed events by saga.
func told(f *fixture) map[uuid.UUID][]saga.AuditEvent {
	all := map[uuid.UUID][]saga.AuditEvent{}
	i := 0
	for _, events := range f.scenarios() {
		n := f.owned(f.owner, everything)
		if i++; i%2 == 0 {
			n = f.owned(f.owner)
		}
		n.Actor, n.RequestID = fmt.Sprintf("actor %d ж", i%3), "req-"+fmt.Sprint(i)
		run := f.stored(n)[0]
		all[n.ID] = []saga.AuditEvent{n.Begun(n.Actor, n.RequestID)}
		for _, e := range events {
			m := f.moment()
			m.Actor, m.RequestID = fmt.Sprintf("actor %d ж", i%5), "req-"+fmt.Sprint(i)
			run, e = f.seen(run, e)
			c, err := saga.Apply(run, e, m)
			if err != nil {
				f.t.Fatal(err)
			}
			run = f.moved(c)
			all[n.ID] = append(all[n.ID], c.Audit...)
		}
	}
	if f.BriefErrors {
		for _, events := range all {
			for i := range events {
				if e := &events[i]; e.Error != nil {
					e.Error = e.Error.Brief()
				}
			}
		}
	}
	return all
}

func feedReadsBack(f *fixture) {
	want := told(f)
	got := map[uuid.UUID][]saga.AuditEvent{}
	last := trail.Position{}
	for _, e := range f.feed(trail.EventFilter{}, 100) {
		if e.Compare(last) <= 0 {
			f.t.Errorf("position %v after %v", e.Position, last)
		}
		last = e.Position
		if digest := e.Digest(); !slices.Equal(digest[:], e.Stored) || e.Altered {
			f.t.Errorf("the digest of event %d does not match what is read back: %+v", e.ID, e.AuditEvent)
		}
		s := f.load(e.SagaID).Saga
		if e.WorkflowName != "order" || cmp.Diff(s.CorrelationID, e.CorrelationID) != "" ||
			cmp.Diff(s.BusinessKey, e.BusinessKey) != "" {
			f.t.Errorf(
				"event %d names workflow %q, correlation %v, key %v",
				e.ID,
				e.WorkflowName,
				e.CorrelationID,
				e.BusinessKey,
			)
		}
		got[e.SagaID] = append(got[e.SagaID], e.AuditEvent)
	}
	if diff := cmp.Diff(want, got, sameJSON); diff != "" {
		f.t.Errorf("events (-told +read):\n%s", diff)
	}
}

func feedPages(f *fixture) {
	told(f)
	want := positions(f.feed(trail.EventFilter{}, 1000))
	if end, err := f.Trail.End(f.t.Context(), f.tenant.ID); err != nil || end != want[len(want)-1] {
		f.t.Errorf("the feed's end is %v, %v; want %v", end, err, want[len(want)-1])
	}
	for _, size := range []int{1, 7, len(want) - 1, len(want), len(want) + 1} {
		if diff := cmp.Diff(want, positions(f.feed(trail.EventFilter{}, size))); diff != "" {
			f.t.Errorf("calls of %d (-want +got):\n%s", size, diff)
		}
	}
}

func positions(events []trail.StoredEvent) []trail.Position {
	out := make([]trail.Position, len(events))
	for i := range events {
		out[i] = events[i].Position
	}
	return out
}

// eventFilters returns filters and, for each, the events of all that it selects.
func eventFilters(all []trail.StoredEvent) map[string]struct {
	filter trail.EventFilter
	keep   func(*trail.StoredEvent) bool
} {
	type kept = struct {
		filter trail.EventFilter
		keep   func(*trail.StoredEvent) bool
	}
	one := all[len(all)/2]
	middle := one.At
	trace := "4bf92f3577b34da6a3ce929d0e0e4736"
	rare, common := []eventtype.Type{
		eventtype.RetryAttempted,
		eventtype.SagaFailed,
		eventtype.CancelAsked,
	}, []eventtype.Type{
		eventtype.SagaFailed,
		eventtype.StepStarted,
	}
	return map[string]kept{
		"rare types":       {trail.EventFilter{Types: rare}, func(e *trail.StoredEvent) bool { return slices.Contains(rare, e.Type) }},
		"types":            {trail.EventFilter{Types: common}, func(e *trail.StoredEvent) bool { return slices.Contains(common, e.Type) }},
		"no type":          {trail.EventFilter{Types: []eventtype.Type{}}, func(*trail.StoredEvent) bool { return false }},
		"an unknown type":  {trail.EventFilter{Types: []eventtype.Type{"saga%"}}, func(*trail.StoredEvent) bool { return false }},
		"a saga":           {trail.EventFilter{SagaID: one.SagaID}, func(e *trail.StoredEvent) bool { return e.SagaID == one.SagaID }},
		"an unknown saga":  {trail.EventFilter{SagaID: newID()}, func(*trail.StoredEvent) bool { return false }},
		"a workflow":       {trail.EventFilter{WorkflowName: "order"}, func(*trail.StoredEvent) bool { return true }},
		"another workflow": {trail.EventFilter{WorkflowName: "refund"}, func(*trail.StoredEvent) bool { return false }},
		"a trace":          {trail.EventFilter{TraceID: trace}, func(e *trail.StoredEvent) bool { return is(e.TraceID, trace) }},
		"an actor":         {trail.EventFilter{Actor: "actor 1 ж"}, func(e *trail.StoredEvent) bool { return e.Actor == "actor 1 ж" }},
		"from":             {trail.EventFilter{From: middle}, func(e *trail.StoredEvent) bool { return !e.At.Before(middle) }},
		"to":               {trail.EventFilter{To: middle}, func(e *trail.StoredEvent) bool { return e.At.Before(middle) }},
		"a microsecond":    {trail.EventFilter{From: middle, To: middle.Add(time.Microsecond)}, func(e *trail.StoredEvent) bool { return e.At.Equal(middle) }},
		"much at once": {
			trail.EventFilter{Types: rare, WorkflowName: "order", TraceID: trace, From: all[0].At},
			func(e *trail.StoredEvent) bool { return slices.Contains(rare, e.Type) && is(e.TraceID, trace) },
		},
		"a saga, a type and an actor": {
			trail.EventFilter{SagaID: one.SagaID, Types: []eventtype.Type{one.Type}, Actor: one.Actor},
			func(e *trail.StoredEvent) bool {
				return e.SagaID == one.SagaID && e.Type == one.Type && (one.Actor == "" || e.Actor == one.Actor)
			},
		},
	}
}

func feedFilters(f *fixture) {
	told(f)
	all := f.feed(trail.EventFilter{}, 1000)
	for name, tt := range eventFilters(all) {
		f.t.Run(name, func(t *testing.T) {
			f := f.in(t)
			want := slices.DeleteFunc(slices.Clone(all), func(e trail.StoredEvent) bool { return !tt.keep(&e) })
			for _, size := range []int{3, 1000} {
				if diff := cmp.Diff(positions(want), positions(f.feed(tt.filter, size))); diff != "" {
					t.Errorf("calls of %d (-want +got):\n%s", size, diff)
				}
			}
		})
	}
}

func feedOfInlineSteps(f *fixture) {
	named := func(workflow, kind string) uuid.UUID {
		def := *f.def
		def.Name = workflow
		if _, _, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, &def, true, f.now()); err != nil {
			f.t.Fatal(err)
		}
		n := f.unowned(func(n *saga.NewSaga) { n.WorkflowName, n.SagaType = workflow, kind })
		return f.stored(n)[0].ID
	}
	long := strings.Repeat("ж", 70)
	one, other := named(saga.InlinePrefix+"01", "refund"), named(saga.InlinePrefix+"02", saga.TypeOf(long))
	named("shop", "refund") // the events of a named workflow's saga are not found by its type
	for name, want := range map[string][]uuid.UUID{
		"refund": {one}, long: {other}, saga.InlinePrefix + "01": {one}, "refun": nil, saga.InlinePrefix: nil,
	} {
		var got []uuid.UUID
		for _, e := range f.feed(trail.EventFilter{WorkflowName: name}, 10) {
			got = append(got, e.SagaID)
		}
		if !slices.Equal(got, want) {
			f.t.Errorf("%q selects events of %v, want %v", name, got, want)
		}
	}
}

func feedOfNothing(f *fixture) {
	var batch []saga.NewSaga
	for range trail.FeedScan + 10 {
		batch = append(batch, f.unowned())
	}
	for part := range slices.Chunk(batch, 500) {
		f.create(part...)
	}
	all := f.feed(trail.EventFilter{}, 1000)
	last := all[len(all)-1].Position
	for name, filter := range map[string]trail.EventFilter{
		"an actor":   {Actor: "nobody"},
		"a time":     {To: f.now().Add(-time.Hour)},
		"a type":     {Types: []eventtype.Type{eventtype.SagaFailed}},
		"a saga":     {SagaID: newID()},
		"a trace":    {TraceID: "none"},
		"a workflow": {WorkflowName: "refund"},
	} {
		at, calls := trail.Position{}, 0
		for calls = range 10 {
			events, end, err := f.Trail.Feed(f.t.Context(), f.tenant.ID, at, filter, 10)
			if err != nil || len(events) > 0 {
				f.t.Fatalf("%s: %d events, %v", name, len(events), err)
			}
			if end == at {
				break
			}
			at = end
		}
		if at != last {
			f.t.Errorf("%s: ended at %v after %d calls, the feed ends at %v", name, at, calls, last)
		}
	}
	_, end, err := f.Trail.Feed(f.t.Context(), f.tenant.ID, trail.Position{}, trail.EventFilter{Actor: "nobody"}, 10)
	if want := all[trail.FeedScan-1].Position; err != nil || end != want {
		f.t.Errorf("one call looked until %v, %v; want %v", end, err, want)
	}
}

func feedWhileWriting(f *fixture) {
	const writers, each = 16, 5
	var wg sync.WaitGroup
	for range writers {
		run := f.stored(f.owned(f.owner))[0]
		wg.Go(func() {
			for range each {
				c, err := saga.Apply(run, f.unanswered(), f.moment())
				if err != nil {
					f.t.Error(err)
					return
				}
				// The saga must not run out of attempts: only the commits matter here.
				c.After.Failures = 0
				if errs, err := f.Sagas.Commit(f.t.Context(), []saga.Change{c}); err != nil || errs[0] != nil {
					f.t.Error(err, errs)
					return
				}
				run = c.After
			}
		})
	}
	written := make(chan struct{})
	go func() { wg.Wait(); f.Settle(f.t); close(written) }()
	var got []trail.Position
	at, over := trail.Position{}, false
	for {
		select {
		case <-written:
			over = true
		default:
		}
		events, end, err := f.Trail.Feed(f.t.Context(), f.tenant.ID, at, trail.EventFilter{}, 3)
		if err != nil {
			f.t.Fatal(err)
		}
		got = append(got, positions(events)...)
		if over && end == at {
			break
		}
		at = end
	}
	want := positions(f.feed(trail.EventFilter{}, 1000))
	if diff := cmp.Diff(want, got); diff != "" || len(want) < writers*(each+1) {
		f.t.Errorf("%d events; (-at the end +read while they were written):\n%s", len(want), diff)
	}
}

func feedForeign(f *fixture) {
	told(f)
	neighbour := begin(f.t, f.Env)
	run := neighbour.stored(neighbour.owned(neighbour.owner))[0]
	for _, filter := range []trail.EventFilter{{}, {SagaID: run.ID}, {Types: []eventtype.Type{eventtype.SagaStarted}}} {
		if got := neighbour.feed(filter, 100); len(got) != 1 || got[0].SagaID != run.ID {
			f.t.Errorf("%+v: another tenant sees %d events, want only its own", filter, len(got))
		}
	}
	if end, err := f.Trail.End(f.t.Context(), newID()); err != nil || end != (trail.Position{}) {
		f.t.Errorf("the end of an empty feed is %v, %v", end, err)
	}
	if got := f.feed(trail.EventFilter{SagaID: run.ID}, 100); len(got) != 0 {
		f.t.Errorf("%d events of another tenant's saga", len(got))
	}
}
