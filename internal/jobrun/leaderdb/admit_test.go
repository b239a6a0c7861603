package leaderdb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// policed creates a definition with a concurrency policy.
func (s sweeping) policed(t *testing.T, p jobrun.Policy, change ...func(*jobrun.Spec)) jobrun.Definition {
	t.Helper()
	return s.Define(t, func(d *jobrun.Definition) {
		d.Spec.Concurrency = p
		for _, c := range change {
			c(&d.Spec)
		}
	})
}

// due creates a run of d that became due the given time ago.
func (s sweeping) due(t *testing.T, d jobrun.Definition, ago time.Duration) uuid.UUID {
	t.Helper()
	return s.CreateAll(t,
		s.NewRun(d, func(a *jobrun.Request) { a.ScheduledFor, a.Trigger = pgtest.Now().Add(-ago), jobrun.ByEvent }))[0].ID
}

// admit executes rounds of admission until nothing changes.
func (s sweeping) admit(t *testing.T, limit int) (moved int) {
	t.Helper()
	for range 100 {
		got, err := s.Admit(t.Context(), s.term, s.set, limit)
		if err != nil {
			t.Fatal(err)
		}
		if moved += got.Moved; got.Moved == 0 && !got.More {
			return moved
		}
	}
	t.Fatal("it never ends")
	return 0
}

// standing returns the state of each run, with + if it is admitted and ! if its worker has been
// asked to stop.
func (s sweeping) standing(t *testing.T, ids ...uuid.UUID) string {
	t.Helper()
	all := make([]string, len(ids))
	for i, id := range ids {
		r := s.GetRun(t, id)
		all[i] = strings.ToLower(string(r.State))
		if r.State == jobrun.Pending && r.AdmittedAt != nil {
			all[i] += "+"
		}
		if r.CancelRequestedAt != nil {
			all[i] += "!"
		}
	}
	return strings.Join(all, " ")
}

func (s sweeping) expect(t *testing.T, want string, ids ...uuid.UUID) {
	t.Helper()
	if got := s.standing(t, ids...); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func (s sweeping) finish(t *testing.T, id uuid.UUID) {
	t.Helper()
	s.put(t, id, `state = 'SUCCEEDED', version = version + 1, finished_at = now()`)
}

func TestARunWithoutAKeyIsAdmittedWhenItIsDue(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	later := s.CreateAll(t,
		s.NewRun(s.Job, func(a *jobrun.Request) { a.ScheduledFor = pgtest.Now().Add(time.Hour) }))[0].ID
	var ids []uuid.UUID
	for i := range 5 {
		r := s.NewRun(s.Job, func(a *jobrun.Request) { a.ScheduledFor = pgtest.Now().Add(-time.Duration(i) * time.Second) })
		r.AdmittedAt = nil
		ids = append(ids, s.CreateAll(t, r)[0].ID)
	}
	got, err := s.Admit(t.Context(), s.term, s.set, 2)
	if err != nil || got.Moved != 2 || !got.More {
		t.Errorf("%+v, %v", got, err)
	}
	s.expect(t, "pending pending pending pending+ pending+", ids...) // the oldest one first
	if n := s.admit(t, 2); n != 3 {
		t.Errorf("moved %d", n)
	}
	s.expect(t, "pending", later)
}

func TestQueuedRunsOfAKeyComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	shared := func(spec *jobrun.Spec) { spec.ConcurrencyKey, spec.QueueLimit = "shared", 2 }
	d, e := s.policed(t, jobrun.Queue, shared), s.policed(t, jobrun.Queue, shared)
	other := s.due(t, s.policed(t, jobrun.Queue), time.Minute) // it has a key of its own
	a, b, c := s.due(t, d, 4*time.Second), s.due(t, e, 3*time.Second), s.due(t, d, 2*time.Second)
	over := s.due(t, e, time.Second)
	s.admit(t, 10)
	s.expect(t, "pending+ pending pending skipped pending+", a, b, c, over, other)
	s.start(t, a, time.Minute, 0)
	if n := s.admit(t, 10); n != 0 {
		t.Errorf("moved %d while one of the key runs", n)
	}
	s.finish(t, a)
	s.admit(t, 1)
	s.expect(t, "succeeded pending+ pending", a, b, c)
	if why := pgtest.Ask[string](t, s.see, `SELECT reason FROM jobs.job_run_events WHERE run_id = $1 AND kind = 'skipped' AND epoch = 2`, over); !strings.Contains(why, "reached the queue_limit of 2") {
		t.Error(why)
	}
}

func TestAForbiddenRunIsSkippedWhileAnotherOneHasNotEnded(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	d := s.policed(t, jobrun.Forbid)
	a, b := s.due(t, d, time.Minute), s.due(t, d, time.Second)
	s.admit(t, 10)
	s.expect(t, "pending+ skipped", a, b)
	s.start(t, a, time.Minute, 0)
	c := s.due(t, d, 0)
	s.admit(t, 10)
	s.expect(t, "skipped", c)
	if why := pgtest.Ask[string](t, s.see, `SELECT reason FROM jobs.job_run_events WHERE run_id = $1`, c); !strings.Contains(why, a.String()) {
		t.Errorf("%s does not name %s", why, a)
	}
	s.finish(t, a)
	e := s.due(t, d, 0)
	s.admit(t, 10)
	s.expect(t, "pending+", e)
}

func TestAReplacementStartsWhenTheReplacedRunHasEnded(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	d := s.policed(t, jobrun.Replace)
	a, b := s.due(t, d, 2*time.Minute), s.due(t, d, time.Minute)
	s.admit(t, 10)
	s.expect(t, "skipped pending+", a, b)
	s.start(t, b, time.Minute, 0)
	c := s.due(t, d, time.Second)
	s.admit(t, 10)
	s.expect(t, "running! pending", b, c)
	if n := s.admit(t, 10); n != 0 {
		t.Errorf("asked again: %d", n)
	}
	s.put(t, b, `cancel_requested_at = now() - interval '1 minute'`)
	moves(t, 1)(s.EndCanceled(t.Context(), s.term, s.set, 10)) // after the grace period
	s.admit(t, 10)
	s.expect(t, "canceled! pending+", b, c)
	s.assign(t, c, time.Minute) // not started, so it ends immediately
	e := s.due(t, d, 0)
	s.admit(t, 10)
	s.expect(t, "canceled pending+", c, e)
}

func TestRunsThatAllowOthersDoNotWait(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	d := s.policed(t, jobrun.Allow)
	a, b := s.due(t, d, time.Minute), s.due(t, d, time.Second)
	s.expect(t, "pending+ pending+", a, b) // without the leader
}

// A slot that was created ahead of time does not run during a pause that began afterwards.
func TestASlotMadeAheadIsSkippedInAPause(t *testing.T) {
	t.Parallel()
	for _, p := range []jobrun.Policy{jobrun.Allow, jobrun.Queue} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			s := newSweeping(t)
			slot := func(d jobrun.Definition, ago time.Duration) uuid.UUID {
				r := s.NewRun(d, func(a *jobrun.Request) { a.Trigger, a.ScheduledFor = jobrun.ByTime, pgtest.Now().Add(-ago) })
				r.AdmittedAt = nil
				return s.CreateAll(t, r)[0].ID
			}
			paused, off, on := s.policed(t, p), s.policed(t, p), s.policed(t, p)
			before, inside, after := slot(paused, time.Hour), slot(paused, 30*time.Minute), slot(paused, time.Second)
			disabled, runs := slot(off, time.Second), slot(on, time.Second)
			pgtest.Execute(t, s.see, `UPDATE jobs.job_definitions SET paused_at = now() - interval '45 minutes', paused_until = now() - interval '1 minute', pause_reason = 'audit' WHERE id = $1`, paused.ID)
			pgtest.Execute(t, s.see, `UPDATE jobs.job_definitions SET enabled = false WHERE id = $1`, off.ID)
			s.admit(t, 10)
			want := "pending+ skipped pending+ skipped pending+"
			if p == jobrun.Queue {
				want = "pending+ skipped pending skipped pending+"
			}
			s.expect(t, want, before, inside, after, disabled, runs)
			if why := pgtest.Ask[string](t, s.see, `SELECT reason FROM jobs.job_run_events WHERE run_id = $1`, inside); why != "paused: audit" {
				t.Error(why)
			}
		})
	}
}

// A slot that the leader has found is not admitted once its job has been paused, disabled or
// rescheduled.
func TestASlotThatWasFoundIsNotAdmittedAfterAChange(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		`UPDATE jobs.job_definitions SET paused_at = now() - interval '1 hour' WHERE id = $1`:                                               "skipped",
		`UPDATE jobs.job_definitions SET enabled = false WHERE id = $1`:                                                                     "skipped",
		`UPDATE jobs.job_runs SET state = 'SKIPPED', version = version + 1, finished_at = now(), withdrawn = true WHERE definition_id = $1`: "skipped",
		`UPDATE jobs.job_definitions SET paused_at = now() - interval '1 hour', paused_until = now() - interval '50 minutes' WHERE id = $1`: "pending+",
		`UPDATE jobs.job_definitions SET version = version + 1 WHERE id = $1`:                                                               "pending+",
	} {
		s := newSweeping(t)
		d := s.policed(t, jobrun.Allow)
		r := s.NewRun(d, func(a *jobrun.Request) {
			a.Trigger, a.ScheduledFor = jobrun.ByTime, pgtest.Now().Add(-time.Minute)
		})
		r.AdmittedAt = nil
		id := s.CreateAll(t, r)[0].ID
		pgtest.Execute(t, s.see, change, d.ID)
		moved, err := s.AdmitFound(t.Context(), s.term, id)
		if err != nil || moved != map[string]int{"pending+": 1}[want] {
			t.Errorf("after %s: moved %d, %v", change, moved, err)
		}
		s.admit(t, 10)
		s.expect(t, want, id)
	}
}

// However many keys wait, each gets a decision, page by page.
func TestManyKeysAreAdmittedPageByPage(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	var first, second []uuid.UUID
	for i := range 25 {
		d := s.policed(t, jobrun.Queue, func(spec *jobrun.Spec) { spec.ConcurrencyKey = fmt.Sprintf("key %02d", i) })
		first, second = append(first, s.due(t, d, time.Minute)), append(second, s.due(t, d, time.Second))
	}
	if n := s.admit(t, 4); n != 25 {
		t.Errorf("moved %d", n)
	}
	var want []string
	for range first {
		want = append(want, "pending+")
	}
	if diff := cmp.Diff(strings.Join(want, " "), s.standing(t, first...)); diff != "" {
		t.Error(diff)
	}
	s.expect(t, strings.ReplaceAll(strings.Join(want, " "), "+", ""), second...)
}
