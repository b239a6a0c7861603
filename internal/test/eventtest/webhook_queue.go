package eventtest

import (
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/webhook"

	"github.com/skald-saga/skald/internal/test/storetest"
)

var queues = []contract{
	{Name: "a new subscription has no work until an event happens", Test: queueFromNow},
	{Name: "a subscription from the beginning gets all events", Test: queueFromBeginning},
	{Name: "of twenty readers of the same events, one creates deliveries", Test: queueRace},
	{Name: "an outdated or disabled subscription gets nothing new and sends nothing", Test: queueOutdated},
	{Name: "there is work while deliveries are due, and none while they wait or are held", Test: queueDue},
	{Name: "each delivery is claimed once, oldest first, however many workers claim", Test: queueClaim},
	{Name: "a success ends a delivery and brings waiting deliveries forward", Test: queueSuccess},
	{Name: "failed deliveries are retried, then given up, and finally disable the subscription", Test: queueFailures},
	{Name: "a full subscription reads no further until there is room", Test: queueFull},
	{Name: "enabling from now on discards pending deliveries and skips earlier events", Test: queueSkip},
}

// held contains the contracts that advance the clock and so need their own store.
var held = []contract{
	{Name: "once a lease ends, the next worker sends and the former worker's outcome is refused", Test: queueLease},
}

// readNews creates the deliveries for all new events of s, as the loop does.
func (f *fixture) readNews(s webhook.Subscription) []trail.StoredEvent {
	f.t.Helper()
	w := f.workOf(s)
	if w == nil || !w.FeedReady {
		f.t.Fatal("no news")
	}
	events, end, err := f.Trail.Feed(f.t.Context(), s.TenantID, w.Cursor, trail.EventFilter{}, 1000)
	if err != nil {
		f.t.Fatal(err)
	}
	if moved, err := f.Env.Webhooks.Enqueue(f.t.Context(), &w.Subscription, w.Cursor, end,
		f.deliveriesOf(s, events)); err != nil ||
		!moved {
		f.t.Fatalf("enqueue: moved %v, %v", moved, err)
	}
	return events
}

func (f *fixture) deliveriesOf(s webhook.Subscription, events []trail.StoredEvent) (all []webhook.Delivery) {
	for _, e := range events {
		all = append(
			all,
			f.delivery(s, func(d *webhook.Delivery) { d.EventID, d.EventType, d.SagaID = e.ID, string(e.Type), e.SagaID }),
		)
	}
	return all
}

func queueFromNow(f *fixture) {
	f.Happens()
	s := f.hook()
	f.Settle(f.t)
	if w := f.workOf(s); w != nil {
		f.t.Errorf("a new subscription has work: %+v", w)
	}
	id := f.Happens()
	if events := f.readNews(s); len(events) != 1 || events[0].SagaID != id {
		f.t.Errorf("new events %+v; want the one since the subscription was created", events)
	}
	if claimed := f.claimDeliveries(s, 10); len(claimed) != 1 || claimed[0].SagaID != id {
		f.t.Errorf("claimed %+v", claimed)
	}
	if w := f.workOf(s); w != nil {
		f.t.Errorf("everything is read and claimed, but there is work: %+v", w)
	}
}

func queueFromBeginning(f *fixture) {
	f.Happens()
	f.Happens()
	s := f.hookFrom(true)
	f.Settle(f.t)
	w := f.workOf(s)
	if w == nil || !w.FeedReady || w.Cursor != (trail.Position{}) {
		f.t.Fatalf("work %+v; want all events since the beginning", w)
	}
	if diff := cmp.Diff(s, w.Subscription, cmpopts.EquateEmpty()); diff != "" {
		f.t.Errorf("(-created +found):\n%s", diff)
	}
	if events := f.readNews(s); len(events) != 2 {
		f.t.Errorf("%d events; want 2", len(events))
	}
}

func queueRace(f *fixture) {
	s := f.hook()
	f.Happens()
	w := f.workOf(s)
	events, end, err := f.Trail.Feed(f.t.Context(), s.TenantID, w.Cursor, trail.EventFilter{}, 10)
	if err != nil {
		f.t.Fatal(err)
	}
	won := make([]bool, 20)
	storetest.Together(len(won), func(i int) {
		var err error
		if won[i], err = f.Env.Webhooks.Enqueue(f.t.Context(), &w.Subscription, w.Cursor, end,
			f.deliveriesOf(s, events)); err != nil {
			f.t.Error(err)
		}
	})
	count := 0
	for _, ok := range won {
		if ok {
			count++
		}
	}
	if claimed := f.claimDeliveries(s, 100); count != 1 || len(claimed) != 1 {
		f.t.Errorf("%d moved the cursor and %d deliveries were made; want one each", count, len(claimed))
	}
}

func queueOutdated(f *fixture) {
	s := f.hook()
	f.Happens()
	w := f.workOf(s)
	f.added(s, 1)
	changed := s
	changed.Version, changed.URL = 2, "https://other/"
	if err := f.Env.Webhooks.Replace(f.t.Context(), changed, false); err != nil {
		f.t.Fatal(err)
	}
	if moved, err := f.Env.Webhooks.Enqueue(f.t.Context(), &s, w.Cursor, trail.Position{TxID: 1 << 40}, nil); moved ||
		err != nil {
		f.t.Errorf("an outdated subscription moved the cursor: %v", err)
	}
	if claimed := f.claimDeliveries(s, 10); len(claimed) != 0 {
		f.t.Errorf("an outdated subscription sends")
	}
	off := changed
	off.Version, off.Enabled, off.DisabledAt, off.DisabledReason = 3, false, new(f.Tick()), "off"
	if err := f.Env.Webhooks.Replace(f.t.Context(), off, false); err != nil {
		f.t.Fatal(err)
	}
	if claimed := f.claimDeliveries(off, 10); len(claimed) != 0 || f.workOf(off) != nil {
		f.t.Errorf("a disabled subscription sends")
	}
	on := off
	on.Version, on.Enabled, on.DisabledAt, on.DisabledReason = 4, true, nil, ""
	if err := f.Env.Webhooks.Replace(f.t.Context(), on, false); err != nil {
		f.t.Fatal(err)
	}
	if w := f.workOf(on); w == nil || !w.FeedReady || !w.Due {
		f.t.Errorf("enabled again: %+v; want the events in the meantime", w)
	}
}

func queueDue(f *fixture) {
	s := f.hook()
	f.added(s, 1, func(d *webhook.Delivery) { d.DueAt = d.DueAt.Add(time.Hour) })
	if w := f.workOf(s); w != nil {
		f.t.Errorf("there is work before the delivery is due: %+v", w)
	}
	f.added(s, 1)
	if w := f.workOf(s); w == nil || !w.Due || w.FeedReady {
		f.t.Errorf("work %+v; want a delivery that is due", w)
	}
	if claimed := f.claimDeliveries(s, 10); len(claimed) != 1 {
		f.t.Errorf("%d claimed; want the one that is due", len(claimed))
	}
	if w := f.workOf(s); w != nil {
		f.t.Errorf("there is work while the delivery is held: %+v", w)
	}
}

func queueClaim(f *fixture) {
	s := f.hook()
	all := f.added(s, 30)
	if first := f.claimDeliveries(s, 5); len(first) != 5 || first[0].ID != all[0].ID || first[4].ID != all[4].ID {
		f.t.Errorf("claimed %d deliveries, but not the oldest ones in order", len(first))
	}
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	storetest.Together(10, func(int) {
		claimed := f.claimDeliveries(s, 3)
		mu.Lock()
		defer mu.Unlock()
		for _, d := range claimed {
			seen[d.ID]++
			if d.Attempt != 1 || d.LastAttemptAt == nil || string(d.Body) != string(all[0].Body) {
				f.t.Errorf("claimed %+v", d)
			}
		}
	})
	rest := f.claimDeliveries(s, 100)
	for _, d := range rest {
		seen[d.ID]++
	}
	for id, n := range seen {
		if n != 1 {
			f.t.Errorf("%s was claimed %d times", id, n)
		}
	}
	if len(seen) != 25 {
		f.t.Errorf("%d were claimed; want 25", len(seen))
	}
}

func queueLease(f *fixture) {
	s := f.hook()
	f.added(s, 1)
	first := f.claimDeliveries(s, 1)[0]
	if again := f.claimDeliveries(s, 1); len(again) != 0 {
		f.t.Fatal("the delivery was claimed although another worker holds it")
	}
	f.Advance(2 * time.Minute)
	second := f.claimDeliveries(s, 1)
	if len(second) != 1 || second[0].Attempt != 2 {
		f.t.Fatalf("after the lease ended: %+v", second)
	}
	if _, stored, err := f.Env.Webhooks.Settle(f.t.Context(), &first, accepted, policy, f.hookMoment()); stored ||
		err != nil {
		f.t.Errorf("the former holder's outcome was stored, %v", err)
	}
	f.settle(second[0], accepted)
	if _, stored, err := f.Env.Webhooks.Settle(f.t.Context(), &second[0], refused, policy, f.hookMoment()); stored ||
		err != nil {
		f.t.Errorf("a second outcome was stored, %v", err)
	}
	if d := f.stands(first); d.Status != webhook.Delivered || d.Attempt != 2 {
		f.t.Errorf("stands %+v", d)
	}
}

func queueSuccess(f *fixture) {
	s := f.hook()
	f.added(s, 3)
	all := f.claimDeliveries(s, 3)
	f.settle(all[0], refused)
	if w := f.workOf(s); w != nil {
		f.t.Errorf("there is work after a failure, before the next attempt is due: %+v", w)
	}
	r := f.settle(all[1], accepted)
	if d := f.stands(all[1]); d.Status != webhook.Delivered || d.EndedAt == nil || d.ResponseStatus != 204 ||
		!r.Recovered {
		f.t.Errorf("recovered %v, %+v", r.Recovered, d)
	}
	f.wantHook(s)
	claimed := f.claimDeliveries(s, 10)
	if len(claimed) != 1 || claimed[0].ID != all[0].ID { // all[2] is still held
		f.t.Errorf("claimed %+v; want the delivery that waited for its next attempt", claimed)
	}
}

func queueFailures(f *fixture) {
	s := f.hook()
	for i, d := range f.added(s, 3) {
		r := f.giveUp(s, d)
		got, err := f.Env.Webhooks.Get(f.t.Context(), s.TenantID, s.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		if got.Enabled != (i < 2) || r.Disabled == got.Enabled {
			f.t.Fatalf("after %d given up: enabled %v, disabled %v", i+1, got.Enabled, r.Disabled)
		}
		if got.Health.GivenUp != i+1 || got.Health.FailingSince == nil {
			f.t.Fatalf("after %d given up: %+v", i+1, got.Health)
		}
		if diff := cmp.Diff(r.Subscription, got, cmpopts.EquateEmpty()); diff != "" {
			f.t.Errorf("(-decided +stored):\n%s", diff)
		}
	}
}

func queueFull(f *fixture) {
	s := f.hook()
	f.Happens()
	w := f.workOf(s)
	var many []webhook.Delivery
	for range webhook.MaxPending {
		many = append(many, f.delivery(s, func(d *webhook.Delivery) { d.DueAt = d.DueAt.Add(time.Hour) }))
	}
	if moved, err := f.Env.Webhooks.Enqueue(f.t.Context(), &w.Subscription, w.Cursor, w.Cursor, many); err != nil ||
		!moved {
		f.t.Fatalf("enqueue: moved %v, %v", moved, err)
	}
	if w := f.workOf(s); w != nil {
		f.t.Errorf("there is work although the subscription is full and nothing is due: %+v", w)
	}
	claimed, err := f.Env.Webhooks.Claim(f.t.Context(), &s, f.Tick().Add(2*time.Hour), time.Minute, 1)
	if err != nil || len(claimed) != 1 {
		f.t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	f.settle(claimed[0], accepted)
	if w := f.workOf(s); w == nil || !w.FeedReady {
		f.t.Errorf("work %+v; want new events, now that there is room", w)
	}
}

func queueSkip(f *fixture) {
	s := f.hook()
	pending := f.added(s, 1)[0]
	f.Happens()
	f.Settle(f.t)
	next := s
	next.Version, next.UpdatedAt = 2, f.Tick()
	if err := f.Env.Webhooks.Replace(f.t.Context(), next, true); err != nil {
		f.t.Fatal(err)
	}
	if d := f.stands(pending); d.Status != webhook.Discarded || d.EndedAt == nil {
		f.t.Errorf("the pending delivery is %+v", d)
	}
	if w := f.workOf(next); w != nil {
		f.t.Errorf("there is work from before the change: %+v", w)
	}
	id := f.Happens()
	if events := f.readNews(next); len(events) != 1 || events[0].SagaID != id {
		f.t.Errorf("new events %+v; want the one since the change", events)
	}
}
