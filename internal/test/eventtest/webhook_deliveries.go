package eventtest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/page"
)

var deliveries = []contract{
	{Name: "a delivery reads back completely, but without its body in lists", Test: deliveryReadsBack},
	{Name: "deliveries are listed newest first, in pages, by status", Test: deliveryList},
	{Name: "a redelivery begins a new round at once", Test: deliveryAgain},
	{Name: "deliveries that failed since a time are sent again, and no others", Test: deliveryAgainFailed},
	{Name: "deliveries that ended long ago expire, but pending ones never do", Test: deliveryExpires},
	{Name: "the backlog contains the pending deliveries of enabled subscriptions", Test: deliveryBacklog},
}

// hookMoment returns the current time and the ids that the delivery rules need.
func (f *fixture) hookMoment() webhook.Moment {
	return webhook.Moment{Now: f.Tick(), Jitter: 0.5, NewID: newID}
}

func (f *fixture) delivery(s webhook.Subscription, change ...func(*webhook.Delivery)) webhook.Delivery {
	at := f.Tick()
	d := webhook.Delivery{
		TenantID: s.TenantID, WebhookID: s.ID, ID: newID(), EventID: 17, EventType: "saga.completed", SagaID: newID(),
		Body: []byte(`{"a":"ü\"\\"}`), Status: webhook.Pending, DueAt: at, CreatedAt: at,
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

// added stores n deliveries that are due.
func (f *fixture) added(s webhook.Subscription, n int, change ...func(*webhook.Delivery)) []webhook.Delivery {
	f.t.Helper()
	var all []webhook.Delivery
	for range n {
		d := f.delivery(s, change...)
		if err := f.Env.Webhooks.Add(f.t.Context(), d); err != nil {
			f.t.Fatalf("add: %v", err)
		}
		all = append(all, d)
	}
	return all
}

func (f *fixture) stands(d webhook.Delivery) webhook.Delivery {
	f.t.Helper()
	got, err := f.Env.Webhooks.Delivery(f.t.Context(), d.TenantID, d.WebhookID, d.ID)
	if err != nil {
		f.t.Fatalf("delivery: %v", err)
	}
	return got
}

// claimDeliveries claims up to limit deliveries for a minute.
func (f *fixture) claimDeliveries(s webhook.Subscription, limit int) []webhook.Delivery {
	f.t.Helper()
	claimed, err := f.Env.Webhooks.Claim(f.t.Context(), &s, f.Tick(), time.Minute, limit)
	if err != nil {
		f.t.Fatalf("claim: %v", err)
	}
	return claimed
}

// settle stores an outcome, which must be accepted.
func (f *fixture) settle(d webhook.Delivery, o webhook.Outcome) webhook.Result {
	f.t.Helper()
	r, stored, err := f.Env.Webhooks.Settle(f.t.Context(), &d, o, policy, f.hookMoment())
	if err != nil || !stored {
		f.t.Fatalf("settle: stored %v, %v", stored, err)
	}
	return r
}

// policy allows two attempts per delivery and three failed deliveries in a row.
var policy = func() webhook.Policy {
	p := webhook.DefaultPolicy
	p.Retry.MaxAttempts, p.DisableAfter = 2, 3
	return p
}()

var (
	accepted = webhook.Outcome{Status: 204}
	refused  = webhook.Outcome{Status: 500}
)

// giveUp claims a delivery, which must be the first one due, and fails it permanently.
func (f *fixture) giveUp(s webhook.Subscription, d webhook.Delivery) webhook.Result {
	f.t.Helper()
	claimed := f.claimDeliveries(s, 1)
	if len(claimed) != 1 || claimed[0].ID != d.ID {
		f.t.Fatalf("claimed %v; want %s", claimed, d.ID)
	}
	once := policy
	once.Retry.MaxAttempts = 1
	r, stored, err := f.Env.Webhooks.Settle(f.t.Context(), &claimed[0], refused, once, f.hookMoment())
	if err != nil || !stored || r.Delivery.Status != webhook.Failed {
		f.t.Fatalf("settle: stored %v, %v, %+v", stored, err, r.Delivery)
	}
	return r
}

func deliveryReadsBack(f *fixture) {
	s := f.hook()
	for name, d := range map[string]webhook.Delivery{
		"of an event": f.added(s, 1)[0],
		"a test":      f.added(s, 1, func(d *webhook.Delivery) { d.EventID, d.SagaID = 0, uuid.Nil })[0],
	} {
		if diff := cmp.Diff(d, f.stands(d)); diff != "" {
			f.t.Errorf("%s (-added +read):\n%s", name, diff)
		}
	}
	d := f.claimDeliveries(s, 1)[0]
	f.settle(d, webhook.Outcome{Error: "no answer in time"})
	d = f.stands(d)
	want := d
	want.Attempt, want.Error, want.ResponseStatus, want.EndedAt = 1, "no answer in time", 0, nil
	if diff := cmp.Diff(want, d); diff != "" || d.LastAttemptAt == nil {
		f.t.Errorf("after a failure, last tried at %v (-want +got):\n%s", d.LastAttemptAt, diff)
	}
	found, err := f.Env.Webhooks.Deliveries(f.t.Context(), s.TenantID, s.ID,
		webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10}})
	if err != nil || len(found.Items) != 2 {
		f.t.Fatalf("%d listed, %v", len(found.Items), err)
	}
	for _, listed := range found.Items {
		want := f.stands(listed)
		want.Body = nil
		if diff := cmp.Diff(want, listed); diff != "" {
			f.t.Errorf("(-read +listed):\n%s", diff)
		}
	}
}

func deliveryList(f *fixture) {
	s := f.hook()
	all := f.added(s, 4)
	f.giveUp(s, all[0])
	f.giveUp(s, all[1])
	f.settle(f.claimDeliveries(s, 1)[0], accepted)
	ids := func(ds []webhook.Delivery) (ids []uuid.UUID) {
		for _, d := range slices.Backward(ds) {
			ids = append(ids, d.ID)
		}
		return ids
	}
	for _, tt := range []struct {
		filter webhook.Filter
		want   []webhook.Delivery // oldest first
		more   bool
		total  int64
	}{
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10, Total: true}}, all, false, 4},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 3}}, all[1:], true, 0},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 3, After: &all[2].ID, Total: true}}, all[:2], false, 4},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 2, Offset: 2}}, all[:2], false, 0},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10, Total: true}, Status: webhook.Failed}, all[:2], false, 2},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 1}, Status: webhook.Failed}, all[1:2], true, 0},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10}, Status: webhook.Delivered}, all[2:3], false, 0},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10}, Status: webhook.Pending}, all[3:], false, 0},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10, Total: true}, Status: webhook.Discarded}, nil, false, 0},
	} {
		p, err := f.Env.Webhooks.Deliveries(f.t.Context(), s.TenantID, s.ID, tt.filter)
		var got []uuid.UUID
		for _, d := range p.Items {
			got = append(got, d.ID)
		}
		if diff := cmp.Diff(ids(tt.want), got); diff != "" || err != nil || p.More != tt.more || p.Total != tt.total {
			f.t.Errorf("%+v: %v, more %v, total %d (-want +got):\n%s", tt.filter, err, p.More, p.Total, diff)
		}
	}
}

func deliveryAgain(f *fixture) {
	s := f.hook()
	d := f.added(s, 1)[0]
	f.giveUp(s, d)
	at := f.Tick()
	again, err := f.Env.Webhooks.Redeliver(f.t.Context(), s.TenantID, s.ID, d.ID, webhook.Moment{Now: at, NewID: newID})
	want := f.stands(d)
	if diff := cmp.Diff(want, again); err != nil || diff != "" {
		f.t.Errorf("%v (-read +answered):\n%s", err, diff)
	}
	pending := want
	pending.Status, pending.RoundStart, pending.DueAt, pending.EndedAt = webhook.Pending, 1, at, nil
	pending.ResponseStatus = 500
	if diff := cmp.Diff(pending, want); diff != "" {
		f.t.Errorf("after (-want +got):\n%s", diff)
	}
	f.giveUp(s, d) // another complete round
	if _, err := f.Env.Webhooks.Redeliver(f.t.Context(), s.TenantID, s.ID, d.ID, f.hookMoment()); err != nil {
		f.t.Fatal(err)
	}
	claimed := f.claimDeliveries(s, 1)
	if _, err := f.Env.Webhooks.Redeliver(f.t.Context(), s.TenantID, s.ID, d.ID, f.hookMoment()); err != nil {
		f.t.Fatal(err)
	}
	if more := f.claimDeliveries(s, 1); len(more) != 0 {
		f.t.Errorf("a delivery in flight was claimed again after a redelivery was requested")
	}
	f.settle(claimed[0], accepted)
}

func deliveryAgainFailed(f *fixture) {
	s := f.hook()
	old := f.added(s, 1)[0]
	f.giveUp(s, old)
	since := f.Tick()
	failed := f.added(s, 1)[0]
	f.giveUp(s, failed)
	f.added(s, 1)
	f.settle(f.claimDeliveries(s, 1)[0], accepted)
	n, more, err := f.Env.Webhooks.RedeliverFailed(f.t.Context(), s.TenantID, s.ID, since, f.hookMoment())
	if n != 1 || more || err != nil {
		f.t.Errorf("%d, more %v, %v; want 1", n, more, err)
	}
	claimed := f.claimDeliveries(s, 10)
	if len(claimed) != 1 || claimed[0].ID != failed.ID || claimed[0].RoundStart != 1 || claimed[0].Attempt != 2 {
		f.t.Errorf("claimed %+v; want the delivery that failed since then", claimed)
	}
}

func deliveryExpires(f *fixture) {
	s := f.hook()
	long := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	nth := 0
	all := f.added(s, 3, func(d *webhook.Delivery) {
		if d.CreatedAt, nth = long, nth+1; nth == 2 {
			d.EventID = 0 // a test delivery: it has no dead letter to retry
		}
	})
	f.settle(f.claimDeliveries(s, 1)[0], accepted)
	f.giveUp(s, all[1])
	f.claimDeliveries(s, 1)
	young := f.added(s, 1)[0]
	f.settle(f.claimDeliveries(s, 1)[0], accepted)
	if n, err := f.Env.Webhooks.Expire(f.t.Context(), long); n != 0 || err != nil {
		f.t.Errorf("%d deliveries expired early, %v", n, err)
	}
	if n, err := f.Env.Webhooks.Expire(f.t.Context(), long.Add(time.Second)); n != 2 || err != nil {
		f.t.Errorf("%d expired, %v; want 2", n, err)
	}
	f.stands(all[2])
	f.stands(young)
}

func deliveryBacklog(f *fixture) {
	s := f.hook()
	long := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	f.added(s, 2, func(d *webhook.Delivery) { d.CreatedAt = long })
	pending, oldest, err := f.Env.Webhooks.Backlog(f.t.Context())
	if pending < 2 || !oldest.Equal(long) || err != nil {
		f.t.Errorf("%d pending since %v, %v", pending, oldest, err)
	}
	off := s
	off.Version, off.Enabled, off.DisabledAt, off.DisabledReason = 2, false, new(f.Tick()), "off"
	if err := f.Env.Webhooks.Replace(f.t.Context(), off, false); err != nil {
		f.t.Fatal(err)
	}
	if _, oldest, err := f.Env.Webhooks.Backlog(f.t.Context()); oldest.Equal(long) || err != nil {
		f.t.Errorf("a disabled subscription is counted: %v, %v", oldest, err)
	}
}

// workOf returns the work of a subscription. Nil means there is none.
func (f *fixture) workOf(s webhook.Subscription) *webhook.Work {
	f.t.Helper()
	ready, err := f.Env.Webhooks.Ready(f.t.Context(), f.Tick())
	if err != nil {
		f.t.Fatal(err)
	}
	if i := slices.IndexFunc(ready, func(w webhook.Work) bool { return w.ID == s.ID }); i >= 0 {
		return &ready[i]
	}
	return nil
}
