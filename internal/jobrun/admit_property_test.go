package jobrun_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/jobrun"
)

// TestAKeyIsNeverAdmittedTwice tries random runs of a key, with any policies. At most one of them
// may begin, each is decided about once, only decisions that the table allows are made, and the
// order in which the runs are read does not matter.
func TestAKeyIsNeverAdmittedTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []jobrun.Candidate
		holder := rapid.SampledFrom([]jobrun.State{"", jobrun.Pending, jobrun.Assigned, jobrun.Running,
			jobrun.Orphaned}).Draw(t, "holder")
		if holder != "" { // at most one run of a key is with a worker or may return to one
			all = append(all, jobrun.Candidate{ID: uuid.UUID{1}, State: holder, Admitted: true,
				CancelRequested: rapid.Bool().Draw(t, "asked")})
		}
		for n := range rapid.IntRange(0, 8).Draw(t, "waiting") {
			c := jobrun.Candidate{
				ID: uuid.UUID{byte(2 + n)}, State: jobrun.Pending, Due: true,
				AvailableAt: noon.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "minutes")) * time.Minute),
				Policy:      rapid.SampledFrom([]jobrun.Policy{jobrun.Forbid, jobrun.Queue, jobrun.Replace}).Draw(t, "policy"),
				QueueLimit:  rapid.IntRange(0, 2).Draw(t, "limit"),
			}
			if rapid.Bool().Draw(t, "retry") {
				c.Trigger, c.HoldsKey, c.Due = jobrun.ByRetry, rapid.Bool().Draw(t, "holds"), rapid.Bool().Draw(t, "due")
			}
			all = append(all, c)
		}
		given := slices.Clone(all)
		decided := jobrun.AdmitKey(all)
		if diff := cmp.Diff(given, all); diff != "" {
			t.Fatalf("the candidates are changed:\n%s", diff)
		}
		seen, admitted := map[uuid.UUID]bool{}, 0
		for _, a := range decided {
			c := all[slices.IndexFunc(all, func(c jobrun.Candidate) bool { return c.ID == a.ID })]
			if seen[a.ID] {
				t.Fatalf("two decisions about %+v", c)
			}
			seen[a.ID] = true
			switch a.Step {
			case jobrun.StepAdmit:
				if admitted++; c.Admitted || !c.Due {
					t.Fatalf("%+v is admitted", c)
				}
				continue
			case jobrun.StepSkip:
				if c.Admitted || c.Policy == jobrun.Queue && (c.Trigger == jobrun.ByRetry || c.QueueLimit == 0) {
					t.Fatalf("%+v is skipped: %s", c, a.Reason)
				}
			case jobrun.StepAskCancel:
				if c.State != jobrun.Running || c.CancelRequested {
					t.Fatalf("%+v is asked to stop", c)
				}
			}
			r := point{state: c.State}.run() // the rules carry out the decisions
			change, err := decide(r, spec(1), jobrun.Decided{Step: a.Step, Reason: a.Reason})
			if err != nil || !change.Changes() {
				t.Fatalf("%s of %+v is decided, and then: %v", a.Step, c, err)
			}
		}
		if admitted > 1 || admitted == 1 && holder != "" {
			t.Fatalf("%d are admitted beside one that is %q", admitted, holder)
		}
		if free := holder == "" && len(all) > 0 &&
			!slices.ContainsFunc(all, func(c jobrun.Candidate) bool { return c.Trigger == jobrun.ByRetry }); free &&
			admitted == 0 {
			t.Fatal("the key is free, and nothing is admitted")
		}
		mixed := rapid.Permutation(all).Draw(t, "order")
		if diff := cmp.Diff(decided, jobrun.AdmitKey(mixed)); diff != "" {
			t.Fatalf("read in another order it is decided otherwise:\n%s", diff)
		}
	})
}
