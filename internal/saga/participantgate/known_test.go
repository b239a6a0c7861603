package participantgate_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var tenant = uuid.UUID{15: 1}

// stored returns a store with participants that have these base URLs.
func stored(t testing.TB, urls map[string]string) *memstore.Participants {
	t.Helper()
	m := memstore.New(time.Now)
	for name, url := range urls {
		s, err := registry.Settings{BaseURL: url}.Checked(name)
		if err != nil {
			t.Fatal(err)
		}
		p := registry.New(tenant, name, s, "", time.Now())
		if err := m.Participants.Put(context.Background(), p, 0, registry.VerbPut); err != nil {
			t.Fatal(err)
		}
	}
	return m.Participants
}

func TestTheLongestPathNamesTheParticipant(t *testing.T) {
	k := participantgate.NewKnown(stored(t, map[string]string{
		"all": "http://h", "v1": "http://h/v1", "card": "http://h/v1/card", "tls": "https://h",
	}))
	if k.Of(tenant, "http://h/") != nil || k.Named(tenant, "all") != nil {
		t.Error("something is known before it was read")
	}
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"http://h": "all", "http://h/v2": "all", "http://h/v1": "v1", "http://h/v1/cards": "v1", "http://h/v1/card": "card",
		"http://H:80/v1/card/7?x": "card", "https://h/v1/card": "tls", "http://other/": "", "nowhere": "",
	} {
		got := ""
		if p := k.Of(tenant, url); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("%s is a call of %q, want %q", url, got, want)
		}
	}
	if k.Of(uuid.Nil, "http://h") != nil || k.Named(tenant, "card") == nil {
		t.Error("tenants are mixed, or names are not known")
	}
}

// A node that has just started has read nothing. It must not call a held participant before its
// first round, and nothing at all while it cannot read which participants are held.
func TestANodeThatHasReadNothingCallsNothingThatIsHeld(t *testing.T) {
	rows := stored(t, map[string]string{"card": "http://card", "stock": "http://stock"})
	held, err := rows.Get(t.Context(), tenant, "card")
	if err != nil {
		t.Fatal(err)
	}
	if err := rows.Put(t.Context(), held.Hold("ann", "Ann", "", time.Now()), held.Epoch, registry.VerbHeld); err != nil {
		t.Fatal(err)
	}
	broken := &failing{Gates: rows, err: errors.New("no connection")}
	enter := func(g *participantgate.Gate, host string) (step, other string) {
		say := func(park string, busy time.Duration) string {
			switch {
			case busy > 0:
				return "waits"
			case park != "":
				return "parks at " + park
			}
			return "is called"
		}
		c := &saga.Call{Tenant: tenant, By: workflow.Call{HTTP: &workflow.HTTPCall{URL: "http://" + host + "/x"}}}
		entry := g.Enter(t.Context(), c, saga.CallID{}, true)
		webhook := registry.Caller{TenantID: tenant, Kind: registry.Webhook, ID: uuid.New()}
		turn := g.Turn(t.Context(), webhook, "http://"+host+"/x")
		park := ""
		if turn.Waits != nil {
			park = turn.Waits.Name
		}
		return say(entry.Park, entry.Busy), say(park, turn.Busy)
	}
	node := func() *participantgate.Gate {
		return participantgate.New(participantgate.Config{
			Store: rows, Known: participantgate.NewKnown(broken), Node: "a", Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
	}
	for _, tt := range []struct {
		broken      error
		host, wants string
	}{
		{nil, "card", "parks at card"}, {nil, "stock", "is called"}, {nil, "elsewhere", "is called"},
		{broken.err, "card", "waits"}, {broken.err, "stock", "waits"}, {broken.err, "elsewhere", "waits"},
	} {
		broken.err = tt.broken
		if step, other := enter(node(), tt.host); step != tt.wants || other != tt.wants {
			t.Errorf("with error %v, a step of %s %s and a webhook %s, want that it %s", tt.broken, tt.host, step,
				other, tt.wants)
		}
	}
}

// failing are gates whose participants cannot be read while err is set.
type failing struct {
	registry.Gates
	err error
}

func (f *failing) Changed(
	ctx context.Context, since registry.Mark,
) ([]registry.Participant, registry.Mark, bool, error) {
	if f.err != nil {
		return nil, since, false, f.err
	}
	return f.Gates.Changed(ctx, since)
}

// A saga that calls no named participant costs nothing extra because others exist.
func TestACallOfNoParticipantAllocatesNothing(t *testing.T) {
	for name, urls := range map[string]map[string]string{
		"no participants at all": {}, "one of another host": {"card": "http://card.example/v1"},
	} {
		rows := stored(t, urls)
		k := participantgate.NewKnown(rows)
		if err := k.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		g := participantgate.New(participantgate.Config{
			Store: rows, Known: k, Node: "a", Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		c := &saga.Call{Tenant: tenant, By: workflow.Call{HTTP: &workflow.HTTPCall{URL: "http://stock.example/reservations"}}}
		if n := testing.AllocsPerRun(1000, func() { g.Enter(context.Background(), c, saga.CallID{}, true) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkACallOfNoParticipant(b *testing.B) {
	rows := stored(b, map[string]string{"card": "http://card.example/v1"})
	k := participantgate.NewKnown(rows)
	if err := k.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	g := participantgate.New(participantgate.Config{
		Store: rows, Known: k, Node: "a", Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	c := &saga.Call{Tenant: tenant, By: workflow.Call{HTTP: &workflow.HTTPCall{URL: "http://stock.example/reservations"}}}
	for b.Loop() {
		g.Enter(context.Background(), c, saga.CallID{}, true)
	}
}

// Two rounds within one second store two sums, and the first one is not lost.
func TestWhatIsCountedWithinASecondIsStoredInParts(t *testing.T) {
	rows := stored(t, map[string]string{"card": "http://card"})
	k := participantgate.NewKnown(rows)
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	g := participantgate.New(participantgate.Config{
		Store: rows, Known: k, Node: "a", Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler),
	})
	round := func() {
		t.Helper()
		if err := g.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	round()
	c := &saga.Call{Tenant: tenant, By: workflow.Call{HTTP: &workflow.HTTPCall{URL: "http://card/charge"}}}
	for range 3 {
		for range 2 {
			g.Enter(t.Context(), c, saga.CallID{}, true).Leave(&saga.Outcome{Verdict: saga.Unknown, Code: "timeout"})
		}
		at = at.Add(300 * time.Millisecond)
		round()
	}
	f, err := rows.Figures(t.Context(), tenant, "card", at.Add(-time.Hour))
	if err != nil || f.Calls != 6 || f.Failed != 6 || f.Codes["timeout"] != 6 {
		t.Errorf("%+v, %v", f, err)
	}
	if n := g.InFlight(tenant, "card"); n != 0 {
		t.Errorf("%d in flight", n)
	}
}
