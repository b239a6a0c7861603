package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// TestLostAnswerOfEveryWrite loses the result of a write, before or after the commit, while the
// node stays alive. The node must find out whether the write happened: the participants must
// receive exactly the same calls as without the failure, and no outcome may be lost.
func TestLostAnswerOfEveryWrite(t *testing.T) {
	total := 0
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			var undisturbed outcome
			var calls string
			synctest.Test(t, func(t *testing.T) { undisturbed, calls = disturb(t, sc, &writes{}) })
			for at := 1; at <= undisturbed.writes; at++ {
				for _, how := range []failure{lostBefore, lostAfter} {
					total++
					where := fmt.Sprintf("write %d of %d, after the disk: %v", at, undisturbed.writes, how == lostAfter)
					synctest.Test(t, func(t *testing.T) {
						got, sequence := disturb(t, sc, &writes{at: at, how: how})
						if got.end != sc.end || got.clean != undisturbed.clean || got.takeovers != 0 {
							t.Errorf(
								"%s: it ends %s (clean: %v) after %d takeovers; want %s (clean: %v) after none",
								where,
								got.end,
								got.clean,
								got.takeovers,
								sc.end,
								undisturbed.clean,
							)
						}
						if sequence != calls && !sc.timed {
							t.Errorf("%s: %s; want %s", where, sequence, calls)
						}
						for what, n := range got.calls {
							if n > undisturbed.calls[what] {
								t.Errorf("%s: %d calls to %s step %d; want %d", where, n, what.action, what.step, undisturbed.calls[what])
							}
						}
					})
				}
			}
		})
	}
	if total < 250 {
		t.Errorf("%d lost answers; too few writes were tested", total)
	}
	t.Logf("%d lost answers", total)
}

// disturb runs a scenario on one node whose writes fail as c specifies.
func disturb(t *testing.T, sc scenario, c *writes) (outcome, string) {
	w := newWorld(t)
	defer w.close()
	c.w = w
	w.participants.behavior = sc.behavior(w)
	n := w.prepare("a")
	n.inject(faults{fault: c.fault})
	n.run()
	synctest.Wait()
	var id uuid.UUID
	if sc.unowned {
		id = w.createUnowned(sc.d)
		n.engine.Wake(refOf(id))
	} else {
		id = n.create(sc.d)
	}
	w.untilEnded(id)
	time.Sleep(time.Minute)
	w.checkInvariants(id)
	s := w.load(id).Saga
	return outcome{
			s.State,
			s.Clean != nil && *s.Clean,
			w.participants.counts(id),
			w.takeovers[id],
			c.n,
			false,
		}, w.participants.sequence(
			id,
		)
}

// TestLostAnswersInARow makes the database lose every result for a while, first before and then
// after the commit.
func TestLostAnswersInARow(t *testing.T) {
	for _, how := range []failure{lostBefore, lostAfter} {
		t.Run(fmt.Sprintf("after the commit: %v", how == lostAfter), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				n := w.start("a")
				begin := now()
				w.participants.behavior = when(2, saga.Execute, always(no))
				n.inject(faults{fault: func(r request) failure {
					if (r.op == committing || r.op == loading) && now().Sub(begin) < 8*time.Second {
						return how
					}
					return passes
				}})
				id := n.create(steps("uuu"))
				w.untilEnded(id)
				if sequence := w.participants.sequence(id); sequence != "X0 X1 X2 C1 C0" {
					t.Errorf("%s", sequence)
				}
				w.checkInvariants(id)
			})
		})
	}
}
