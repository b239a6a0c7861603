package redrivedb_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// redriving is a LetterQueue with bulk operations.
type redriving struct {
	pgtest.LetterQueue
	redrives *redrivedb.Redrives
}

func newRedriving(t *testing.T) redriving {
	t.Helper()
	m := pgtest.NewLetterQueue(t)
	return redriving{m, redrivedb.NewRedrives(m.DB, m.Queue)}
}

var redriveLimits = dlq.RedriveLimits{DefaultRate: 1000, MaxRate: 10_000, Bulk: 1000}

// redrive returns a redrive of all letters of the tenant to which its action applies.
func (m redriving) redrive(t *testing.T, action dlq.RedriveAction, change ...func(*dlq.Redrive)) dlq.Redrive {
	t.Helper()
	r := dlq.Redrive{TenantID: m.Tenant, Action: action, Actor: "ada", Reason: "because"}
	for _, c := range change {
		c(&r)
	}
	all := r.IDs == nil && r.Filter == nil
	r, err := dlq.NewRedrive(r, dlq.RedriveRequest{All: all}, pgtest.NewID(), redriveLimits, pgtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (m redriving) did(r dlq.Redrive, verb string) operator.Action {
	return operator.By{Actor: "ada"}.Did(pgtest.NewID(), m.Tenant, pgtest.Now(), operator.Redrive,
		r.ID.String(), verb, nil)
}

// create stores a redrive and gathers its letters.
func (m redriving) create(t *testing.T, r dlq.Redrive) dlq.Redrive {
	t.Helper()
	if _, err := m.redrives.Create(t.Context(), r, m.did(r, "create")); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		var err error
		if done, err = m.redrives.Gather(t.Context(), r, 3); err != nil {
			t.Fatal(err)
		}
	}
	return m.read(t, r)
}

func (m redriving) read(t *testing.T, r dlq.Redrive) dlq.Redrive {
	t.Helper()
	got, err := m.redrives.Get(t.Context(), m.Tenant, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (m redriving) take(t *testing.T, r dlq.Redrive, limit int) []dlq.Drive {
	t.Helper()
	drives, err := m.redrives.TakeItems(t.Context(), r, dlq.Routes{Kinds: pgtest.KafkaOnly}, time.Minute, limit)
	if err != nil {
		t.Fatal(err)
	}
	return drives
}

// full fills the token bucket of a redrive.
func (m redriving) full(t *testing.T, r dlq.Redrive) {
	t.Helper()
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_redrives SET allowance = 0, granted_at = now() - interval '1 hour' WHERE id = $1`, r.ID)
}

func (m redriving) finish(t *testing.T, r dlq.Redrive, outcome dlq.AttemptOutcome, drives ...dlq.Drive) {
	t.Helper()
	var ends []dlq.Finish
	for _, d := range drives {
		ends = append(ends, pgtest.EndOf(d, outcome))
	}
	if err := m.redrives.FinishItems(t.Context(), r.ID, ends); err != nil {
		t.Fatal(err)
	}
}

func (m redriving) judge(t *testing.T, r dlq.Redrive) dlq.Redrive {
	t.Helper()
	r, err := m.redrives.Judge(t.Context(), m.Tenant, r.ID, pgtest.Chance)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// items are the states of the letters of a redrive, in its order.
func (m redriving) items(t *testing.T, r dlq.Redrive) (out []dlq.ItemState) {
	t.Helper()
	items, err := m.redrives.Items(t.Context(), m.Tenant, r.ID, nil, page.Request[int64]{Limit: 1000})
	if err != nil || items.More {
		t.Fatal(items.More, err)
	}
	for _, i := range items.Items {
		out = append(out, i.State)
	}
	return out
}

// pushed stores n letters, oldest first.
func (m redriving) pushed(t *testing.T, n int, change ...func(*dlq.Letter)) []dlq.Letter {
	t.Helper()
	var batch []dlq.Letter
	for range n {
		batch = append(batch, m.NewLetter(change...))
	}
	return m.PushAll(t, batch...)
}

func TestARedriveIsReadAsItWasCreated(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	want := m.redrive(t, dlq.BulkRetry, func(r *dlq.Redrive) {
		r.Filter = &dlq.Filter{Topic: "orders", Key: []byte{1}, Headers: map[string]string{"a": "b"}, RetryCountMin: new(1),
			CreatedFrom: pgtest.Now().Add(-time.Hour)}
		r.Query, r.Transform = []byte(`{"topic":"orders"}`), []byte(`[{"op": "remove", "path": "/a"}]`)
		r.Target = &dlq.Target{Kind: dlq.ToKafka, Topic: "retry"}
		r.Canary, r.StopOn = &dlq.Canary{Count: 2, WatchSeconds: 3, MaxBounceRatio: 0.5}, dlq.StopOn{Failures: 4}
		r.ScheduledFor, r.Approval, r.RequestHash, r.Order, r.Max = new(pgtest.Now().Add(time.Hour)), true,
			[]byte{7}, dlq.PerKey, 9
	})
	want, err := m.redrives.Create(t.Context(), want, m.did(want, "create"))
	if err != nil {
		t.Fatal(err)
	}
	got := m.read(t, want)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(dlq.Redrive{}, "Query", "Transform")); diff != "" {
		t.Errorf("(-created +read):\n%s", diff)
	}
	if _, err := m.redrives.Create(t.Context(), want, m.did(want, "create")); !fault.IsCode(err, dlq.CodeRedriveExists) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := m.redrives.Get(t.Context(), pgtest.NewID(), want.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant sees it: %v", err)
	}
	approved, err := got.Moved(dlq.ApproveRedrive, "bob", pgtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.redrives.Change(t.Context(), approved, m.did(want, "approve")); err != nil {
		t.Fatal(err)
	}
	if err := m.redrives.Change(t.Context(), approved, m.did(want, "approve")); !fault.IsCode(err, dlq.CodeStale) {
		t.Errorf("changed twice: %v", err)
	}
	for range 3 {
		r := m.redrive(t, dlq.BulkDiscard)
		if _, err := m.redrives.Create(t.Context(), r, m.did(r, "create")); err != nil {
			t.Fatal(err)
		}
	}
	found, err := m.redrives.List(t.Context(), m.Tenant, nil, page.ByTime{Limit: 3, Total: true})
	if err != nil || len(found.Items) != 3 || !found.More || found.Total != 4 {
		t.Fatalf("%d redrives, more %v, of %d, %v", len(found.Items), found.More, found.Total, err)
	}
	last := found.Items[2]
	rest, err := m.redrives.List(t.Context(), m.Tenant, nil,
		page.ByTime{Limit: 3, After: &page.TimeID{At: last.CreatedAt, ID: last.ID}})
	if err != nil || len(rest.Items) != 1 || rest.Items[0].ID != want.ID || rest.More {
		t.Errorf("then %+v, %v", rest, err)
	}
	active, err := m.redrives.Active(t.Context(), page.TimeID{}, 10)
	if err != nil || len(active) != 3 {
		t.Errorf("%d are active, %v; want those whose time has come", len(active), err)
	}
}

func TestARedriveGathersMatchingLettersWhenItStarts(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	letters := m.pushed(t, 10)
	m.pushed(t, 2, func(l *dlq.Letter) { l.OriginalTopic = "payments" })
	m.pushed(t, 1, func(l *dlq.Letter) { l.MaxRetries = 0 })
	orders := func(r *dlq.Redrive) { r.Filter = &dlq.Filter{Topic: "orders"} }
	p, err := m.redrives.Preview(t.Context(), m.Tenant, m.redrive(t, dlq.BulkRetry))
	if err != nil {
		t.Fatal(err)
	}
	got := []int64{p.Matched, p.ByTopic["payments"], p.ByStatus[dlq.Pending]}
	if diff := cmp.Diff([]int64{12, 2, 12}, got); diff != "" {
		t.Errorf("matched, of payments, pending (-want +got):\n%s", diff)
	}
	if len(p.Sample) != 10 || len(p.ByGroup) != 2 {
		t.Errorf("a sample of %d, %d groups", len(p.Sample), len(p.ByGroup))
	}
	r := m.create(t, m.redrive(t, dlq.BulkRetry, orders))
	m.pushed(t, 1) // too late
	if r.Matched != 10 || !r.Gathered || r.State != dlq.RedriveRunning || r.StartedAt == nil {
		t.Fatalf("gathered %+v", r)
	}
	items, err := m.redrives.Items(t.Context(), m.Tenant, r.ID, []dlq.ItemState{dlq.ItemWaiting},
		page.Request[int64]{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range items.Items {
		if it.LetterID != letters[i].ID || it.Seq != int64(i+1) {
			t.Fatalf("item %d is %+v", i, it)
		}
	}
	few := m.create(t, m.redrive(t, dlq.BulkRetry, orders, func(r *dlq.Redrive) { r.Max = 4 }))
	if few.Matched != 4 || !few.Gathered {
		t.Errorf("at most 4: %d", few.Matched)
	}
	ids := m.create(t,
		m.redrive(t, dlq.BulkRetry,
			func(r *dlq.Redrive) { r.IDs = []uuid.UUID{letters[3].ID, pgtest.NewID(), letters[1].ID} }))
	if ids.Matched != 2 || !ids.Gathered {
		t.Errorf("by ids: %d", ids.Matched)
	}
	if done, err := m.redrives.Gather(t.Context(), ids, 10); err != nil || !done {
		t.Errorf("again: %v, %v", done, err)
	}
	if got := m.read(t, ids); got.Matched != 2 {
		t.Errorf("gathered twice: %d", got.Matched)
	}
}

func TestARedriveAppliesItsActionToEachLetter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action dlq.RedriveAction
		verb   string
		check  func(m redriving, l dlq.Letter) string
	}{
		{dlq.BulkDiscard, dlq.VerbDiscard, func(m redriving, l dlq.Letter) string { return fmt.Sprint(l.Status, l.Resolution) }},
		{dlq.BulkResolve, dlq.VerbResolve, func(m redriving, l dlq.Letter) string { return fmt.Sprint(l.Status, l.Resolution) }},
		{dlq.BulkRequeue, dlq.VerbRequeue, func(m redriving, l dlq.Letter) string {
			return fmt.Sprint(l.Status, l.MaxRetries, " after ", l.NextRetryAt.Sub(l.UpdatedAt)) // its lineage came back twice
		}},
		{dlq.BulkDelete, dlq.VerbDelete, nil},
	} {
		t.Run(string(tt.action), func(t *testing.T) {
			t.Parallel()
			m := newRedriving(t)
			pending := m.pushed(t, 3)
			dead := m.pushed(t, 2, func(l *dlq.Letter) { l.MaxRetries, l.Generation = 0, 2 })
			ofSaga := m.NewLetter()
			ofSaga.Source, ofSaga.Link.SagaID = dlq.FromSaga, pgtest.NewID()
			m.PushAll(t, ofSaga)
			all := slices.Concat(pending, dead, []dlq.Letter{ofSaga})
			r := m.create(t, m.redrive(t, tt.action, func(r *dlq.Redrive) {
				for _, l := range all {
					r.IDs = append(r.IDs, l.ID)
				}
			}))
			total := 0
			for {
				n, err := m.redrives.Apply(t.Context(), r, 4, pgtest.Chance)
				if err != nil {
					t.Fatal(err)
				}
				if total += n; n == 0 {
					break
				}
			}
			got := m.judge(t, r)
			want := map[dlq.RedriveAction]int64{dlq.BulkDiscard: 3, dlq.BulkResolve: 5, dlq.BulkRequeue: 2,
				dlq.BulkDelete: 5}[tt.action]
			if total != 6 || got.State != dlq.RedriveCompleted || got.Done != want || got.Skipped != 6-want {
				t.Fatalf("came to %d: %+v", total, got)
			}
			if n := pgtest.Ask[int64](t, m.DB.SQL(), `SELECT count(*) FROM saga.audit_actions WHERE kind = 'dead_letter' AND verb = $1 AND actor = 'ada' AND reason = 'because' AND detail IS NOT NULL`, tt.verb); n != want {
				t.Errorf("%d actions, want %d", n, want)
			}
			if tt.check == nil {
				if n := pgtest.Ask[int](t, m.DB.SQL(), `SELECT count(*) FROM dlq.dlq_messages`); n != 1 {
					t.Errorf("%d letters are left, want the saga's", n)
				}
				return
			}
			l := pending[0]
			if tt.action == dlq.BulkRequeue {
				l = dead[0]
			}
			if is, want := tt.check(m, m.Read(t, l.ID)), map[dlq.RedriveAction]string{
				dlq.BulkDiscard: "DEADDISCARDED", dlq.BulkResolve: "RESOLVEDMANUAL", dlq.BulkRequeue: "PENDING1 after 4m0s",
			}[tt.action]; is != want {
				t.Errorf("a letter is %s, want %s", is, want)
			}
		})
	}
}

func TestAPausedRedriveTakesNothing(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	m.pushed(t, 3)
	r := m.create(t, m.redrive(t, dlq.BulkRetry))
	taken := m.take(t, r, 10)
	move := func(verb dlq.RedriveVerb) {
		t.Helper()
		moved, err := m.read(t, r).Moved(verb, "ada", pgtest.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.redrives.Change(t.Context(), moved, m.did(r, string(verb))); err != nil {
			t.Fatal(err)
		}
	}
	move(dlq.PauseRedrive)
	m.full(t, r)
	if n := len(m.take(t, r, 10)); n != 0 {
		t.Errorf("took %d while it is paused", n)
	}
	m.finish(t, r, dlq.Acknowledged, taken...) // a drive under way still ends
	if got := m.judge(t, r); got.State != dlq.RedrivePaused || got.Done != 1 {
		t.Errorf("%+v", got)
	}
	move(dlq.ResumeRedrive)
	if done, err := m.redrives.Gather(t.Context(), r, 10); err != nil || !done {
		t.Fatal(done, err)
	}
	m.full(t, r)
	if n := len(m.take(t, r, 10)); n != 2 {
		t.Errorf("took %d after it", n)
	}
	move(dlq.CancelRedrive)
	m.full(t, r)
	if n := len(m.take(t, r, 10)); n != 0 || m.read(t, r).State != dlq.RedriveCanceled {
		t.Errorf("took %d after it was canceled", n)
	}
}
