package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// TestCrashAtEveryWrite makes the node die at each of its writes, before or after the commit, and
// lets another node take over: one that starts under the same name, or one that must wait until the
// lease expires. The saga must end as it does without the crash, and the participants' ledger must
// meet requirements/invariants.md 2.2.
func TestCrashAtEveryWrite(t *testing.T) {
	total := 0
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			var undisturbed outcome
			synctest.Test(t, func(t *testing.T) { undisturbed = crash(t, sc, &writes{}, "") })
			if undisturbed.end != sc.end || undisturbed.takeovers != 0 {
				t.Fatalf(
					"without a crash it ends %s after %d takeovers; want %s after none",
					undisturbed.end,
					undisturbed.takeovers,
					sc.end,
				)
			}
			for at := 1; at <= undisturbed.writes; at++ {
				for _, how := range []failure{diesBefore, diesAfter} {
					for _, next := range []string{"a", "b"} {
						total++
						where := fmt.Sprintf(
							"write %d of %d, after the disk: %v, then node %s",
							at,
							undisturbed.writes,
							how == diesAfter,
							next,
						)
						synctest.Test(t, func(t *testing.T) {
							compare(t, where, crash(t, sc, &writes{at: at, how: how}, next), undisturbed)
						})
					}
				}
			}
		})
	}
	if total < 500 {
		t.Errorf("%d crashes; too few writes were tested", total)
	}
	t.Logf("%d crashes", total)
}

// outcome is the result of a run.
type outcome struct {
	end       saga.State
	clean     bool
	calls     map[work]int
	takeovers int
	writes    int
	died      bool
}

// crash runs a scenario on node a, which dies as c specifies, and then on next.
func crash(t *testing.T, sc scenario, c *writes, next string) outcome {
	w := newWorld(t)
	defer w.close()
	c.w = w
	w.participants.behavior = sc.behavior(w)
	w.register(sc.d)
	spec := saga.Spec{ID: w.newID(), Tenant: home, Payload: []byte(`{"order":1.50}`)}
	if sc.unowned {
		spec.ID = w.createUnowned(sc.d)
	}
	a := w.prepare("a")
	a.inject(faults{fault: c.fault})
	a.run()
	synctest.Wait()
	var lost error
	if !sc.unowned {
		lost = a.submit(spec, sc.d)
	}
	w.until("the saga ends or its node dies", func() bool { return w.ended(spec.ID) || !a.connection.alive() })
	died := !a.connection.alive()
	if died {
		a.kill()
		b := w.start(next)
		if lost != nil { // the client got no answer and repeats the request
			if err := b.submit(spec, sc.d); err != nil {
				t.Error(err)
			}
		}
	}
	w.untilEnded(spec.ID)
	time.Sleep(time.Minute) // nothing may be sent during this time
	w.checkInvariants(spec.ID)
	s := w.load(spec.ID).Saga
	return outcome{s.State, s.Clean != nil && *s.Clean, w.participants.counts(spec.ID), w.takeovers[spec.ID], c.n, died}
}

// compare checks a disturbed run against the undisturbed one.
func compare(t *testing.T, where string, got, want outcome) {
	t.Helper()
	if !got.died {
		t.Errorf("%s: the node did not die", where)
	}
	if got.end != want.end || got.clean != want.clean {
		t.Errorf("%s: it ends %s (clean: %v); want %s (clean: %v)", where, got.end, got.clean, want.end, want.clean)
	}
	for what, n := range got.calls { // I8: at most once more per takeover
		if most := want.calls[what] + got.takeovers; n > most {
			t.Errorf("%s: %d calls to %s step %d; want at most %d", where, n, what.action, what.step, most)
		}
	}
	if got.takeovers > 1 {
		t.Errorf("%s: taken over %d times", where, got.takeovers)
	}
}
