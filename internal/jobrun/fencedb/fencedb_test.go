package fencedb_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/fencedb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestAFenceOfAnotherSystemRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	j.Lead(t, 2)
	pgtest.Execute(t, j.DB.SQL(), `SELECT nextval('jobs.fencing') FROM generate_series(1, 9)`)
	holds := func(epoch, seq int64) uuid.UUID {
		t.Helper()
		r := j.Running(t, j.NewWorker(t), j.Job)
		pgtest.Execute(t, j.DB.SQL(), fmt.Sprintf(
			`UPDATE jobs.job_runs SET leader_epoch = %d, fencing_seq = %d WHERE id = '%s'`, epoch, seq, r.ID))
		return r.ID
	}
	for _, tt := range []struct {
		epoch, seq int64
		ok         bool
	}{{1, 5, true}, {1, 5, true}, {1, 4, false}, {1, 7, true}, {2, 1, true}, {1, 9, false}} {
		ok, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, "table-1",
			jobrun.ShownToken{Epoch: tt.epoch, Seq: tt.seq, Run: holds(tt.epoch, tt.seq)})
		if err != nil || ok != tt.ok {
			t.Errorf("%d.%d: %v, %v", tt.epoch, tt.seq, ok, err)
		}
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

// shown returns the token of a run in the form shown by a caller that does not name the run.
func shown(r jobrun.Run) jobrun.ShownToken {
	return jobrun.ShownToken{Epoch: r.LeaderEpoch, Seq: r.FencingSeq}
}

func TestAFenceTakesOnlyTokensOfItsTenantsRuns(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	other := j
	other.Tenant = pgtest.NewID()
	other.Job = other.Define(t, func(d *jobrun.Definition) { d.TenantID = other.Tenant })
	own, foreign := j.Running(t, j.NewWorker(t), j.Job), other.Running(t, other.NewWorker(t), other.Job)
	check := func(token jobrun.ShownToken) string {
		t.Helper()
		switch ok, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, "ledger", token); {
		case fault.IsCode(err, jobrun.CodeFenceNotIssued):
			return "not issued"
		case err != nil:
			t.Fatal(err)
		case !ok:
			return "too old"
		}
		return "ok"
	}
	named := func(r jobrun.Run) jobrun.ShownToken {
		token := shown(r)
		token.Run = r.ID
		return token
	}
	if one, two := check(shown(foreign)), check(named(foreign)); one != "not issued" || two != "not issued" {
		t.Errorf("the token of another tenant's run: %s; with the run: %s", one, two)
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.fences`); n != 0 {
		t.Errorf("%d fences are remembered", n)
	}
	if ok, err := fencedb.New(j.DB).CheckFence(t.Context(), other.Tenant, "ledger", shown(foreign)); !ok || err != nil {
		t.Errorf("its own tenant: %v, %v", ok, err)
	}
	// The caller must name a run that has ended, and an attempt that was followed by another one.
	released := j.Running(t, j.NewWorker(t), j.Job)
	if _, err := j.Release(t.Context(), j.Tenant, released.ID, released.Fence(), jobrun.Released{}); err != nil {
		t.Fatal(err)
	}
	if got := j.ClaimRuns(t, j.NewWorker(t)); len(got) != 1 || got[0].ID != released.ID {
		t.Fatalf("claimed %v", got)
	}
	j.FinishRuns(t, jobrun.Result{TenantID: j.Tenant, RunID: own.ID, Fence: own.Fence()})
	got := []string{
		check(shown(own)), check(named(own)), check(shown(own)),
		check(shown(released)), check(named(released)), check(shown(own)),
	}
	if want := []string{"not issued", "ok", "ok", "not issued", "ok", "too old"}; !slices.Equal(got, want) {
		t.Errorf("tokens of attempts that have ended: %v, want %v", got, want)
	}
}

func TestAFenceDoesNotRememberATokenThatNoRunWasGiven(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	_, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, "ledger", jobrun.ShownToken{Epoch: 1, Seq: 1})
	if !fault.IsCode(err, jobrun.CodeFenceNotIssued) {
		t.Errorf("before the first assignment: %v", err)
	}
	r := j.Running(t, j.NewWorker(t), j.Job)
	for _, tt := range [][2]int64{{r.LeaderEpoch + 1, r.FencingSeq}, {r.LeaderEpoch, r.FencingSeq + 1}, {999999, 1},
		{0, 1}, {1, 0}, {0, 0}} {
		ok, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, "ledger", jobrun.ShownToken{Epoch: tt[0], Seq: tt[1]})
		if f := fault.As(err); ok || f == nil || f.Kind != fault.Invalid || f.Code != jobrun.CodeFenceNotIssued {
			t.Errorf("%v: %v, %v", tt, ok, err)
		}
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.fences`); n != 0 {
		t.Fatalf("%d fences are remembered", n)
	}
	if ok, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, "ledger", shown(r)); !ok || err != nil {
		t.Errorf("the genuine one: %v, %v", ok, err)
	}
}

func TestAFenceIsShownAndItsResetRecorded(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	st := fencedb.New(j.DB)
	first, second := j.Running(t, j.NewWorker(t), j.Job), j.Running(t, j.NewWorker(t), j.Job)
	for _, key := range []string{"c", "a", "b"} {
		if ok, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, key, shown(second)); !ok || err != nil {
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
		a := operator.By{Actor: "ada", Reason: "because"}.
			Did(pgtest.NewID(), j.Tenant, pgtest.Now(), operator.JobFence, f.Key, "reset", nil)
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
	if ok, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, "a", shown(first)); !ok || err != nil {
		t.Errorf("an older token after the reset: %v, %v", ok, err)
	}
	if ok, err := fencedb.New(j.DB).CheckFence(t.Context(), j.Tenant, "b", shown(first)); ok || err != nil {
		t.Errorf("an older token of a key that was not reset: %v, %v", ok, err)
	}
}
