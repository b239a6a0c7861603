package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
)

// slower answers the execution of step i after takes[i], and all other calls at once.
func slower(takes ...time.Duration) func(saga.Call, int) reply {
	return func(c saga.Call, _ int) reply {
		if c.Action == saga.Execute && c.Index < len(takes) {
			return slowly(yes, takes[c.Index])
		}
		return yes
	}
}

// at returns a saga's current step and its number of logs, as stored.
func (w *world) at(id uuid.UUID) (step, logs int) {
	l := w.load(id)
	return l.Saga.CurrentStep, len(l.Logs)
}

// untilHeld waits for 5 ms, by which time a saga has reached a call that takes longer, and checks
// that all earlier outcomes are held.
func (w *world) untilHeld(id uuid.UUID) {
	w.t.Helper()
	time.Sleep(5 * time.Millisecond)
	synctest.Wait()
	if step, logs := w.at(id); step != 0 || logs != 0 {
		w.t.Fatalf("it is at step %d with %d logs; not everything is held", step, logs)
	}
}

// TestStepsThatDoNotWaitAreWrittenTogether checks that three steps take one commit, and that each
// of them has its row.
func TestStepsThatDoNotWaitAreWrittenTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a")
		commits := 0
		n.inject(faults{fault: func(r request) failure {
			if r.op == committing {
				commits++
			}
			return passes
		}})
		id := n.create(ahead("ahead", "uuu"))
		w.untilEnded(id)
		rows := strings.Join(w.rows(id), ", ")
		if want := "s0 EXECUTE SUCCESS, s1 EXECUTE SUCCESS, s2 EXECUTE SUCCESS"; commits != 1 || rows != want {
			t.Errorf("%d commits of %s; want 1 of %s", commits, rows, want)
		}
		if v := w.load(id).Saga.Version; v != 2 {
			t.Errorf("version %d after one commit", v)
		}
		w.checkInvariants(id)
	})
}

// TestAnOutcomeIsHeldNoLongerThanAllowed checks that an outcome is written in time while the next
// call is in flight, however long that call takes.
func TestAnOutcomeIsHeldNoLongerThanAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = slower(0, 8*time.Millisecond, 8*time.Millisecond, time.Second)
		id := w.start("a").create(ahead("ahead", "uuuu"))
		time.Sleep(19 * time.Millisecond)
		synctest.Wait()
		if step, logs := w.at(id); step != 0 || logs != 0 {
			t.Errorf("after 19 ms it is at step %d with %d logs; all of it should be held", step, logs)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if step, logs := w.at(id); step != 3 || logs != 3 {
			t.Errorf("after 21 ms it is at step %d with %d logs; want 3 and 3", step, logs)
		}
		w.untilEnded(id)
		w.checkInvariants(id)
	})
}

func TestNothingIsHeldIfTheServerSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = slower(0, 0, 5*time.Millisecond)
		id := w.start("a", func(c *engine.Config) { c.Checkpoint = 0 }).create(ahead("ahead", "uuu"))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if step, logs := w.at(id); step != 2 || logs != 2 {
			t.Errorf("it is at step %d with %d logs; want 2 and 2", step, logs)
		}
		w.untilEnded(id)
		w.checkInvariants(id)
	})
}

// TestNoInterventionLosesAnOutcome checks that an intervention is written first when it arrives
// while outcomes are held, and that the outcomes are written after it.
func TestNoInterventionLosesAnOutcome(t *testing.T) {
	for _, tt := range []struct {
		name     string
		event    saga.Event
		then     saga.Event // applied half a second later; nil means nothing
		last     reply      // the behavior of the call in flight
		end      saga.State
		sequence string
		rows     string
	}{
		{"a cancel", cancel, nil, yes, saga.Cancelled, "X0 X1 X2 C2 C1 C0", "X0 X1 X2 C0 C1 C2"},
		{"a cancel, and the call is refused", cancel, nil, no, saga.Cancelled, "X0 X1 X2 C1 C0", "X0 X1 C0 C1"},
		{"a cancel, and the reply is lost", cancel, nil, lostReply, saga.Cancelled, "X0 X1 X2 C2 C1 C0", "X0 X1 C0 C1 C2"},
		{"the deadline", saga.DeadlinePassed{}, nil, yes, saga.TimedOut, "X0 X1 X2 C2 C1 C0", "X0 X1 X2 C0 C1 C2"},
		{"a suspension", saga.SuspendRequested{}, saga.UnsuspendRequested{}, yes, saga.Completed, "X0 X1 X2 X3", "X0 X1 X2 X3"},
		{"a suspension, then a cancel", saga.SuspendRequested{}, cancel, yes, saga.Cancelled, "X0 X1 X2 C2 C1 C0", "X0 X1 X2 C0 C1 C2"},
		{"a new deadline", saga.DeadlineSet{TimeoutMS: 60_000}, nil, yes, saga.Completed, "X0 X1 X2 X3", "X0 X1 X2 X3"},
		{"a mark", saga.Neglected{Reason: "look"}, nil, yes, saga.Completed, "X0 X1 X2 X3", "X0 X1 X2 X3"},
		{"an order to fail the step", saga.StepOrdered{Order: saga.Order{Verb: saga.FailStep}}, nil, yes, saga.Compensated,
			"X0 X1 X2 C2 C1 C0", "X0 X1 X2 C0 C1 C2"},
		{"an order to skip the step, which is done", saga.StepOrdered{Order: saga.Order{Verb: saga.SkipStep}}, nil, yes,
			saga.Completed, "X0 X1 X2 X3", "X0 X1 X2 X3"},
	} {
		for takes, when := range map[time.Duration]string{
			10 * time.Millisecond: "the answer comes first", 100 * time.Millisecond: "the checkpoint comes first"} {
			t.Run(tt.name+", "+when, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					w.participants.behavior = func(c saga.Call, nth int) reply {
						if c.Action == saga.Execute && c.Index == 2 {
							return slowly(tt.last, takes)
						}
						return yes
					}
					d := ahead("ahead", "uuuu")
					d.TimeoutMS = 3_600_000
					d.Retry.MaxAttempts = 1
					d.Steps[2].Checkpoint = nil
					id := w.start("a").create(d)
					w.untilHeld(id)
					if err := w.intervene(id, tt.event); err != nil {
						t.Fatal(err)
					}
					if tt.then != nil {
						time.Sleep(500 * time.Millisecond)
						synctest.Wait()
						if sent := w.participants.sequence(id); sent != "X0 X1 X2" {
							t.Errorf("while it is suspended: %s", sent)
						}
						if err := w.intervene(id, tt.then); err != nil {
							t.Fatal(err)
						}
						if w.load(id).Saga.SuspendedAt != nil {
							if err := w.intervene(id, saga.UnsuspendRequested{}); err != nil {
								t.Fatal(err)
							}
						}
					}
					w.untilEnded(id)
					done := ""
					for _, l := range w.load(id).Logs {
						if l.Status == saga.LogSuccess {
							done += " " + map[saga.Action]string{saga.Execute: "X", saga.Compensate: "C"}[l.Action] + l.StepName[1:]
						}
					}
					fields := strings.Fields(done)
					want := strings.Fields(tt.rows)
					for _, row := range want {
						if !strings.Contains(done+" ", " "+row+" ") {
							t.Errorf("no row says that %s was done: %s", row, done)
						}
					}
					sequence := w.participants.sequence(id)
					if w.state(id) != tt.end || sequence != tt.sequence || len(fields) != len(want) {
						t.Errorf("%s by %s with rows%s; want %s by %s with %s", w.state(id), sequence, done, tt.end, tt.sequence, tt.rows)
					}
					if tt.name != "a mark" {
						w.checkInvariants(id)
					}
				})
			})
		}
	}
}

// TestATakeoverKnowsHowFarTheLostNodeMayBe checks that a takeover accounts for calls of the lost
// node of which nothing is recorded.
func TestATakeoverKnowsHowFarTheLostNodeMayBe(t *testing.T) {
	for _, tt := range []struct {
		name     string
		checked  int // the step that waits for its commit; -1 means none
		kills    int
		event    saga.Event
		behavior func(saga.Call, int) reply
		end      saga.State
		sequence string
	}{
		{"going forward they are called again", -1, 1, nil, nil, saga.Completed, "X0 X1 X2 X0 X1 X2 X3"},
		{"and again after the next loss", -1, 2, nil, nil, saga.Completed, "X0 X1 X2 X0 X1 X2 X0 X1 X2 X3"},
		{"turning back they are undone, also what was not called yet", -1, 1, cancel, nil, saga.Cancelled, "X0 X1 X2 C3 C2 C1 C0"},
		{"up to the first that waits for the disk", 2, 1, cancel, nil, saga.Cancelled, "X0 X1 X2 C2 C1 C0"},
		{"the first is refused when it is repeated", -1, 1, nil, func(c saga.Call, nth int) reply {
			if c.Index == 0 && c.Action == saga.Execute && nth > 1 {
				return turnedAway
			}
			return yes
		}, saga.Compensated, "X0 X1 X2 X0 C3 C2 C1 C0"},
		{"the second is refused when it is repeated", -1, 1, nil, func(c saga.Call, nth int) reply {
			if c.Index == 1 && c.Action == saga.Execute && nth > 1 {
				return slowly(turnedAway, 50*time.Millisecond)
			}
			return yes
		}, saga.Compensated, "X0 X1 X2 X0 X1 C3 C2 C1 C0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				deaf := true // the participant of the third step does not answer in time
				w.participants.behavior = func(c saga.Call, nth int) reply {
					r := yes
					if tt.behavior != nil {
						r = tt.behavior(c, nth)
					}
					if c.Index == 2 && c.Action == saga.Execute && deaf {
						r = slowly(r, 10*time.Millisecond)
					}
					return r
				}
				d := ahead("ahead", "uuuu")
				if tt.checked >= 0 {
					d.Steps[tt.checked].Checkpoint = nil
				}
				n := w.start("a")
				id := n.create(d)
				for range tt.kills {
					w.untilHeld(id)
					n.kill()
					if tt.event != nil {
						if err := w.intervene(id, tt.event); err != nil {
							t.Fatal(err)
						}
					}
					before := len(w.participants.of(id))
					n = w.prepare("a")
					n.run()
					w.until("it was taken over", func() bool { return len(w.participants.of(id)) > before })
				}
				w.untilEnded(id)
				if sequence := w.participants.sequence(id); w.state(id) != tt.end || sequence != tt.sequence {
					t.Errorf("%s by %s; want %s by %s", w.state(id), sequence, tt.end, tt.sequence)
				}
				w.checkInvariants(id)
			})
		})
	}
}

// TestAStopWritesWhatIsHeld checks that held outcomes are written at a stop, so that no call is
// repeated.
func TestAStopWritesWhatIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = slower(0, 0, 10*time.Millisecond)
		a := w.start("a")
		id := a.create(ahead("ahead", "uuuu"))
		w.untilHeld(id)
		a.stop()
		if step, logs := w.at(id); step != 3 || logs != 3 {
			t.Errorf("it was left at step %d with %d logs; want 3 and 3", step, logs)
		}
		w.start("b")
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X1 X2 X3" || w.takeovers[id] != 0 {
			t.Errorf("%s after %d takeovers", sequence, w.takeovers[id])
		}
		w.checkInvariants(id)
	})
}

// TestAStopBetweenTwoCallsWritesWhatIsHeld asks the node to stop after it has held an outcome and
// before it makes the next call.
func TestAStopBetweenTwoCallsWritesWhatIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var a *node
		var looks atomic.Int32 // at the clock since the first call has ended, and one
		a = w.start("a", func(c *engine.Config) {
			c.Observer.CallDone = func(saga.Action, *saga.Outcome) { looks.CompareAndSwap(0, 1) }
			c.Now = func() time.Time {
				// The first reading is for the decision, the second for the next task.
				if looks.Load() > 0 && looks.Add(1) == 3 {
					a.cancel()
					time.Sleep(time.Millisecond)
				}
				return now()
			}
		})
		id := a.create(ahead("ahead", "uuu"))
		time.Sleep(time.Second)
		synctest.Wait()
		if step, logs := w.at(id); step != 1 || logs != 1 || w.load(id).Saga.LeaseOwner != nil {
			t.Errorf("it was left at step %d with %d logs, of node %v; want 1, 1 and none", step, logs, w.load(id).Saga.LeaseOwner)
		}
		w.start("b")
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X1 X2" || w.takeovers[id] != 0 {
			t.Errorf("%s after %d takeovers", sequence, w.takeovers[id])
		}
		w.checkInvariants(id)
	})
}

// TestWhatCannotBeStoredTogetherIsDoneAgainOneByOne checks the case that the database refuses the
// content of one of several held outcomes.
func TestWhatCannotBeStoredTogetherIsDoneAgainOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = func(c saga.Call, _ int) reply {
			if c.Index == 1 && c.Action == saga.Execute {
				return unstorable
			}
			return yes
		}
		d := ahead("ahead", "uuu")
		d.Retry.MaxAttempts = 1
		id := w.start("a").create(d)
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); w.state(id) != saga.Compensated || sequence != "X0 X1 X2 X0 X1 C2 C1 C0" {
			t.Errorf("%s by %s", w.state(id), sequence)
		}
	})
}

// TestASagaForcedToFailWhileOutcomesAreHeld checks that the held outcomes are lost and therefore in
// doubt.
func TestASagaForcedToFailWhileOutcomesAreHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = slower(0, 0, 10*time.Millisecond)
		d := ahead("ahead", "uuuu")
		d.Steps[2].Checkpoint = nil
		id := w.start("a").create(d)
		w.untilHeld(id)
		if err := w.intervene(id, saga.FailureForced{By: "op"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var doubted []string
		for _, v := range saga.Steps(w.run(id), w.load(id).Logs) {
			if v.InDoubt {
				doubted = append(doubted, v.Name)
			}
		}
		if got := strings.Join(doubted, " "); got != "s0 s1 s2" {
			t.Errorf("in doubt are %s", got)
		}
		if err := w.intervene(id, saga.ResumeRequested{By: "op"}); err != nil {
			t.Fatal(err)
		}
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X1 X2 C2 C1 C0" {
			t.Error(sequence)
		}
	})
}
