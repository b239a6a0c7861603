package jobdb_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/rest/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestAFenceOfAnotherSystemRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	j.Lead(t, 2)
	pgtest.Execute(t, j.DB.SQL(), `SELECT nextval('jobs.fencing') FROM generate_series(1, 9)`)
	for _, tt := range []struct {
		epoch, seq int64
		ok         bool
	}{{1, 5, true}, {1, 5, true}, {1, 4, false}, {1, 7, true}, {2, 1, true}, {1, 9, false}} {
		ok, err := j.CheckFence(t.Context(), j.Tenant, "table-1", tt.epoch, tt.seq)
		if err != nil || ok != tt.ok {
			t.Errorf("%d.%d: %v, %v", tt.epoch, tt.seq, ok, err)
		}
	}
	if ok, err := j.CheckFence(t.Context(), pgtest.NewID(), "table-1", 1, 1); err != nil || !ok {
		t.Errorf("another tenant's key: %v, %v", ok, err)
	}
	w := j.NewWorker(t)
	seen := int64(0)
	for range 3 {
		r := j.Running(t, w, j.Job)
		if r.FencingSeq <= seen {
			t.Errorf("assignment %d follows %d", r.FencingSeq, seen)
		}
		seen = r.FencingSeq
	}
}

func TestAFenceDoesNotRememberATokenThatNoRunWasGiven(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	if _, err := j.CheckFence(t.Context(), j.Tenant, "ledger", 1, 1); !fault.IsCode(err, jobrun.CodeFenceNotIssued) {
		t.Errorf("before the first assignment: %v", err)
	}
	r := j.Running(t, j.NewWorker(t), j.Job)
	for _, tt := range [][2]int64{{r.LeaderEpoch + 1, r.FencingSeq}, {r.LeaderEpoch, r.FencingSeq + 1}, {999999, 1},
		{0, 1}, {1, 0}} {
		ok, err := j.CheckFence(t.Context(), j.Tenant, "ledger", tt[0], tt[1])
		if f := fault.As(err); ok || f == nil || f.Kind != fault.Invalid || f.Code != jobrun.CodeFenceNotIssued {
			t.Errorf("%v: %v, %v", tt, ok, err)
		}
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.fences`); n != 0 {
		t.Fatalf("%d fences are remembered", n)
	}
	if ok, err := j.CheckFence(t.Context(), j.Tenant, "ledger", r.LeaderEpoch, r.FencingSeq); !ok || err != nil {
		t.Errorf("the genuine one: %v, %v", ok, err)
	}
}

func TestAFenceIsShownAndItsResetRecorded(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	st := jobdb.NewFences(j.DB)
	first, second := j.Running(t, j.NewWorker(t), j.Job), j.Running(t, j.NewWorker(t), j.Job)
	for _, key := range []string{"c", "a", "b"} {
		if ok, err := j.CheckFence(t.Context(), j.Tenant, key, second.LeaderEpoch, second.FencingSeq); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	keys := func(request page.Request[string]) (keys []string, more bool) {
		t.Helper()
		found, err := st.ListFences(t.Context(), j.Tenant, request)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found.Items {
			keys = append(keys, f.Key)
		}
		return keys, found.More
	}
	two := page.Request[string]{Limit: 2}
	if got, more := keys(two); !more || !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("the first page: %v %v", got, more)
	}
	if got, more := keys(page.Request[string]{Limit: 2, After: new("b")}); more || !slices.Equal(got, []string{"c"}) {
		t.Fatalf("the second page: %v %v", got, more)
	}
	if found, err := st.ListFences(t.Context(), pgtest.NewID(), two); err != nil || len(found.Items) != 0 {
		t.Errorf("another tenant sees %+v, %v", found, err)
	}
	did := func(f jobrun.KeyFence) operator.Action {
		a := jobAction(j.Tenant, operator.JobFence, f.Key, "reset")
		a.Detail = json.RawMessage(`{"fencing_token":"` + f.FencingToken() + `"}`)
		return a
	}
	if _, err := st.ResetFence(t.Context(), pgtest.NewID(), "a", did); !fault.IsCode(err, jobrun.CodeFenceNotFound) {
		t.Errorf("another tenant resets it: %v", err)
	}
	was, err := st.Fence(t.Context(), j.Tenant, "a")
	if err != nil || was.FencingToken() != second.FencingToken() {
		t.Fatalf("the fence: %+v, %v", was, err)
	}
	if gone, err := st.ResetFence(t.Context(), j.Tenant, "a", did); err != nil || gone != was {
		t.Errorf("reset: %+v, %v", gone, err)
	}
	if _, err := st.Fence(t.Context(), j.Tenant, "a"); !fault.IsCode(err, jobrun.CodeFenceNotFound) {
		t.Errorf("after the reset: %v", err)
	}
	if n := j.Count(t, `SELECT count(*) FROM saga.audit_actions WHERE kind = 'job_fence' AND subject = 'a' AND verb = 'reset'`); n != 1 {
		t.Errorf("%d actions are on record", n)
	}
	if ok, err := j.CheckFence(t.Context(), j.Tenant, "a", first.LeaderEpoch, first.FencingSeq); !ok || err != nil {
		t.Errorf("an older token after the reset: %v, %v", ok, err)
	}
	if ok, err := j.CheckFence(t.Context(), j.Tenant, "b", first.LeaderEpoch, first.FencingSeq); ok || err != nil {
		t.Errorf("an older token of a key that was not reset: %v, %v", ok, err)
	}
}
