package jobdb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// claimable is what a worker w may get of the queue q, in the order of
// idx_job_runs_claimable, which the lateral subqueries keep. What is held is seen
// anew once it is locked, so that no claim comes after the suspension of a saga. With
// @keyless no run has a concurrency key.
var claimable = `
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM jobs.job_runs r
	 WHERE r.tenant_id = @tenant AND r.queue = q.queue AND r.phase` + phaseMovableTo(jobrun.Assigned, jobrun.Worker) + ` AND r.admitted_at IS NOT NULL AND NOT r.held
	   AND r.cancel_requested_at IS NULL AND r.required_labels <@ q.labels AND (q.commands = '{}' OR r.command_name = ANY (q.commands))
	   AND (r.concurrency_key IS NULL OR NOT @keyless AND (SELECT o.id FROM jobs.job_runs o
	          WHERE o.tenant_id = @tenant AND o.concurrency_key = r.concurrency_key AND o.id <> r.id AND o.phase IN ('HELD', 'ORPHANED') LIMIT 1) IS NULL)
	 ORDER BY ` + claimOrder

// claimOrder is the order in which runs are claimed: jobrun.CompareTurns.
const claimOrder = `r.priority DESC, r.scheduled_for, r.id`

// What a claim is to choose, jobrun.Pool says; these are the parts that one claim and
// several together share.

// mayClaim is the condition that worker w may be given runs (@fresh: how long it may be
// silent, in microseconds).
func mayClaim(id string) string {
	return `w.tenant_id = @tenant AND w.id = ` + id + ` AND w.state = 'ACTIVE' AND w.heartbeat_at > clock_timestamp() - @fresh * interval '1 microsecond'`
}

// roomOf is how many runs worker w is given that asks for so many (@max_runs: the limit
// of all workers).
func roomOf(id, asks string) string {
	return `least(` + asks + `, least(w.max_runs, @max_runs::bigint) -
	       (SELECT count(*) FROM jobs.job_runs h WHERE h.assigned_worker_id = ` + id + ` AND h.phase = 'HELD')) AS room`
}

// unanswered is the condition that a claim was not answered before.
func unanswered(k, worker, claim string) string {
	return `NOT EXISTS (SELECT FROM jobs.claims ` + k + ` WHERE ` + k + `.worker_id = ` + worker + ` AND ` + k + `.claim_id = ` + claim + `)`
}

// claimRuns assigns runs to a worker under the present epoch. Of several
// queues it looks first how many runs of each come to the front, and then locks so
// many of each, so that no other worker is kept from runs that nobody takes.
//
// A repetition waits for the claim that it repeats, should that be under way: else it
// would lock runs of its own and find none, or fewer than it got. What it then sees
// is older than that claim, so it gets nothing, or violates the key of jobs.claims.
var claimRuns = postgres.Named(claimEpoch+`, alone AS MATERIALIZED (
	SELECT `+lockClaim("@worker::uuid", "@claim::text")+`
), w AS MATERIALIZED (
	SELECT w.id, @claim AS claim_id, w.labels, w.commands, w.queues, `+roomOf("@worker", "@slots::bigint")+`
	  FROM jobs.workers w
	 WHERE `+mayClaim("@worker")+`
	   AND EXISTS (SELECT FROM e) AND EXISTS (SELECT FROM alone) AND `+unanswered("k", "@worker", "@claim")+`
), q AS MATERIALIZED (
	SELECT DISTINCT q.queue, w.labels, w.commands, w.room
	  FROM w CROSS JOIN unnest(w.queues) AS q (queue) WHERE w.room > 0 AND (@queues::text[] IS NULL OR q.queue = ANY (@queues::text[]))
), front AS MATERIALIZED (
	SELECT q.queue FROM q CROSS JOIN LATERAL (`+claimable+` LIMIT q.room) AS r
	 WHERE (SELECT count(*) FROM q) > 1
	 ORDER BY `+claimOrder+` LIMIT (SELECT w.room FROM w)
), places AS MATERIALIZED (
	SELECT q.queue, q.labels, q.commands, q.room FROM q WHERE (SELECT count(*) FROM q) = 1
	UNION ALL
	SELECT q.queue, q.labels, q.commands, least(q.room, (SELECT count(*) FROM front f WHERE f.queue = q.queue)) FROM q WHERE (SELECT count(*) FROM q) > 1
), locked AS MATERIALIZED (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM places AS q CROSS JOIN LATERAL (`+claimable+` LIMIT q.room FOR NO KEY UPDATE OF r SKIP LOCKED) AS r
), chosen AS MATERIALIZED (
	SELECT l.id, @worker::uuid AS worker FROM (`+firstOfKeys+`) AS l
	 WHERE l.concurrency_key IS NULL OR l.nth = 1
)`+assignChosen, postgres.Single("tenant", "worker", "slots", "queues", "claim"), claimBounds)

// claimBounds are the parameters that all claims end with.
var claimBounds = postgres.Single("max_runs", "fresh", "lease", "keyless", "start")

// claimEpoch begins each claim. Unless the runs are started at once (@start), the
// answer does not wait until the assignment is on disk: if a crash takes it back,
// the worker's token is one that nobody knows, its start is refused, and that is
// what workers wait for (J-26). Whoever commits a start makes the assignment
// before it durable too.
const claimEpoch = `
WITH e AS MATERIALIZED (
	SELECT l.epoch, CASE WHEN NOT @start::boolean THEN set_config('synchronous_commit', 'off', true) END AS durable
	  FROM jobs.leader l WHERE l.name = 'default' AND l.expires_at > clock_timestamp()
)`

// lockClaim keeps a claim with an id from being made twice at once, until it is
// committed.
func lockClaim(worker, claim string) string {
	return "CASE WHEN " + claim + " <> '' THEN pg_advisory_xact_lock(hashtextextended(" + worker + "::text || ' ' || " + claim + ", 0)) END"
}

// firstOfKeys numbers the runs of each concurrency key: a claim takes one of it.
// That another claim takes one of the same key meanwhile is a violation of
// idx_job_runs_concurrency_key.
const firstOfKeys = `
	SELECT l.id, l.priority, l.scheduled_for, l.concurrency_key, row_number() OVER (PARTITION BY l.concurrency_key ORDER BY l.priority DESC, l.scheduled_for, l.id) AS nth
	  FROM locked l`

// assignChosen ends each claim: it gives each run in chosen to its worker, of those in w.
var assignChosen = `, assigned AS (
	UPDATE jobs.job_runs r
	   SET state = 'ASSIGNED', version = r.version + 1, attempt = r.attempt + 1, assigned_worker_id = c.worker, assigned_at = clock_timestamp(),
	       lease_token = gen_random_uuid(), lease_expires_at = clock_timestamp() + @lease * interval '1 microsecond', leader_epoch = e.epoch,
	       fencing_seq = nextval('jobs.fencing'), started_at = NULL, continuation_state = 'NONE', continuation_check_started_at = NULL,
	       continuation_check_deadline_at = NULL, progress = NULL, updated_at = clock_timestamp()
	  FROM chosen c CROSS JOIN e
	 WHERE r.id = c.id AND r.tenant_id = @tenant
	RETURNING ` + RunColumns + `
), kept AS (
	INSERT INTO jobs.claims (worker_id, claim_id, tenant_id, run_ids, created_at)
	SELECT w.id, w.claim_id, @tenant, array_agg(r.id), clock_timestamp() FROM w JOIN assigned r ON r.assigned_worker_id = w.id WHERE w.claim_id <> '' GROUP BY w.id, w.claim_id
)
SELECT ` + RunColumns + ` FROM assigned r`

// startClaimed starts what was just assigned. It is a statement of its own: no
// run becomes RUNNING that was not ASSIGNED (J-06, J-07), and PostgreSQL changes a
// row once per statement.
var startClaimed = postgres.Named(`
UPDATE jobs.job_runs r
   SET state = 'RUNNING', version = r.version + 1, started_at = clock_timestamp(), updated_at = clock_timestamp(),
       lease_expires_at = clock_timestamp() + @lease * interval '1 microsecond'
  FROM unnest(@ids::uuid[]) AS f (id)
 WHERE r.id = f.id AND r.tenant_id = @tenant AND r.assigned_worker_id = @worker AND r.state || ''`+movableTo(jobrun.Running, jobrun.Worker)+`
RETURNING r.id, r.version, r.started_at, r.lease_expires_at`,
	postgres.Single("tenant", "worker", "ids", "lease"))

// claimed reads what a claim with this id gave, as far as the worker still has it:
// what its lease has left, because the worker counts from this answer. Of a lease
// that is over nothing is said: the run may be another's the moment after.
var claimed = `
SELECT ` + RunColumns + `, greatest(1, extract(epoch FROM r.lease_expires_at - clock_timestamp()) * 1000000)::bigint
  FROM jobs.claims k CROSS JOIN LATERAL unnest(k.run_ids) AS f (id) JOIN jobs.job_runs r ON r.id = f.id AND r.tenant_id = k.tenant_id
 WHERE k.tenant_id = $1 AND k.worker_id = $2 AND k.claim_id = $3 AND r.assigned_worker_id = $2 AND r.phase = 'HELD' AND r.lease_expires_at > clock_timestamp()`

const workerState = `SELECT w.state FROM jobs.workers w WHERE w.tenant_id = $1 AND w.id = $2`

// claimTries is how often another claim may be faster with a concurrency key,
// before runs with keys are left out.
const claimTries = 3

// Claim implements jobrun.Work (W3). A worker that claims several times at once may
// get as much more than its maximum as it asks for meanwhile.
func (st *Jobs) Claim(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, err
	}
	offers, err := tryClaim(func(keyless bool) ([]jobrun.Offer, error) { return st.claim(ctx, a, settings, keyless) })
	if err == nil && len(offers) == 0 {
		offers, err = st.claimedBefore(ctx, a)
	}
	if err != nil {
		return nil, postgres.Outage("claim job runs", err)
	}
	return offers, nil
}

// tryClaim repeats a claim that another one was faster than, and returns what it
// got in the order in which runs are taken.
func tryClaim(claim func(keyless bool) ([]jobrun.Offer, error)) (offers []jobrun.Offer, err error) {
	for try := range 2 * claimTries {
		offers, err = claim(try >= claimTries)
		if !postgres.Collided(err) && postgres.SQLState(err) != postgres.UniqueViolation {
			break
		}
	}
	slices.SortFunc(offers, func(a, b jobrun.Offer) int {
		return jobrun.CompareTurns(&a.Run, &b.Run)
	})
	return offers, err
}

func (st *Jobs) claim(
	ctx context.Context, a jobrun.ClaimRequest, s jobrun.Settings, keyless bool,
) ([]jobrun.Offer, error) {
	query, args := claimQuery([]jobrun.ClaimRequest{a}, s, keyless)
	if !a.Start {
		rows, err := st.db.QueryWrite(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		return st.offers(ctx, rows, false)
	}
	var offers []jobrun.Offer
	err := st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		rows, err := st.db.QueryIn(ctx, tx, query, args...)
		if err != nil {
			return err
		}
		if offers, err = st.offers(ctx, rows, false); err != nil || len(offers) == 0 {
			return err
		}
		return st.startOffers(ctx, tx, offers, s)
	})
	return offers, err
}

// offers reads assigned runs, again with what is left of their leases. Nobody gets
// one whose content does not open: it is as good as lost by its worker.
func (st *Jobs) offers(ctx context.Context, rows *sql.Rows, again bool) (offers []jobrun.Offer, err error) {
	var left int64 // µs
	var more []any
	if again {
		more = []any{&left}
	}
	err = postgres.EachRow(rows, func() error {
		r, err := st.db.ScanRun(rows, more...)
		if err != nil {
			return st.db.PassOver(ctx, err)
		}
		offers = append(offers, jobrun.Offer{
			Run:            r,
			LastCheckpoint: r.Checkpoint,
			Left:           time.Duration(left) * time.Microsecond,
		})
		return nil
	})
	return offers, err
}

func (st *Jobs) startOffers(ctx context.Context, tx *sqlx.Tx, offers []jobrun.Offer, s jobrun.Settings) error {
	slices.SortFunc(offers, func(a, b jobrun.Offer) int { return compareIDs(a.ID, b.ID) })
	var ids postgres.BinaryColumn
	at := make(map[uuid.UUID]*jobrun.Run, len(offers))
	for i := range offers {
		ids.UUID(offers[i].ID)
		at[offers[i].ID] = &offers[i].Run
	}
	rows, err := st.db.QueryIn(ctx, tx, startClaimed.Text,
		startClaimed.Args(postgres.Values{offers[0].TenantID, offers[0].WorkerID, ids.Parameter(),
			s.Seconds(jobrun.RunLease).Microseconds()})...)
	if err != nil {
		return err
	}
	started := 0
	err = postgres.EachRow(rows, func() error {
		var id uuid.UUID
		var version int64
		var begin, until time.Time
		if err := rows.Scan(&id, &version, &begin, &until); err != nil {
			return err
		}
		started++
		r := at[id]
		r.State, r.Version, r.StartedAt, r.LeaseExpiresAt = jobrun.Running, version, &begin, &until
		postgres.UTC(r.StartedAt, r.LeaseExpiresAt)
		r.UpdatedAt = *r.StartedAt
		return nil
	})
	if err == nil && started != len(offers) {
		err = fmt.Errorf("%d of %d runs that were just assigned could not be started", len(offers)-started, len(offers))
	}
	return err
}

// claimedBefore answers a claim that got nothing: with what the same claim got
// before, if anything. Fault: Gone.
func (st *Jobs) claimedBefore(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	rows, err := st.db.QueryWrite(ctx, workerState, a.TenantID, a.WorkerID)
	if err != nil {
		return nil, err
	}
	state := jobrun.WorkerDetached
	if err := postgres.EachRow(rows, func() error { return rows.Scan(&state) }); err != nil {
		return nil, err
	}
	if state == jobrun.WorkerDetached {
		return nil, workerGone()
	}
	if a.ClaimID == "" {
		return nil, nil
	}
	if rows, err = st.db.QueryWrite(ctx, claimed, a.TenantID, a.WorkerID, a.ClaimID); err != nil {
		return nil, err
	}
	return st.offers(ctx, rows, true)
}

// workerGone is the fault of a worker that is detached, or unknown to its tenant.
func workerGone() error {
	return fault.New(fault.Gone, jobrun.CodeWorkerGone, "this worker is detached or unknown: stop its runs and register again")
}

// claimQuery is the statement for claims of one tenant: for one claim of any
// queues, or for several of the same one.
func claimQuery(asks []jobrun.ClaimRequest, s jobrun.Settings, keyless bool) (query string, args []any) {
	a := &asks[0]
	bounds := postgres.Values{
		s.Int(jobrun.MaxRunsPerWorker),
		s.Seconds(jobrun.HeartbeatTTL).Microseconds(),
		s.Seconds(jobrun.AssignLease).Microseconds(),
		keyless, a.Start,
	}
	if len(a.Queues) != 1 {
		var queues *string
		if a.Queues != nil {
			queues = new(postgres.TextArray(a.Queues))
		}
		one := postgres.Values{a.TenantID, a.WorkerID, min(a.Slots, jobrun.MaxClaim), queues, a.ClaimID}
		return claimRuns.Text, claimRuns.Args(one, bounds)
	}
	var workers, claims, slots postgres.BinaryColumn
	for i := range asks {
		workers.UUID(asks[i].WorkerID)
		claims.Text(asks[i].ClaimID)
		slots.Int(int64(min(asks[i].Slots, jobrun.MaxClaim)))
	}
	several := postgres.Values{a.TenantID, workers.Parameter(), claims.Parameter(), slots.Parameter(), a.Queues[0]}
	return claimOfQueue.Text, claimOfQueue.Args(several, bounds)
}
