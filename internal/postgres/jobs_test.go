package postgres_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// jobs is a store of job runs, a tenant with one definition, and who leads.
type jobs struct {
	*postgres.Jobs
	db     *postgres.DB
	base   *postgres.JobDB
	dsn    string // with all rights
	tenant uuid.UUID
	job    jobrun.Definition
}

// defaults are the settings that nobody has changed.
func defaults(context.Context) (jobrun.Settings, error) { return jobrun.NewSettings(1, nil), nil }

// newJobs opens a store as production does: with a login of no rights of its own.
func newJobs(t *testing.T) jobs { t.Helper(); return newSealedJobs(t, nil) }

func newSealedJobs(t *testing.T, keys *envelope.Keyring) jobs {
	t.Helper()
	dsn := testdb.DSN(t)
	db := connectWith(t, plainLogin(t, dsn), keys)
	base := postgres.NewJobDB(db, nil)
	j := jobs{postgres.NewJobs(base, defaults), db, base, dsn, newID(), jobrun.Definition{}}
	j.lead(t, 1)
	j.job = j.define(t, nil)
	return j
}

// lead makes somebody the leader for an hour.
func (j jobs) lead(t *testing.T, epoch int64) {
	t.Helper()
	execute(t, j.db.SQL(), `INSERT INTO jobs.leader (name, leader_id, node, epoch, acquired_at, expires_at)
		VALUES ('default', gen_random_uuid(), 'n', $1, now(), now() + interval '1 hour')
		ON CONFLICT (name) DO UPDATE SET epoch = $1, expires_at = now() + interval '1 hour'`, epoch)
}

// define stores a definition as the change leaves it.
func (j jobs) define(t *testing.T, change func(*jobrun.Definition)) jobrun.Definition {
	t.Helper()
	d := jobrun.Definition{ID: newID(), TenantID: j.tenant, Version: 1, SpecVersion: 1, Enabled: true,
		Spec: jobrun.Spec{Type: jobrun.OnDemand, CommandName: "report", Retry: retry.Policy{MaxAttempts: 3, InitialIntervalMS: 1000}}}
	d.Name = "job-" + d.ID.String()
	if change != nil {
		change(&d)
	}
	doc, err := json.Marshal(d.Spec)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, j.db.SQL(), `INSERT INTO jobs.job_definitions (id, tenant_id, name, type, command_name, spec, last_materialized_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, now(), now(), now())`, d.ID, d.TenantID, d.Name, d.Spec.Type, d.Spec.CommandName, string(doc))
	execute(t, j.db.SQL(), `INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at)
		VALUES ($1, $2, 1, $3, now())`, d.ID, d.TenantID, string(doc))
	return d
}

// run is a new run of d that may be claimed at once.
func (j jobs) run(d jobrun.Definition, change ...func(*jobrun.Request)) jobrun.Run {
	a := jobrun.Request{Trigger: jobrun.ByHand, Key: jobrun.ManualKey(newID().String())}
	for _, c := range change {
		c(&a)
	}
	s, _ := defaults(context.Background())
	return jobrun.New(&d, a, s, jobrun.Moment{Now: now(), NewID: newID})
}

func (j jobs) action(r jobrun.Run) operator.Action {
	by := operator.By{Actor: "ada", Reason: "because", RequestID: "r-1"}
	return by.Did(newID(), j.tenant, now(), operator.JobRun, r.ID.String(), "run", nil)
}

// create stores runs, and returns them as they are stored.
func (j jobs) create(t *testing.T, runs ...jobrun.Run) []jobrun.Run {
	t.Helper()
	out := make([]jobrun.Run, len(runs))
	for i, r := range runs {
		stored, created, err := j.Create(t.Context(), r, j.action(r))
		if err != nil || !created {
			t.Fatalf("create: %v, %v", created, err)
		}
		out[i] = stored
	}
	return out
}

func (j jobs) get(t *testing.T, id uuid.UUID) jobrun.Run {
	t.Helper()
	r, err := j.Run(t.Context(), j.tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// count returns a number that the database knows.
func (j jobs) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := j.db.SQL().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARunIsReadAsItWasMade(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*envelope.Keyring{"plain": nil, "sealed": keyring(t, keyOne)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newSealedJobs(t, keys)
			d := j.define(t, func(d *jobrun.Definition) {
				d.Spec.Labels, d.Spec.Requires = map[string]string{"team": "a \"b\", c", "x": ""}, map[string]string{"gpu": "yes"}
				d.Spec.Concurrency, d.Spec.Priority, d.Spec.TimeoutMS, d.Spec.Queue = jobrun.Queue, -7, 1500, "slow"
			})
			r := j.run(d, func(a *jobrun.Request) {
				a.Args, a.SagaID, a.SagaStep, a.SagaAction = json.RawMessage(`{"a": [1, "$skald_"]}`), newID(), 0, "EXECUTE"
				a.EventID, a.LetterID, a.BackfillID, a.RetryOfRunID = newID(), newID(), newID(), newID()
				a.CorrelationID, a.TraceID, a.RetryNumber = "c-1", "t-1", 2
				a.ScheduledFor = now().Add(time.Hour)
			})
			r.Checkpoint, r.FailuresUsed, r.AdmittedAt = json.RawMessage(`{"at": 5}`), 1, new(now())
			j.create(t, r)
			got := j.get(t, r.ID)
			if keys != nil { // what is opened is canonical
				r.Args, r.Checkpoint = json.RawMessage(`{"a":[1,"$skald_"]}`), json.RawMessage(`{"at":5}`)
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Error(diff)
			}
			plain := j.count(t, `SELECT count(*) FROM jobs.job_runs WHERE args ? 'a' OR checkpoint ? 'at'`)
			if want := map[bool]int{true: 0, false: 1}[keys != nil]; plain != want {
				t.Errorf("%d runs show what they carry, want %d", plain, want)
			}
		})
	}
}

func TestAnIdempotencyKeyMakesOneRun(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	first := j.create(t, j.run(j.job, func(a *jobrun.Request) { a.Key = "manual:k" }))[0]
	again := j.run(j.job, func(a *jobrun.Request) { a.Key = "manual:k" })
	stored, created, err := j.Create(t.Context(), again, j.action(again))
	if err != nil || created || stored.ID != first.ID {
		t.Errorf("the same key gives run %s (created %v, %v), want %s", stored.ID, created, err, first.ID)
	}
	if n := j.count(t, `SELECT count(*) FROM saga.audit_actions WHERE tenant_id = $1`, j.tenant); n != 1 {
		t.Errorf("%d actions are on record, want 1", n)
	}
}

func TestARunThatIsAskedForWaitsForNobodyWhosePolicyIsForbid(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	d := j.define(t, func(d *jobrun.Definition) { d.Spec.Concurrency = jobrun.Forbid })
	later := j.run(d, func(a *jobrun.Request) {
		a.Trigger, a.ScheduledFor, a.Key = jobrun.ByTime, now().Add(time.Minute), "time:1"
	})
	first := j.create(t, later, j.run(d))[1] // the slot is not due yet, and in nobody's way
	second := j.run(d)
	_, _, err := j.Create(t.Context(), second, j.action(second))
	if !fault.IsCode(err, jobrun.CodeForbidden) {
		t.Fatalf("a second run beside %s: %v", first.ID, err)
	}
	if _, err := j.Run(t.Context(), j.tenant, second.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the run that was refused: %v", err)
	}
	j.create(t, j.run(d, func(a *jobrun.Request) { a.Immediate = true }))
}

func TestOtherTenantsRunsAreNotThere(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	r := j.create(t, j.run(j.job))[0]
	if _, err := j.Run(t.Context(), newID(), r.ID); !fault.IsCode(err, jobrun.CodeRunNotFound) {
		t.Errorf("read by another tenant: %v", err)
	}
}
