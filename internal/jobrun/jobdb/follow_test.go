package jobdb_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// every returns a definition with slots at an interval.
func every(interval string) func(*jobrun.Definition) {
	return func(d *jobrun.Definition) {
		d.Spec = pgtest.Every(interval)
	}
}

// slotsAhead stores the runs of a definition's next n slots.
func slotsAhead(t *testing.T, j pgtest.Jobs, d *jobrun.Definition, n int) []jobrun.Run {
	t.Helper()
	s, err := d.Spec.Schedule.Compile()
	if err != nil {
		t.Fatal(err)
	}
	var runs []jobrun.Run
	for _, tick := range s.Preview(pgtest.Now().Add(5*time.Second), n) {
		runs = append(runs, j.NewRun(*d, func(a *jobrun.Request) {
			a.Trigger, a.ScheduledFor, a.Key = jobrun.ByTime, tick.At, jobrun.TimeKey(d.ID, tick.At)
		}))
	}
	return j.CreateAll(t, runs...)
}

// A run that follows a change equals the run that would be created now, whichever of its fields are
// sealed.
func TestARunThatFollowsIsAsOneThatIsCreatedNow(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*envelope.Keyring{"plain": nil, "sealed": pgtest.Keyring(t, pgtest.KeyOne)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := pgtest.NewSealedJobs(t, keys)
			definitions := jobdb.NewDefinitions(j.Base, pgtest.Defaults)
			d := j.Define(t, every("1h"))
			before := slotsAhead(t, j, &d, 3)
			d.Version, d.SpecVersion, d.Name, d.UpdatedBy = 2, 2, "renamed", "ann"
			d.LastMaterializedAt, d.CreatedAt, d.UpdatedAt = pgtest.Now(), pgtest.Now(), pgtest.Now()
			d.Spec.CommandName, d.Spec.Queue, d.Spec.Priority, d.Spec.TimeoutMS, d.Spec.MaxLosses = "other", "heavy", 7, 1500, 2
			d.Spec.Labels, d.Spec.Requires = map[string]string{"team": "a \"b\", c"}, map[string]string{"gpu": "yes"}
			d.Spec.Concurrency, d.Spec.DefaultArgs = jobrun.Forbid, json.RawMessage(`{"n":[1,"$skald_"]}`)
			by := operator.By{Actor: "ann"}.
				Did(pgtest.NewID(), j.Tenant, pgtest.Now(), operator.JobDefinition, d.ID.String(), "update", nil)
			if err := definitions.Change(t.Context(), d, by); err != nil {
				t.Fatal(err)
			}
			for _, r := range before {
				got := j.GetRun(t, r.ID)
				want := j.NewRun(d, func(a *jobrun.Request) {
					a.ID, a.Trigger, a.Key, a.ScheduledFor, a.By = r.ID, r.Trigger, r.IdempotencyKey, r.ScheduledFor, "ann"
				})
				want.Version, want.CreatedAt, want.UpdatedAt = 2, r.CreatedAt, got.UpdatedAt
				if keys == nil {
					want.Args = json.RawMessage(`{"n": [1, "$skald_"]}`) // in the format of jsonb
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-created now +follows):\n%s", diff)
				}
			}
			if sealed, want := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE args ? 'n'`), map[bool]int{true: 0, false: 3}[keys != nil]; sealed != want {
				t.Errorf("%d runs show their arguments, want %d", sealed, want)
			}
			// A refused change does not affect any run.
			stale := d
			stale.SpecVersion, stale.Spec.Queue = 3, "nowhere"
			if err := definitions.Change(t.Context(), stale, by); !fault.IsCode(err, jobrun.CodeStale) {
				t.Errorf("a stale change: %v", err)
			}
			if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE queue = 'nowhere'`); n != 0 {
				t.Errorf("%d runs follow a change that was refused", n)
			}
		})
	}
}

// A new version of the program gives Skald's own jobs other schedules.
func TestSlotsOfBuiltInJobsFollowTheProgram(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	definitions := jobdb.NewDefinitions(j.Base, pgtest.Defaults)
	own := func(interval string) jobrun.Definition {
		b := jobrun.BuiltIn{Name: "system.x", Spec: pgtest.Every(interval)}
		d, err := b.Definition(j.Tenant, uuid.New(), pgtest.Now())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ensure := func(d jobrun.Definition) {
		t.Helper()
		if err := definitions.EnsureBuiltIns(t.Context(), j.Tenant, []jobrun.Definition{d}); err != nil {
			t.Fatal(err)
		}
	}
	first := own("2s")
	ensure(first)
	runs := slotsAhead(t, j, &first, 10)
	ensure(own("2s"))
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'PENDING' AND spec_version = 1`); n != len(runs) {
		t.Errorf("the same program leaves %d of %d runs as they are", n, len(runs))
	}
	ensure(own("4s"))
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'PENDING' AND spec_version = 2`); n != len(runs)/2 {
		t.Errorf("%d of %d slots are left, want the half", n, len(runs))
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'SKIPPED' AND withdrawn`); n != len(runs)/2 {
		t.Errorf("%d of %d slots are withdrawn, want the half", n, len(runs))
	}
}

// However many runs there were, indexes find those that follow.
func testFollowPlans(t *testing.T, j pgtest.Jobs) {
	t.Helper()
	definition := pgtest.Ask[string](t, j.DB.SQL(), `SELECT definition_id::text FROM jobs.job_runs WHERE definition_id IS NOT NULL AND state = 'PENDING' LIMIT 1`)
	writers, err := j.DB.Write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writers.Close() //nolint:errcheck // a test
	plan := pgtest.Explain(t, writers, jobdb.LockUnclaimed, j.Tenant.String(), definition, time.Now(), jobrun.MaxFollowing)
	pgtest.WantIndexes(t, plan, "idx_job_runs_definition_scheduled_for", "idx_job_runs_state")
}
