package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// naming is a workflow whose calls refer to a participant by the name of the workflow.
func naming(name, pattern string) *workflow.Definition {
	d := named(name, pattern)
	for i := range d.Steps {
		s := &d.Steps[i]
		for _, h := range []*workflow.HTTPCall{s.Action.HTTP, s.Compensation.HTTP} {
			if h != nil {
				h.Participant, h.Path, h.URL = name, h.URL[len("http://"+name):], ""
			}
		}
	}
	return d
}

// settle replaces the settings of a participant.
func (w *world) settle(name string, s registry.Settings) {
	w.t.Helper()
	s, err := s.Checked(name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.order(name, func(p registry.Participant) registry.Participant { return p.With(s, now()) })
}

// TestACallByNameGoesByTheSettingsOfTheMoment checks that versions pin only the name. The key, path
// and body of a repeated call stay the same (I7, I22), which the participants of the world check.
func TestACallByNameGoesByTheSettingsOfTheMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", gated(w, "a"))
		w.participant("card", func(s *registry.Settings) { s.Headers = map[string]string{"X-Shop": "1"} })
		w.participants.behavior = func(_ saga.Call, nth int) reply {
			if nth == 1 {
				return reply{verdict: saga.Unknown, class: unavailable.class, retryAfter: 4 * time.Second}
			}
			return yes
		}
		d := naming("card", "u")
		d.Steps[0].Action.HTTP.Headers = map[string]string{"X-Own": "2"}
		id := n.create(d)
		w.until("the first attempt", func() bool { return w.participants.callsTo("card") == 1 })
		w.settle("card", registry.Settings{BaseURL: "https://new.example/v2/", TimeoutMS: 700})
		w.order("card", func(p registry.Participant) registry.Participant { p, _ = p.Release("", 0, now()); return p })
		w.untilEnded(id)
		var got []string
		for _, e := range w.participants.ledger[id] {
			got = append(got, fmt.Sprint(e.By.HTTP.URL, " ", e.By.HTTP.Headers, " ", e.Timeout))
		}
		want := "[http://card/do/0 map[X-Own:2 X-Shop:1] 30s https://new.example/v2/do/0 map[X-Own:2] 700ms]"
		if fmt.Sprint(got) != want || w.state(id) != saga.Completed {
			t.Errorf("%s after the calls %v\nwant %s", w.state(id), got, want)
		}
		if h := d.Steps[0].Action.HTTP; h.URL != "" || len(h.Headers) != 1 {
			t.Errorf("the definition was changed: %+v", h)
		}
	})
}

// A participant that was deleted gets no calls, and each attempt reports this. The call is retried
// according to its policy, and is made if the participant is back by then.
func TestACallOfADeletedParticipantIsNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", gated(w, "a"))
		w.participant("card")
		remove := func() {
			if err := w.store.Participants.Delete(context.Background(), home.ID, "card", 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		remove()
		gone := n.create(naming("card", "n"))
		w.untilEnded(gone)
		l := w.load(gone)
		if w.participants.callsTo("card") != 0 || l.Saga.State != saga.Compensated || len(l.Logs) != 3 {
			t.Errorf("%s after %d attempts", l.Saga.State, len(l.Logs))
		}
		if e := l.Saga.Error; e == nil || e.Code != registry.CodeUnknown ||
			e.Message != `step "s0": no participant "card" is registered; PUT /participants/card registers it` {
			t.Errorf("%+v", e)
		}

		d := naming("card", "n")
		d.Name = "waits"
		d.Retry.InitialIntervalMS, d.Retry.MaxIntervalMS = 5000, 5000
		waits := n.create(d)
		w.until("an attempt", func() bool { return len(w.load(waits).Logs) > 0 })
		w.participant("card")
		w.untilEnded(waits)
		if l := w.load(waits); l.Saga.State != saga.Completed || len(l.Logs) != 2 {
			t.Errorf("%s after %d attempts", l.Saga.State, len(l.Logs))
		}

		w.participants.behavior = func(c saga.Call, _ int) reply {
			if c.Step == "s1" {
				remove()
				return no
			}
			return yes
		}
		d = naming("card", "un")
		d.Name = "undone"
		undo := n.create(d)
		w.untilEnded(undo)
		if l := w.load(undo).Saga; l.State != saga.Failed || !l.NeedsAttention {
			t.Errorf("%s, attention %t", l.State, l.NeedsAttention)
		}
	})
}

// The first call already knows a name that was registered a moment ago. While the name cannot be
// looked up, no attempt is spent.
func TestACallByNameLooksForWhatItsNodeDoesNotKnow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		away := 3
		n := w.start("a", gated(w, "a"), func(c *engine.Config) {
			find := c.Address
			c.Address = func(ctx context.Context, call *saga.Call) (bool, error) {
				if away--; away >= 0 {
					return false, errors.New("the database is away")
				}
				return find(ctx, call)
			}
		})
		s, err := registry.Settings{BaseURL: "http://card"}.Checked("card")
		if err != nil {
			t.Fatal(err)
		}
		p := registry.New(home.ID, "card", s, "", now())
		if err := w.store.Participants.Put(context.Background(), p, 0, registry.VerbPut); err != nil {
			t.Fatal(err)
		}
		id := n.create(naming("card", "n"))
		w.untilEnded(id)
		if l := w.load(id); l.Saga.State != saga.Completed || len(l.Logs) != 1 || l.Logs[0].Attempt != 1 || away >= 0 {
			t.Errorf("%s after %d attempts", l.Saga.State, len(l.Logs))
		}
	})
}

// The call uses the gate of the resolved address, as every call does.
func TestAHeldGateParksACallByName(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", gated(w, "a"))
		w.participant("card")
		w.order("card", func(p registry.Participant) registry.Participant { return p.Hold("ann", "", "", now()) })
		id := n.create(naming("card", "n"))
		w.untilEndedOr(id)
		if l := w.load(id); w.participants.callsTo("card") != 0 || l.Saga.Failures != 0 || len(l.Logs) != 0 {
			t.Errorf("%d calls, %d attempts", w.participants.callsTo("card"), len(l.Logs))
		}
		w.order("card", func(p registry.Participant) registry.Participant { p, _ = p.Release("", 0, now()); return p })
		w.untilEnded(id)
		if w.state(id) != saga.Completed {
			t.Error(w.state(id))
		}
	})
}
