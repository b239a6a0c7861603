package bulkdb_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/bulk/bulkdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// Operations that cannot continue do not keep later ones from their turns, however many there are.
// Each of them is reported, and continues once it is repaired. For redrives see
// redrive.TestARedriveThatCannotContinueDoesNotKeepTheOthers.
func TestAnOperationThatCannotContinueDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	m := newManySagas(t, 1)
	c := newRuns(t, m.j, 1)
	broken, whole := 52, 2 // more than one call of the leader continues
	for name, kind := range map[string]struct {
		table string
		ask   func() uuid.UUID
		sweep func() (jobrun.Swept, error)
	}{
		"bulks on sagas": {"saga.saga_bulks", func() uuid.UUID {
			return m.create(sagabulk.Bulk{Action: saga.Acknowledge, IDs: m.ids}).ID
		}, func() (jobrun.Swept, error) {
			return m.bulks.Bulk(t.Context(), m.j.Term(t), jobrun.Settings{}, 100)
		}},
		"bulks on runs": {"jobs.bulks", func() uuid.UUID {
			return c.asks(jobrun.Bulk{Action: jobrun.BulkRerun, Filter: jobrun.Filter{Label: "team=a"}}).ID
		}, func() (jobrun.Swept, error) {
			return c.runs.Bulk(t.Context(), m.j.Term(t), jobrun.Settings{}, 100)
		}},
		"backfills": {"jobs.backfills", func() uuid.UUID {
			return m.j.Backfilled(t, c.runs, 1, 1).ID
		}, func() (jobrun.Swept, error) {
			return c.runs.Backfill(t.Context(), m.j.Term(t), jobrun.Settings{}, 100)
		}},
	} {
		see := pgtest.Observer(t, m.j.Dsn)
		var damaged, healthy []uuid.UUID
		for range broken {
			damaged = append(damaged, kind.ask())
		}
		pgtest.Execute(t, see, `UPDATE `+kind.table+` SET reason = 'damaged'`)
		pgtest.Execute(t, see, `CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'it is damaged'; END $$`)
		pgtest.Execute(t, see, `CREATE TRIGGER damaged BEFORE UPDATE ON `+kind.table+` FOR EACH ROW
			WHEN (OLD.reason = 'damaged' AND NEW.reason = 'damaged') EXECUTE FUNCTION public.refuse()`)
		for range whole {
			healthy = append(healthy, kind.ask())
		}
		progress := fmt.Sprintf(`SELECT count(*) FROM %s WHERE version > 1 AND id = ANY ($1::text::uuid[])`, kind.table)
		list := func(ids []uuid.UUID) string {
			out := "{"
			for i, id := range ids {
				if i > 0 {
					out += ","
				}
				out += id.String()
			}
			return out + "}"
		}
		failed := map[uuid.UUID]int{}
		for more := true; more; {
			swept, err := kind.sweep()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, f := range swept.Failed {
				failed[f.ID]++
			}
			more = swept.More
		}
		if n := m.j.Count(t, progress, list(healthy)); n != whole {
			t.Errorf("%s: %d of %d healthy ones had their turn", name, n, whole)
		}
		for _, id := range damaged {
			if failed[id] != 1 {
				t.Errorf("%s: a damaged one was reported %d times in a round", name, failed[id])
				break
			}
		}
		if len(failed) != broken {
			t.Errorf("%s: %d were reported, want %d", name, len(failed), broken)
		}
		pgtest.Execute(t, see, `DROP TRIGGER damaged ON `+kind.table)
		for range 2 {
			if _, err := kind.sweep(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := m.j.Count(t, progress, list(damaged)); n != broken {
			t.Errorf("%s: %d of %d mended ones went on", name, n, broken)
		}
	}
}

// A backfill whose stored schedule is damaged does nothing, is listed with the others, and can be
// canceled.
func TestABackfillWithADamagedScheduleDoesNothing(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	m := bulkdb.NewRunBulks(j.Base, j.Jobs)
	b, other := j.Backfilled(t, m, 3, 3), j.Backfilled(t, m, 3, 3)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.backfills SET schedule = '"damaged"' WHERE id = $1`, b.ID)
	swept, err := m.Backfill(t.Context(), j.Term(t), jobrun.Settings{}, 100)
	if err != nil || len(swept.Failed) != 1 || swept.Failed[0].ID != b.ID || swept.Moved != 3 {
		t.Errorf("%+v, %v", swept, err)
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE backfill_id = $1`, b.ID); n != 0 {
		t.Errorf("%d runs were made", n)
	}
	if got, _, err := m.GetBackfill(t.Context(), j.Tenant, b.ID); err != nil || !got.Unreadable ||
		got.State != bulk.Running {
		t.Errorf("%+v, %v", got, err)
	}
	if got, _, err := m.GetBackfill(t.Context(), j.Tenant, other.ID); err != nil || got.Created != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A backfill of a damaged definition waits, and continues when the definition is repaired. A
// backfill whose definition is deleted ends, whether or not it is damaged.
func TestABackfillOfADamagedDefinitionWaits(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	m := bulkdb.NewRunBulks(j.Base, j.Jobs)
	b := j.Backfilled(t, m, 3, 3)
	see := pgtest.Observer(t, j.Dsn)
	definition := func(set string) {
		pgtest.Execute(t, see, `UPDATE jobs.job_definitions SET `+set+` WHERE id = $1`, b.DefinitionID)
	}
	sweep := func(state bulk.State, created int64) {
		t.Helper()
		if swept, err := m.Backfill(t.Context(), j.Term(t), jobrun.Settings{}, 100); err != nil || swept.Failed != nil {
			t.Errorf("%+v, %v", swept, err)
		}
		got, _, err := m.GetBackfill(t.Context(), j.Tenant, b.ID)
		if err != nil || got.State != state || got.Created != created {
			t.Errorf("%+v, %v", got, err)
		}
	}
	pgtest.Execute(t, see, `CREATE TABLE public.was AS SELECT id, spec FROM jobs.job_definitions`)
	definition(`spec = '{"schedule":"daily"}'`)
	sweep(bulk.Running, 0)
	definition(`spec = (SELECT was.spec FROM public.was WHERE was.id = job_definitions.id)`)
	sweep(bulk.Running, 3)
	definition(`spec = '{"schedule":"daily"}', deleted_at = now()`)
	sweep(bulk.Canceled, 3)
}
