package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
)

func TestSuspendedSagaSendsNothingUntilResumed(t *testing.T) {
	for _, tt := range []struct {
		name     string
		behavior func(saga.Call, int) reply
		before   int // the calls made by the time it was suspended
	}{
		{"with a call in flight", when(0, saga.Execute, always(slowly(yes, 3*time.Second))), 1},
		{"in a short wait", when(0, saga.Execute, first(1, reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 3 * time.Second})), 1},
		{"in a long wait", when(0, saga.Execute, first(1, reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Minute})), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = tt.behavior
				id := w.start("a").create(steps("uu"))
				time.Sleep(time.Second)
				if err := w.intervene(id, saga.SuspendRequested{By: "op"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute) // past every due time
				if got := len(w.participants.of(id)); got != tt.before {
					t.Fatalf("%d calls while suspended, %d before", got, tt.before)
				}
				if s := w.load(id).Saga; s.LeaseOwner != nil || s.State.Terminal() {
					t.Errorf("while suspended: owner %v, %s", s.LeaseOwner, s.State)
				}
				if err := w.intervene(id, saga.UnsuspendRequested{By: "op"}); err != nil {
					t.Fatal(err)
				}
				w.untilEnded(id)
				if got := w.state(id); got != saga.Completed {
					t.Errorf("ended %s", got)
				}
			})
		})
	}
}

func TestOrdersWaitForTheCallInFlight(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply reply
		logs  string
	}{
		{"which fails: the step is skipped", slowly(crashed, 2*time.Second), "s0 EXECUTE FAILED, s0 EXECUTE SKIPPED, s1 EXECUTE SUCCESS"},
		{"which is done: then it is done", slowly(yes, 2*time.Second), "s0 EXECUTE SUCCESS, s1 EXECUTE SUCCESS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = when(0, saga.Execute, always(tt.reply))
				id := w.start("a").create(steps("uu"))
				time.Sleep(time.Second)
				if err := w.intervene(id, saga.StepOrdered{Step: 0, Order: saga.Order{Verb: saga.SkipStep, By: "op"}}); err != nil {
					t.Fatal(err)
				}
				w.untilEnded(id)
				if diff := cmp.Diff(tt.logs, strings.Join(w.rows(id), ", ")); diff != "" {
					t.Errorf("logs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRetryEndsAWaitAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(
			0,
			saga.Execute,
			first(1, reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Hour}),
		)
		id := w.start("a").create(steps("n"))
		synctest.Wait()
		asked := now()
		if err := w.intervene(id, saga.RetryRequested{By: "op"}); err != nil {
			t.Fatal(err)
		}
		w.untilEnded(id)
		calls := w.participants.of(id)
		if len(calls) != 2 || calls[1].at.Sub(asked) > time.Second {
			t.Errorf("%d calls, the last %s after the retry", len(calls), calls[len(calls)-1].at.Sub(asked))
		}
		w.checkInvariants(id)
	})
}

func TestALateAnswerOfASagaEndedByForceChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(1, saga.Execute, first(1, slowly(yes, 3*time.Second)))
		id := w.start("a").create(steps("uuu"))
		time.Sleep(time.Second)
		if err := w.intervene(id, saga.FailureForced{By: "op"}); err != nil {
			t.Fatal(err)
		}
		ended := w.load(id)
		time.Sleep(10 * time.Second)
		if diff := cmp.Diff(ended, w.load(id)); diff != "" {
			t.Fatalf("the late answer changed it (-before +after):\n%s", diff)
		}
		if err := w.intervene(id, saga.ResumeRequested{By: "op"}); err != nil {
			t.Fatal(err)
		}
		w.untilEnded(id)
		want := []string{"s0 EXECUTE SUCCESS", "s1 EXECUTE FAILED", "s1 COMPENSATE SUCCESS", "s0 COMPENSATE SUCCESS"}
		got := w.rows(id)
		if diff := cmp.Diff(len(want), len(got)); diff != "" || w.state(id) != saga.Compensated {
			t.Errorf("%s with logs %v", w.state(id), got)
		}
	})
}
