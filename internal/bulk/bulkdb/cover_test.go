package bulkdb_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/bulk/bulkdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// crowd contains the items that exist when an operation is requested, and copies of them that are
// added while it works.
type crowd struct {
	*manySagas
	runs  *bulkdb.RunBulks
	table string
	there []uuid.UUID
}

type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

// copied stores a copy of the first item with another id and another time.
func (c *crowd) copied(db execer, at time.Time) uuid.UUID {
	c.t.Helper()
	var columns string
	if err := c.j.DB.SQL().QueryRowContext(c.t.Context(), `
		SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
		 WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> 'txid'`, c.table).
		Scan(&columns); err != nil {
		c.t.Fatal(err)
	}
	id := pgtest.NewID()
	if _, err := db.ExecContext(c.t.Context(), fmt.Sprintf(`INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM %[1]s t
		 CROSS JOIN LATERAL jsonb_populate_record(NULL::%[1]s, to_jsonb(t) || jsonb_build_object('id', $1::text, 'created_at', $2::text,
		       'idempotency_key', $1::text, 'root_run_id', $1::text)) AS c WHERE t.id = $3`,
		c.table, columns, "c."+string(bytes.ReplaceAll([]byte(columns), []byte(", "), []byte(", c.")))),
		id.String(), at.UTC().Format(time.RFC3339Nano), c.there[0]); err != nil {
		c.t.Fatal(err)
	}
	return id
}

// amid calls ask, which requests an operation, while another item is being stored. After that, it
// adds three more, with a past, the current and a future time.
func (c *crowd) amid(ask func(late []uuid.UUID)) (late []uuid.UUID) {
	c.t.Helper()
	db := c.j.DB.SQL()
	open, err := db.BeginTx(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer open.Rollback() //nolint:errcheck // it is committed
	late = append(late, c.copied(open, pgtest.Now().Add(-time.Hour)))
	ask(late)
	if err := open.Commit(); err != nil {
		c.t.Fatal(err)
	}
	for _, at := range []time.Time{pgtest.Now().Add(-2 * time.Hour), pgtest.Now(), pgtest.Now().Add(time.Minute)} {
		late = append(late, c.copied(db, at))
	}
	return late
}

func sorted(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// Whatever a bulk operation does and however its items are selected, it processes exactly the items
// that existed when it was requested. Changes of these items in the meantime do not matter.
// uitest.TestAnOperationOnManyThingsIsForThoseOfItsRequest covers all kinds of operations through
// the API.
func TestABulkOperationIsForWhatExistedAtItsRequest(t *testing.T) {
	t.Parallel()
	m := newManySagas(t, 0)
	for _, action := range sagabulk.Actions() {
		for name, by := range map[string]sagabulk.Bulk{
			"all":       {Filter: &saga.Filter{}},
			"workflow":  {Filter: &saga.Filter{WorkflowName: pgtest.Order.Name}},
			"metadata":  {Filter: &saga.Filter{Metadata: json.RawMessage(`{"a":1}`)}},
			"ids":       {IDs: []uuid.UUID{}},
			"at a rate": {Filter: &saga.Filter{}, Rate: 10_000},
		} {
			t.Run(string(action)+" by "+name, func(t *testing.T) {
				pgtest.Execute(t, m.j.DB.SQL(), `DELETE FROM saga.saga_states`)
				m := &manySagas{t: t, j: m.j, sagas: m.sagas, bulks: m.bulks}
				c := &crowd{manySagas: m, table: "saga.saga_states"}
				for range 5 {
					c.there = append(c.there, m.start(nil))
				}
				pgtest.Execute(t, m.j.DB.SQL(), `UPDATE saga.saga_states SET metadata = '{"a": 1}'`)
				switch action {
				case saga.ResumeCompensation:
					pgtest.Execute(t, m.j.DB.SQL(), `UPDATE saga.saga_states SET state = 6, completed_at = now(), clean = false, next_run_at = NULL,
						step_attempt = 1, step_failures = 1`)
				case saga.Acknowledge:
					pgtest.Execute(t, m.j.DB.SQL(), `UPDATE saga.saga_states SET needs_attention = true, attention_reason = 'x'`)
				}
				var b sagabulk.Bulk
				want := 5
				c.amid(func(late []uuid.UUID) {
					b = by
					b.Action = action
					if f := by.Filter; f != nil {
						b.Filter = new(*f)
					} else {
						b.IDs = append(slices.Clone(c.there), late...)
						want = 6
					}
					b = m.create(b)
				})
				if *b.Expected != int64(want) {
					t.Errorf("it expects %d", *b.Expected)
				}
				pgtest.Execute(t, m.j.DB.SQL(), `UPDATE saga.saga_states SET payload = '{"changed": true}' WHERE id = $1`, c.there[1])
				for m.get(b.ID).State == bulk.Running {
					m.sweep(2)
				}
				var got []uuid.UUID
				for _, i := range m.items(b.ID, "") {
					if i.Code != saga.CodeNotFound {
						got = append(got, i.SagaID)
					}
				}
				if !slices.Equal(sorted(got), sorted(c.there)) {
					t.Errorf("it has dealt with %v, want %v", got, c.there)
				}
				if done := m.get(b.ID); done.State != bulk.Completed || done.Matched != int64(want) {
					t.Errorf("%+v", done)
				}
			})
		}
	}
}

// asks requests a bulk operation on runs.
func (c *crowd) asks(b jobrun.Bulk) jobrun.Bulk {
	c.t.Helper()
	b.Head = bulk.Head{Cover: b.Cover, ID: pgtest.NewID(), TenantID: c.j.Tenant, Version: 1, State: bulk.Running,
		Actor: "ann", CreatedAt: pgtest.Now()}
	b.Before = pgtest.Now()
	if err := jobrun.CheckBulk(&b); err != nil {
		c.t.Fatal(err)
	}
	by := operator.By{}.Did(pgtest.NewID(), c.j.Tenant, pgtest.Now(), operator.JobBulk, b.ID.String(), "create", nil)
	b, created, err := c.runs.CreateBulk(c.t.Context(), b, by)
	if err != nil || !created {
		c.t.Fatal(created, err)
	}
	return b
}

// worked lets the leader work until an operation on runs is no longer RUNNING.
func (c *crowd) worked(id uuid.UUID) jobrun.Bulk {
	c.t.Helper()
	for {
		if _, err := c.runs.Bulk(c.t.Context(), c.j.Term(c.t), jobrun.Settings{}, 2); err != nil {
			c.t.Fatal(err)
		}
		b, err := c.runs.GetBulk(c.t.Context(), c.j.Tenant, id)
		if err != nil {
			c.t.Fatal(err)
		}
		if b.State != bulk.Running {
			return b
		}
	}
}

// newRuns returns waiting runs of one job.
func newRuns(t *testing.T, j pgtest.Jobs, n int) *crowd {
	t.Helper()
	c := &crowd{manySagas: &manySagas{t: t, j: j}, runs: bulkdb.NewRunBulks(j.Base, j.Jobs), table: "jobs.job_runs"}
	for range n {
		r := j.CreateAll(t, j.NewRun(j.Job, func(r *jobrun.Request) { r.Labels = map[string]string{"team": "a"} }))[0]
		c.there = append(c.there, r.ID)
	}
	return c
}

func TestABulkOnRunsIsForWhatExistedAtItsRequest(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	for _, action := range jobrun.BulkActions {
		for name, f := range map[string]jobrun.Filter{
			"all": {}, "job": {DefinitionID: j.Job.ID}, "label": {Label: "team=a"}, "queue": {Queue: jobrun.DefaultQueue},
			"time": {CreatedTo: pgtest.Now().Add(24 * time.Hour)},
		} {
			t.Run(string(action)+" by "+name, func(t *testing.T) {
				pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.job_runs`)
				c := newRuns(t, j, 5)
				touched := `SELECT array_agg(id::text) FROM jobs.job_runs WHERE state = 'CANCELED'`
				if action == jobrun.BulkRerun {
					pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET state = 'CANCELED', finished_at = now(), version = version + 1`)
					f.States = []jobrun.State{jobrun.Canceled}
					touched = `SELECT array_agg(retry_of_run_id::text) FROM jobs.job_runs WHERE initiated_by = 'ann'`
				}
				var b jobrun.Bulk
				c.amid(func([]uuid.UUID) { b = c.asks(jobrun.Bulk{Action: action, Filter: f}) })
				done := c.worked(b.ID)
				if *b.Expected != 5 || done.State != bulk.Completed || done.Matched != 5 || done.Done != 5 {
					t.Errorf("expected %d, it ended as %+v", *b.Expected, done)
				}
				var got []uuid.UUID
				for _, id := range pgtest.Ask[pq.StringArray](t, j.DB.SQL(), touched) {
					got = append(got, uuid.MustParse(id))
				}
				if !slices.Equal(sorted(got), sorted(c.there)) {
					t.Errorf("it has touched %v, want %v", got, c.there)
				}
			})
		}
	}
}

// An operation halts before it changes more items than it may, and continues with all of them when
// a person resumes it. An irreversible operation halts even if no limit was requested.
func TestABulkOperationHaltsOverMoreThanExpected(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	by := func() operator.Action {
		return operator.By{Actor: "bob"}.Did(pgtest.NewID(), j.Tenant, pgtest.Now(), operator.JobBulk, "b", "resume", nil)
	}
	// matches makes more of the existing items match.
	matches := func(n int) {
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET queue = 'default' WHERE id IN (SELECT id FROM jobs.job_runs
			WHERE queue = 'other' AND state = 'PENDING' ORDER BY created_at DESC LIMIT $1)`, n)
	}
	for name, asked := range map[string]*int64{
		"without a number": nil, "of three": new(int64(3)), "of two": new(int64(2)), "of nine": new(int64(9)),
	} {
		t.Run(name, func(t *testing.T) {
			pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.job_runs`)
			c := newRuns(t, j, 5)
			pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET queue = 'other' WHERE id IN ($1, $2)`, c.there[0], c.there[4])
			b := c.asks(jobrun.Bulk{Head: bulk.Head{Cover: bulk.Cover{HaltsAbove: asked}}, Action: jobrun.BulkCancel,
				Filter: jobrun.Filter{Queue: "default"}})
			if few := asked != nil && *asked == 2; few != (b.State == bulk.Halted) || *b.Expected != 3 {
				t.Fatalf("%s, expected %d", b.State, *b.Expected)
			}
			matches(1)
			halted := c.worked(b.ID)
			want := int64(4)
			if b.State == bulk.Halted {
				want = 3 // as it found them at its request
			}
			if halted.State != bulk.Halted || halted.HaltReason != bulk.HaltExpected ||
				*halted.Found != want || halted.Matched != 0 {
				t.Errorf("it is %s (%s), found %v, matched %d", halted.State, halted.HaltReason, halted.Found, halted.Matched)
			}
			if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'CANCELED'`); n != 0 {
				t.Errorf("%d runs are canceled", n)
			}
			if n := j.Count(t, `SELECT count(*) FROM saga.audit_actions WHERE subject = $1 AND kind = 'job_bulk' AND verb = 'halt'
				AND (detail ->> 'found')::int = $2 AND coalesce(actor, '') = ''`, b.ID.String(), want); n != 1 {
				t.Errorf("%d records of its halt", n)
			}
			if want == 3 {
				return
			}
			if _, err := c.runs.MoveBulk(t.Context(), j.Tenant, b.ID, bulk.Resume, by()); err != nil {
				t.Fatal(err)
			}
			if done := c.worked(b.ID); done.State != bulk.Completed || done.Done != 4 || *done.HaltsAbove != 4 {
				t.Errorf("resumed, it ended as %+v", done)
			}
			if _, err := c.runs.MoveBulk(t.Context(), j.Tenant, b.ID, bulk.Resume, by()); err == nil {
				t.Error("it is resumed after its end")
			}
		})
	}
}

// A backfill covers the slots that its job had when it was requested.
func TestABackfillIsForTheSlotsOfItsRequest(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	m := bulkdb.NewRunBulks(j.Base, j.Jobs)
	hourly := schedule.Spec{Type: schedule.HourlyAtMinute, Value: "0"}
	d := j.Define(t, func(d *jobrun.Definition) { d.Spec.Type, d.Spec.Schedule = jobrun.OnTime, &hourly })
	to := pgtest.Now().Truncate(time.Hour)
	ask := func(above *int64) jobrun.Backfill {
		b := jobrun.Backfill{
			Head: bulk.Head{Cover: bulk.Cover{HaltsAbove: above}, ID: pgtest.NewID(), TenantID: j.Tenant, Version: 1,
				State: bulk.Running, CreatedAt: pgtest.Now()},
			DefinitionID: d.ID, From: to.Add(-4 * time.Hour), To: to, Reprocess: jobrun.ReprocessCompleted, MaxActive: 100,
		}
		if _, err := jobrun.CheckBackfill(&b, &d, pgtest.Now()); err != nil {
			t.Fatal(err)
		}
		by := operator.By{}.Did(pgtest.NewID(), j.Tenant, pgtest.Now(), operator.JobBackfill, b.ID.String(), "create", nil)
		if _, created, err := m.CreateBackfill(t.Context(), b, by); err != nil || !created {
			t.Fatal(created, err)
		}
		return b
	}
	b, few := ask(nil), ask(new(int64(3)))
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_definitions SET spec = jsonb_set(spec, '{schedule}', '{"type": "interval", "value": "1m"}') WHERE id = $1`, d.ID)
	for range 3 {
		if _, err := m.Backfill(t.Context(), j.Term(t), jobrun.Settings{}, 2); err != nil {
			t.Fatal(err)
		}
	}
	got, active, err := m.GetBackfill(t.Context(), j.Tenant, b.ID)
	if err != nil || got.Created != 4 || active != 4 || *got.Expected != 4 {
		t.Errorf("it has created %d runs, expected %v, %v", got.Created, got.Expected, err)
	}
	got, _, err = m.GetBackfill(t.Context(), j.Tenant, few.ID)
	if err != nil || got.State != bulk.Halted || got.Created != 0 || *got.Found != 4 {
		t.Errorf("of more slots than expected: %+v, %v", got, err)
	}
}
