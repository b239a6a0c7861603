package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var cancel = saga.CancelRequested{By: "somebody", Reason: "changed their mind"}

func TestCancelUndoesWhatWasDone(t *testing.T) {
	for _, tt := range []struct {
		name     string
		behavior func(saga.Call, int) reply
		after    time.Duration // of the create
		sequence string
	}{
		{"during a call that is done after all", when(1, saga.Execute, always(slowly(yes, time.Second))), 500 * time.Millisecond, "X0 X1 C1 C0"},
		{"during a call recorded as running", when(1, saga.Execute, always(slowly(yes, time.Second))), 900 * time.Millisecond, "X0 X1 C1 C0"},
		{"during a call that is refused", when(1, saga.Execute, always(slowly(no, time.Second))), 100 * time.Millisecond, "X0 X1 C0"},
		{"during a call whose reply is lost", when(1, saga.Execute, always(slowly(lostReply, time.Second))), 100 * time.Millisecond, "X0 X1 C1 C0"},
		{"during a call that certainly did not happen", when(1, saga.Execute, always(slowly(unavailable, time.Second))), 100 * time.Millisecond, "X0 X1 C0"},
		{"while it waits for a retry of an unknown outcome", when(1, saga.Execute, always(crashed)), 150 * time.Millisecond, "X0 X1 X1 C1 C0"},
		{"during a call that is refused after a lost reply", when(1, saga.Execute, then(lostReply, slowly(turnedAway, time.Second))), 600 * time.Millisecond, "X0 X1 X1 C1 C0"},
		{"while it waits for a retry that is far away", when(1, saga.Execute, always(reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Hour})), time.Minute, "X0 X1 C0"},
		{"during the first call", when(0, saga.Execute, always(slowly(yes, time.Second))), 0, "X0 C0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = tt.behavior
				id := w.start("a").create(steps("uuu"))
				time.Sleep(tt.after)
				synctest.Wait()
				if err := w.intervene(id, cancel); err != nil {
					t.Fatal(err)
				}
				asked := now()
				w.untilEnded(id)
				s := w.load(id).Saga
				if sequence := w.participants.sequence(id); s.State != saga.Cancelled || sequence != tt.sequence {
					t.Errorf("%s by %s; want cancelled by %s", s.State, sequence, tt.sequence)
				}
				if took := s.CompletedAt.Sub(asked); took > time.Second {
					t.Errorf("it took %v; a cancel waits only for the call in flight", took)
				}
				if err := w.intervene(id, cancel); fault.KindOf(err) != fault.Conflict {
					t.Errorf("a second cancel: %v; want a conflict", err)
				}
				w.checkInvariants(id)
			})
		})
	}
}

func TestCancelBeforeAnythingRanSendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		waits := w.createUnowned(steps("uu"))
		if err := w.intervene(waits, cancel); err != nil {
			t.Fatal(err)
		}
		w.start("a")
		w.untilEnded(waits)
		if s, sequence := w.state(waits), w.participants.sequence(waits); s != saga.Cancelled || sequence != "" {
			t.Errorf("%s by %q; want cancelled by nothing", s, sequence)
		}
		w.checkInvariants(waits)
	})
}

// TestCancelBetweenTheCreateAndItsStart: the saga is stored with an owner, and a client that knows
// its id cancels it before the node that stored it has started it.
func TestCancelBetweenTheCreateAndItsStart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a")
		d := steps("uu")
		w.register(d)
		owner, done := n.engine.Admit(context.Background())
		s := saga.New(saga.Spec{ID: w.newID(), Tenant: home}, d, 1, owner, now(), 0)
		if _, err := n.creates.Do(context.Background(), saga.NewSaga{Saga: s}); err != nil {
			t.Fatal(err)
		}
		if err := w.intervene(s.ID, cancel); err != nil {
			t.Fatal(err)
		}
		w.untilEnded(s.ID)
		done(new(saga.NewInstance(s, d)))
		time.Sleep(time.Minute)
		w.checkInvariants(s.ID)
		if s := w.state(s.ID); s != saga.Cancelled {
			t.Errorf("%s; want cancelled", s)
		}
	})
}

// TestCancelRacesTheLastStep: each of a thousand sagas is canceled at about the time its
// last step is done. The first commit decides, permanently.
func TestCancelRacesTheLastStep(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const rounds = 1000
		w.participants.behavior = when(1, saga.Execute, always(slowly(yes, time.Second)))
		n := w.start("a")
		d := steps("uu")
		w.register(d)
		ids := make([]uuid.UUID, rounds)
		accepted := make([]bool, rounds)
		var clients sync.WaitGroup
		for i := range rounds {
			clients.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				ids[i] = n.create(d)
				time.Sleep(time.Second + time.Duration(i%3-1)*time.Microsecond)
				accepted[i] = w.intervene(ids[i], cancel) == nil
			})
		}
		clients.Wait()
		w.untilEnded(ids...)
		ends := map[saga.State]int{}
		for i, id := range ids {
			s := w.state(id)
			ends[s]++
			if want := map[bool]saga.State{true: saga.Cancelled, false: saga.Completed}[accepted[i]]; s != want {
				t.Errorf("saga %s: the cancel was accepted: %v, and it ends %s", id, accepted[i], s)
			}
		}
		if ends[saga.Completed] < rounds/4 || ends[saga.Cancelled] < rounds/4 {
			t.Errorf("%v: nothing raced", ends)
		}
		w.checkInvariants(ids...)
		t.Logf("%v", ends)
	})
}

func TestDeadlineCompensatesASaga(t *testing.T) {
	for _, tt := range []struct {
		name     string
		behavior func(saga.Call, int) reply
		sequence string
		takes    time.Duration // from the flag to the end
	}{
		{"while it waits", when(1, saga.Execute, always(reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Hour})), "X0 X1 C0", 0},
		{"during a call, which may finish", when(1, saga.Execute, always(slowly(yes, 6*time.Second))), "X0 X1 C1 C0", 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = tt.behavior
				d := steps("uu")
				d.TimeoutMS = 3000
				id := w.start("a").create(d)
				time.Sleep(2900 * time.Millisecond)
				if w.load(id).Saga.TimedOutAt != nil {
					t.Error("flagged before its deadline")
				}
				w.untilEnded(id)
				s := w.load(id).Saga
				if sequence := w.participants.sequence(id); s.State != saga.TimedOut || sequence != tt.sequence {
					t.Errorf("%s by %s; want timed out by %s", s.State, sequence, tt.sequence)
				}
				if late := s.TimedOutAt.Sub(*s.TimeoutAt); late < 0 || late > 1500*time.Millisecond {
					t.Errorf("flagged %v after the deadline", late) // the reaper runs every second
				}
				if took := s.CompletedAt.Sub(*s.TimedOutAt); took > tt.takes {
					t.Errorf("it ended %v after the flag; want at most %v", took, tt.takes)
				}
				w.checkInvariants(id)
			})
		})
	}
}

// The reaper reads the clock and loads the saga in two separate steps. If the saga changes in
// between, the deadline that was seen must still be the deadline of the saga's phase.
func TestADeadlineSeenBeforeTheSagaChangedDoesNotEndIt(t *testing.T) {
	for _, tt := range []struct {
		name      string
		reply     reply // of step 1, in flight when the deadline passes
		meanwhile func(w *world, a *node, id uuid.UUID)
		end       saga.State
		sequence  string
	}{
		{"it turned to compensating", slowly(no, 8*time.Second),
			func(*world, *node, uuid.UUID) {}, saga.Compensated, "X0 X1 C0"},
		{"its deadline was extended", slowly(yes, 20*time.Second), does(saga.DeadlineSet{TimeoutMS: 3_600_000}),
			saga.Completed, "X0 X1"},
		{"it was suspended, and resumed with a later one", slowly(yes, 20*time.Second),
			does(saga.SuspendRequested{By: "op"}, saga.UnsuspendRequested{By: "op"}, saga.DeadlineSet{TimeoutMS: 3_600_000}),
			saga.Completed, "X0 X1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = func(c saga.Call, _ int) reply {
					switch {
					case c.Action == saga.Compensate:
						return slowly(yes, 10*time.Second)
					case c.Index == 1:
						return tt.reply
					}
					return yes
				}
				d := steps("uu")
				d.TimeoutMS, d.CompensationTimeoutMS = 3000, 3_600_000
				a := w.start("a")
				a.inject(faults{latency: func(o op) (there, back time.Duration) {
					if o == reaping {
						return 0, 4 * time.Second // it reads the clock at 6 s and loads at 10 s
					}
					return 0, 0
				}})
				id := a.create(d)
				time.Sleep(8 * time.Second)
				tt.meanwhile(w, a, id)
				w.untilEnded(id)
				s, sequence := w.load(id).Saga, w.participants.sequence(id)
				if s.State != tt.end || s.CompensationExpired || s.TimedOutAt != nil || sequence != tt.sequence {
					t.Errorf("%s by %s (compensation expired: %t, timed out: %v); want %s by %s",
						s.State, sequence, s.CompensationExpired, s.TimedOutAt, tt.end, tt.sequence)
				}
				w.checkInvariants(id)
			})
		})
	}
}

// More sagas than the reaper reads at once stay overdue forever, because their workflow cannot be
// read. The deadline of a later saga must still take effect.
func TestOverdueSagasThatCannotBeFlaggedDoNotHideOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lost := named("lost", "u")
		lost.TimeoutMS = 1000
		for range 1001 {
			w.createUnowned(lost)
		}
		w.participants.behavior = when(
			1,
			saga.Execute,
			always(reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Hour}),
		)
		a := w.start("a", func(c *engine.Config) {
			c.Definition = func(ctx context.Context, home uuid.UUID, name string, version int) (*workflow.Definition, error) {
				if name == "lost" {
					return nil, errors.New("it cannot be read")
				}
				return w.definition(ctx, home, name, version)
			}
		})
		d := steps("uu")
		d.TimeoutMS = 3000
		id := a.create(d)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := w.state(id); s != saga.TimedOut {
			t.Errorf("seven seconds after its deadline the saga is %s", s)
		}
	})
}

func TestDeadlineOfTheCompensationEndsItUnclean(t *testing.T) {
	for _, tt := range []struct {
		name string
		undo reply
	}{
		{"while an undo waits", reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Hour}},
		{"during an undo, which is the last one tried", slowly(crashed, 8*time.Second)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = func(c saga.Call, _ int) reply {
					switch {
					case c.Index == 2:
						return no
					case c.Action == saga.Compensate:
						return tt.undo
					}
					return yes
				}
				d := steps("uuu")
				d.CompensationTimeoutMS = 5000
				id := w.start("a").create(d)
				w.untilEnded(id)
				s := w.load(id).Saga
				sequence := w.participants.sequence(id)
				if s.State != saga.Failed || s.CurrentStep != 1 || sequence != "X0 X1 X2 C1" {
					t.Errorf("%s at step %d by %s; want failed at step 1 by X0 X1 X2 C1", s.State, s.CurrentStep, sequence)
				}
				if took := s.CompletedAt.Sub(*s.StartedAt); took < 5*time.Second || took > 9*time.Second {
					t.Errorf("it ended after %v", took)
				}
				w.checkInvariants(id)
			})
		})
	}
}

func TestResumedCompensationContinuesWhereItGaveUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = func(c saga.Call, nth int) reply {
			switch {
			case c.Index == 2:
				return no
			case c.Index == 1 && c.Action == saga.Compensate && nth <= 4:
				return crashed // three times at first, once more after the resume
			}
			return yes
		}
		id := w.start("a").create(steps("uuu"))
		w.untilEnded(id)
		w.checkInvariants(id)
		if s := w.load(id).Saga; s.State != saga.Failed || s.CurrentStep != 1 {
			t.Fatalf("%s at step %d; want failed at step 1", s.State, s.CurrentStep)
		}
		if err := w.intervene(id, saga.ResumeRequested{By: "operator"}); err != nil {
			t.Fatal(err)
		}
		w.untilEnded(id)
		s, sequence := w.state(id), w.participants.sequence(id)
		if s != saga.Compensated || sequence != "X0 X1 X2 C1 C1 C1 C1 C1 C0" {
			t.Errorf("%s by %s", s, sequence)
		}
		w.checkInvariants(id)
	})
}
