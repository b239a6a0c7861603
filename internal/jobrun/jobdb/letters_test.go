package jobdb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// end lets a worker start a run and report its end.
func (m *jobLetters) end(id uuid.UUID, failure *jobrun.Error) jobrun.Done {
	m.t.Helper()
	for _, set := range []string{
		`state = 'ASSIGNED', version = version + 1, attempt = attempt + 1, assigned_worker_id = gen_random_uuid(), assigned_at = now(),
		 lease_token = gen_random_uuid(), lease_expires_at = now() + interval '1 hour', leader_epoch = 1`,
		`state = 'RUNNING', version = version + 1, started_at = now()`,
	} {
		pgtest.Execute(m.t, m.DB.SQL(), `UPDATE jobs.job_runs SET `+set+` WHERE id = $1`, id)
	}
	r := m.GetRun(m.t, id)
	done,
		err := m.Finish(m.t.Context(), []jobrun.Result{{TenantID: m.Tenant, RunID: id, Fence: r.Fence(), Error: failure}})
	if err != nil || done[0].Err != nil {
		m.t.Fatal(done, err)
	}
	return done[0]
}

// exhausted returns the letter of a run without remaining retries.
const trace = "0af7651916cd43dd8448eb211c80319c"

func (m *jobLetters) exhausted() dlq.Letter {
	m.t.Helper()
	d := m.Define(m.t, func(d *jobrun.Definition) {
		yes := true
		d.Spec.DeadLetter, d.Spec.Retry = &yes, retry.Policy{MaxAttempts: 1}
	})
	r := m.CreateAll(m.t, m.NewRun(d, func(a *jobrun.Request) {
		a.Args, a.TraceID, a.TraceState, a.Baggage = []byte(`{"n":1}`), trace, "congo=t61rcWkgMzE", "userId=7"
	}))[0]
	m.end(r.ID, &jobrun.Error{Code: "BROKEN", Message: "it broke"})
	found, err := m.letters.List(m.t.Context(), m.Tenant,
		dlq.Query{ByTime: page.ByTime{Limit: 10}, Filter: dlq.Filter{JobRunID: r.ID}})
	if err != nil || len(found.Items) != 1 {
		m.t.Fatalf("letters: %+v, %v", found.Items, err)
	}
	return found.Items[0]
}

// retried begins a retry of a letter, and returns its drive and the run.
func (m *jobLetters) retried(l dlq.Letter, change ...func(*dlq.Claim)) (dlq.Drive, uuid.UUID) {
	m.t.Helper()
	c := dlq.Claim{TenantID: m.Tenant, LetterID: l.ID, Routes: dlq.Routes{Kinds: []dlq.TargetKind{dlq.ToJobRun}},
		Actor: "ada",
		By: operator.By{Actor: "ada"}.Did(pgtest.NewID(), m.Tenant, pgtest.Now(), operator.DeadLetter, l.ID.String(),
			dlq.VerbRetry, nil)}
	for _, f := range change {
		f(&c)
	}
	d, err := m.queue.Take(m.t.Context(), c, time.Minute)
	if err != nil {
		m.t.Fatal(err)
	}
	if r := m.Rerun(m.t.Context(), &d, pgtest.Now); !r.Accepted {
		m.t.Fatalf("%+v", r)
	}
	return d, pgtest.Ask[uuid.UUID](m.t, m.DB.SQL(), `SELECT id FROM jobs.job_runs WHERE letter_id = $1 ORDER BY created_at DESC LIMIT 1`, l.ID)
}

func (m *jobLetters) letter(id uuid.UUID) dlq.Letter {
	m.t.Helper()
	l, err := m.letters.Get(m.t.Context(), m.Tenant, id)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

func TestAFailedRunLeavesALetterThatAnotherRunResolves(t *testing.T) {
	t.Parallel()
	m := newJobMail(t)
	l := m.exhausted()
	want := l
	want.Source, want.Status, want.Target.Kind, want.Failure.Type = dlq.FromJob, dlq.Pending, dlq.ToJobRun, "BROKEN"
	if diff := cmp.Diff(want, l); diff != "" || pgtest.Compact(t, l.Content.Payload) != `{"n":1}` {
		t.Errorf("the letter of %s (-want +got):\n%s", l.Content.Payload, diff)
	}
	d, run := m.retried(l)
	r := m.GetRun(t, run)
	if r.Trigger != jobrun.ByLetter || r.IdempotencyKey != jobrun.LetterKey(l.ID, d.Number) ||
		pgtest.Compact(t, r.Args) != `{"n":1}` {
		t.Errorf("the run is %+v", r)
	}
	if of := m.GetRun(t, l.Link.JobRunID); !r.ScheduledFor.Equal(of.ScheduledFor) || !r.AvailableAt.After(of.AvailableAt) {
		t.Errorf("the run is for %s and due at %s, of one for %s", r.ScheduledFor, r.AvailableAt, of.ScheduledFor)
	}
	if r.TraceID != trace || r.TraceState != "congo=t61rcWkgMzE" || r.Baggage != "userId=7" {
		t.Errorf("the trace of the run is %q, %q, %q", r.TraceID, r.TraceState, r.Baggage)
	}
	if again := m.Rerun(t.Context(), &d, pgtest.Now); !again.Accepted || m.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE letter_id = $1`, l.ID) != 1 {
		t.Errorf("a retry that is begun twice has two runs, or none: %+v", again)
	}
	if n := m.letter(l.ID); n.Status != dlq.Retrying {
		t.Errorf("the letter is %s while the run works", n.Status)
	}
	m.end(run, nil)
	if n := m.letter(l.ID); n.Status != dlq.Resolved || n.Resolution != dlq.Confirmed {
		t.Errorf("the letter is %s, %s", n.Status, n.Resolution)
	}
	if late := m.Rerun(t.Context(), &d, pgtest.Now); late.Accepted {
		t.Error("a retry that has ended begins a run")
	}
}

func TestAFailedRetryOfARunReleasesItsLetter(t *testing.T) {
	t.Parallel()
	m := newJobMail(t)
	l := m.exhausted()
	for n := 1; n <= 3; n++ {
		_, run := m.retried(l)
		m.end(run, &jobrun.Error{Code: "BROKEN", Message: "still broken"})
		after := m.letter(l.ID)
		want := dlq.Pending
		if n == 3 {
			want = dlq.Dead
		}
		if after.Status != want || after.RetryCount != n || !strings.Contains(after.Failure.Message, "still broken") {
			t.Fatalf("after retry %d the letter is %s, %d retries, %q", n, after.Status, after.RetryCount, after.Failure.Message)
		}
	}
	if n := m.Count(t, `SELECT count(*) FROM dlq.dlq_messages WHERE tenant_id = $1`, m.Tenant); n != 1 {
		t.Errorf("there are %d letters", n)
	}
}

func TestAnEditedPayloadIsTheArgumentsOfTheRun(t *testing.T) {
	t.Parallel()
	m := newJobMail(t)
	l := m.exhausted()
	_, run := m.retried(l, func(c *dlq.Claim) {
		c.Revision = &dlq.Revision{LetterID: l.ID, Number: 1, Content: dlq.Content{Payload: []byte(`{"n":2}`)}, Author: "ada",
			CreatedAt: pgtest.Now()}
	})
	if args := pgtest.Compact(t, m.GetRun(t, run).Args); args != `{"n":2}` {
		t.Errorf("the run gets %s", args)
	}
}

func TestARetryWhoseRunWorksIsNotReclaimed(t *testing.T) {
	t.Parallel()
	m := newJobMail(t)
	l := m.exhausted()
	_, run := m.retried(l)
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET retry_lease_until = now() - interval '1 minute' WHERE id = $1`, l.ID)
	if _, err := m.queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil {
		t.Fatal(err)
	}
	if n := m.letter(l.ID); n.Status != dlq.Retrying {
		t.Fatalf("the letter is %s though its run works", n.Status)
	}
	m.end(run, nil)
	if n := m.letter(l.ID); n.Status != dlq.Resolved {
		t.Errorf("the letter is %s", n.Status)
	}
}

// jobLetters is a fixture of job runs and dead letters in one database.
type jobLetters struct {
	pgtest.Jobs
	t       *testing.T
	letters *dlqdb.Letters
	queue   *dlqdb.Queue
}

func newJobMail(t *testing.T) *jobLetters {
	t.Helper()
	j := pgtest.NewJobs(t)
	return &jobLetters{j, t, dlqdb.NewLetters(j.DB, dlq.DefaultPolicy), dlqdb.NewQueue(j.DB, dlq.DefaultPolicy)}
}
