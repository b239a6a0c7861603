package eventtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"

	"github.com/skald-saga/skald/internal/test/storetest"
)

// Webhooks tests webhook.Store, webhook.Log and webhook.Queue. open returns a
// new Env that lasts as long as its test.
func Webhooks(t *testing.T, open func(t *testing.T) storetest.Env) {
	env := open(t)
	run(
		t,
		map[string][]contract{"subscriptions": subscriptions, "deliveries": deliveries, "queue": queues},
		func(*testing.T) storetest.Env { return env },
	)
	run(t, map[string][]contract{"delivery leases": held}, open)
}

var subscriptions = []contract{
	{Name: "a subscription reads back completely", Test: hookReadsBack},
	{Name: "a change replaces all settings of a subscription", Test: hookReplace},
	{Name: "a change based on an old version writes nothing", Test: hookStale},
	{Name: "of twenty changes of one version, one succeeds", Test: hookRace},
	{Name: "a foreign or unknown subscription does not exist", Test: hookForeign},
	{Name: "the list is ordered by age, in pages, and contains only the tenant's own", Test: hookList},
	{Name: "the list counts the pending deliveries of each subscription", Test: hookBacklog},
	{Name: "a tenant has at most a hundred subscriptions", Test: hookLimit},
	{Name: "a deleted webhook is gone with its deliveries", Test: hookDelete},
}

// hook stores a subscription to all events.
func (f *fixture) hook(change ...func(*webhook.Subscription)) webhook.Subscription {
	f.t.Helper()
	return f.hookFrom(false, change...)
}

func (f *fixture) hookFrom(beginning bool, change ...func(*webhook.Subscription)) webhook.Subscription {
	f.t.Helper()
	s, err := webhook.New(
		f.TenantID(),
		newID(),
		webhook.Settings{URL: new("https://h.example/in")},
		[]byte("k"),
		"alice",
		f.Tick(),
	)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range change {
		c(&s)
	}
	if err := f.Env.Webhooks.Create(f.t.Context(), s, beginning); err != nil {
		f.t.Fatalf("create: %v", err)
	}
	return s
}

// wantHook checks that the stored subscription equals s.
func (f *fixture) wantHook(s webhook.Subscription) {
	f.t.Helper()
	got, err := f.Env.Webhooks.Get(f.t.Context(), s.TenantID, s.ID)
	if diff := cmp.Diff(s, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		f.t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func everySetting(f *fixture) func(*webhook.Subscription) {
	return func(s *webhook.Subscription) {
		at, until := f.Tick(), f.Tick().Add(time.Hour)
		s.URL, s.Description = "https://h.example/über?a=1&b=%20", `with "everything" ☃`
		s.EventTypes, s.WorkflowNames = []string{"compensation.*", "saga.failed"}, []string{"a,b", `c"d`, "注文"}
		s.Enabled, s.DisabledReason, s.DisabledAt = false, "gone", &at
		s.Secrets = []webhook.Secret{
			{Key: []byte{0, 255, '\n', '"'}, CreatedAt: at},
			{Key: make([]byte, 64), CreatedAt: at, ExpiresAt: &until},
		}
		s.Health = webhook.Health{FailingSince: &at, GivenUp: 7}
	}
}

func hookReadsBack(f *fixture) {
	s := f.hook(func(s *webhook.Subscription) { s.URL = "http://h/" })
	f.wantHook(s)
	all := f.hook(everySetting(f))
	all.Health = webhook.Health{} // a new subscription has no deliveries yet
	f.t.Run("every field", func(t *testing.T) {
		f := f.in(t)
		got, err := f.Env.Webhooks.Get(t.Context(), all.TenantID, all.ID)
		got.Health = webhook.Health{}
		if diff := cmp.Diff(all, got); err != nil || diff != "" {
			t.Errorf("%v (-given +read):\n%s", err, diff)
		}
	})
}

func hookReplace(f *fixture) {
	s := f.hook()
	everySetting(f)(&s)
	s.Version, s.UpdatedAt = 2, f.Tick()
	if err := f.Env.Webhooks.Replace(f.t.Context(), s, false); err != nil {
		f.t.Fatal(err)
	}
	f.wantHook(s)
}

func hookStale(f *fixture) {
	s := f.hook()
	for _, version := range []int64{1, 3} {
		changed := s
		changed.URL, changed.Version = "https://other/", version
		f.WantFault(f.Env.Webhooks.Replace(f.t.Context(), changed, true), fault.Precondition, webhook.CodeStale)
	}
	f.WantFault(f.Env.Webhooks.Delete(f.t.Context(), s.TenantID, s.ID, 2), fault.Precondition, webhook.CodeStale)
	f.wantHook(s)
}

func hookRace(f *fixture) {
	s := f.hook()
	errs := make([]error, 20)
	storetest.Together(len(errs), func(i int) {
		changed := s
		changed.Version, changed.Description = 2, fmt.Sprint(i)
		errs[i] = f.Env.Webhooks.Replace(f.t.Context(), changed, false)
	})
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else {
			f.WantFault(err, fault.Precondition, webhook.CodeStale)
		}
	}
	if made != 1 {
		f.t.Errorf("%d changes were made, want one", made)
	}
}

func hookForeign(f *fixture) {
	s := f.hookFrom(true)
	d := f.added(s, 1)[0]
	w := f.Env.Webhooks
	for what, id := range map[string]struct{ tenant, id uuid.UUID }{"foreign": {newID(), s.ID},
		"unknown": {s.TenantID, newID()}} {
		f.t.Run(what, func(t *testing.T) {
			f, ctx := f.in(t), t.Context()
			changed, added := s, d
			changed.TenantID, changed.ID, changed.Version = id.tenant, id.id, 2
			added.TenantID, added.WebhookID, added.ID = id.tenant, id.id, newID()
			_, errGet := w.Get(ctx, id.tenant, id.id)
			_, errOne := w.Delivery(ctx, id.tenant, id.id, d.ID)
			_, errMany := w.Deliveries(ctx, id.tenant, id.id, webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10}})
			_, errAgain := w.Redeliver(ctx, id.tenant, id.id, d.ID, f.hookMoment())
			_, _, errAll := w.RedeliverFailed(ctx, id.tenant, id.id, time.Time{}, f.hookMoment())
			for _, err := range []error{
				errGet, errOne, errMany, errAgain, errAll,
				w.Replace(ctx, changed, true), w.Delete(ctx, id.tenant, id.id, 0), w.Add(ctx, added),
			} {
				f.WantFault(err, fault.NotFound, webhook.CodeNotFound)
			}
			claimed, err := w.Claim(ctx, &changed, f.Tick().Add(time.Hour), time.Minute, 10)
			moved, errMoved := w.Enqueue(ctx, &changed, trail.Position{}, trail.Position{TxID: 1}, nil)
			_, stored, errSettled := w.Settle(ctx, &added, webhook.Outcome{Status: 200}, webhook.DefaultPolicy, f.hookMoment())
			for _, err := range []error{err, errMoved, errSettled} {
				if err != nil {
					t.Error(err)
				}
			}
			if len(claimed) != 0 || moved || stored {
				t.Errorf("claimed %d, moved %v, settled %v", len(claimed), moved, stored)
			}
		})
	}
	f.wantHook(s)
	_, err := w.Delivery(f.t.Context(), s.TenantID, s.ID, newID())
	f.WantFault(err, fault.NotFound, webhook.CodeDeliveryNotFound)
	_, err = w.Redeliver(f.t.Context(), s.TenantID, s.ID, newID(), f.hookMoment())
	f.WantFault(err, fault.NotFound, webhook.CodeDeliveryNotFound)
}

func hookList(f *fixture) {
	var want []uuid.UUID
	for range 5 {
		want = append(want, f.hook().ID)
	}
	begin(f.t, f.Env).hook()
	list := func(filter webhook.Filter) (ids []uuid.UUID, p page.Of[webhook.Listed]) {
		f.t.Helper()
		p, err := f.Env.Webhooks.List(f.t.Context(), f.TenantID(), filter)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, s := range p.Items {
			ids = append(ids, s.ID)
		}
		return ids, p
	}
	for _, tt := range []struct {
		filter webhook.Filter
		want   []uuid.UUID
		more   bool
		total  int64
	}{
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 10, Total: true}}, want, false, 5},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 2}}, want[:2], true, 0},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 2, Offset: 4, Total: true}}, want[4:], false, 5},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 2, After: &want[1], Total: true}}, want[2:4], true, 5},
		{webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 2, After: &want[4]}}, nil, false, 0},
	} {
		ids, p := list(tt.filter)
		if diff := cmp.Diff(tt.want, ids); diff != "" || p.More != tt.more || p.Total != tt.total {
			f.t.Errorf("%+v: more %v, total %d (-want +got):\n%s", tt.filter, p.More, p.Total, diff)
		}
	}
}

// hookBacklog: the list counts the pending deliveries of each webhook and nothing else.
func hookBacklog(f *fixture) {
	idle, busy := f.hook(), f.hook()
	waiting := f.added(busy, 3)
	ended := f.claimDeliveries(busy, 1)[0]
	f.settle(ended, accepted)
	oldest := slices.MinFunc(slices.DeleteFunc(waiting, func(d webhook.Delivery) bool { return d.ID == ended.ID }),
		func(a, b webhook.Delivery) int { return a.CreatedAt.Compare(b.CreatedAt) }).CreatedAt
	p, err := f.Env.Webhooks.List(f.t.Context(), f.TenantID(), webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 9}})
	if err != nil || len(p.Items) != 2 {
		f.t.Fatalf("%+v, %v", p, err)
	}
	if l := p.Items[0]; l.ID != idle.ID || l.Pending != 0 || l.Oldest != nil {
		f.t.Errorf("nothing waits: %d since %v", l.Pending, l.Oldest)
	}
	if l := p.Items[1]; l.Pending != 2 || l.Oldest == nil || !l.Oldest.Equal(oldest) {
		f.t.Errorf("two wait: %d since %v, want %s", l.Pending, l.Oldest, oldest)
	}
}

func hookLimit(f *fixture) {
	for range webhook.MaxPerTenant {
		f.hook()
	}
	s, err := webhook.New(f.TenantID(), newID(), webhook.Settings{URL: new("https://h/")}, []byte("k"), "", f.Tick())
	if err != nil {
		f.t.Fatal(err)
	}
	f.WantFault(f.Env.Webhooks.Create(f.t.Context(), s, false), fault.Conflict, webhook.CodeLimit)
	begin(f.t, f.Env).hook() // another tenant has room
}

func hookDelete(f *fixture) {
	s := f.hook()
	d := f.added(s, 1)[0]
	if err := f.Env.Webhooks.Delete(f.t.Context(), s.TenantID, s.ID, 1); err != nil {
		f.t.Fatal(err)
	}
	_, err := f.Env.Webhooks.Delivery(f.t.Context(), s.TenantID, s.ID, d.ID)
	f.WantFault(err, fault.NotFound, webhook.CodeNotFound)
	claimed, err := f.Env.Webhooks.Claim(f.t.Context(), &s, f.Tick(), time.Minute, 10)
	if len(claimed) != 0 || err != nil {
		f.t.Errorf("claimed %d of a deleted webhook, %v", len(claimed), err)
	}
}
