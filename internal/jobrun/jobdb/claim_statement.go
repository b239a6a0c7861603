package jobdb

import (
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// claimable selects the runs of queue q that worker w may get, in the order of
// idx_job_runs_claimable, which the lateral subqueries preserve. After a run is locked, the
// statement checks again whether it is held, so that no run is claimed once its saga is suspended.
// With @keyless, runs with a concurrency key are omitted.
var claimable = `
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM jobs.job_runs r
	 WHERE r.tenant_id = @tenant
	   AND r.queue = q.queue
	   AND r.phase` + phaseMovableTo(jobrun.Assigned, jobrun.Worker) + `
	   AND r.admitted_at IS NOT NULL
	   AND NOT r.held
	   AND r.cancel_requested_at IS NULL
	   AND r.required_labels <@ q.labels
	   AND (q.commands = '{}' OR r.command_name = ANY (q.commands))
	   AND (r.concurrency_key IS NULL OR NOT @keyless AND (SELECT o.id FROM jobs.job_runs o
	          WHERE o.tenant_id = @tenant
	            AND o.concurrency_key = r.concurrency_key
	            AND o.id <> r.id
	            AND o.phase IN ('HELD', 'ORPHANED')
	          LIMIT 1) IS NULL)
	 ORDER BY ` + claimOrder

// isOpen is the condition that a queue is not held.
func isOpen(queue string) string {
	return `NOT EXISTS (SELECT FROM jobs.queues h
	 WHERE h.tenant_id = @tenant AND h.name = ` + queue + ` AND h.state = 'HELD')`
}

// mayClaim is the condition that worker w may get runs. @fresh is the longest permitted silence of
// a worker, in microseconds.
func mayClaim(id string) string {
	return `w.tenant_id = @tenant
	  AND w.id = ` + id + `
	  AND w.state = 'ACTIVE'
	  AND w.heartbeat_at > clock_timestamp() - @fresh * interval '1 microsecond'`
}

// roomOf is the number of runs that worker w may get if it requests the given number; @max_runs is
// the limit for all workers.
func roomOf(id, asks string) string {
	return `least(` + asks + `, least(w.max_runs, @max_runs::bigint) -
	       (SELECT count(*) FROM jobs.job_runs h WHERE h.assigned_worker_id = ` + id + ` AND h.phase = 'HELD')) AS room`
}

// unanswered is the condition that a claim has not been answered yet.
func unanswered(k, worker, claim string) string {
	return `NOT EXISTS (SELECT FROM jobs.claims ` + k + `
	                     WHERE ` + k + `.worker_id = ` + worker + ` AND ` + k + `.claim_id = ` + claim + `)`
}

// claimRuns assigns runs to a worker under the current epoch. For several queues it first reads how
// many of the first runs each queue contributes, and then locks only those, so that other workers
// can get the rest.
//
// A repeated claim waits for the first one if that is still in progress. Otherwise it would lock
// different runs, or find fewer runs than the first claim, or none. Its snapshot is older than the
// first claim's result, so it gets nothing or violates the key of jobs.claims.
var claimRuns = postgres.Named(claimEpoch+`, alone AS MATERIALIZED (
	SELECT `+lockClaim("@worker::uuid", "@claim::text")+`
), w AS MATERIALIZED (
	SELECT w.id, @claim AS claim_id, w.labels, w.commands, w.queues, `+roomOf("@worker", "@slots::bigint")+`
	  FROM jobs.workers w
	 WHERE `+mayClaim("@worker")+`
	   AND EXISTS (SELECT FROM e) AND EXISTS (SELECT FROM alone) AND `+unanswered("k", "@worker", "@claim")+`
), q AS MATERIALIZED (
	SELECT DISTINCT q.queue, w.labels, w.commands, w.room
	  FROM w
	 CROSS JOIN unnest(w.queues) AS q (queue)
	 WHERE w.room > 0 AND (@queues::text[] IS NULL OR q.queue = ANY (@queues::text[])) AND `+isOpen("q.queue")+`
), front AS MATERIALIZED (
	SELECT q.queue FROM q CROSS JOIN LATERAL (`+claimable+` LIMIT q.room) AS r
	 WHERE (SELECT count(*) FROM q) > 1
	 ORDER BY `+claimOrder+` LIMIT (SELECT w.room FROM w)
), places AS MATERIALIZED (
	SELECT q.queue, q.labels, q.commands, q.room FROM q WHERE (SELECT count(*) FROM q) = 1
	UNION ALL
	SELECT q.queue, q.labels, q.commands, least(q.room, (SELECT count(*) FROM front f WHERE f.queue = q.queue))
	  FROM q
	 WHERE (SELECT count(*) FROM q) > 1
), locked AS MATERIALIZED (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM places AS q CROSS JOIN LATERAL (`+claimable+` LIMIT q.room FOR NO KEY UPDATE OF r SKIP LOCKED) AS r
), chosen AS MATERIALIZED (
	SELECT l.id, @worker::uuid AS worker FROM (`+firstOfKeys+`) AS l
	 WHERE l.concurrency_key IS NULL OR l.nth = 1
)`+assignChosen, postgres.Single("tenant", "worker", "slots", "queues", "claim"), claimBounds)

// claimBounds are the last parameters of every claim statement.
var claimBounds = postgres.Single("max_runs", "fresh", "lease", "keyless", "start")

// claimEpoch begins every claim statement. Unless the runs are started immediately (@start), the
// commit is asynchronous. If a crash undoes the assignment, the worker's token is unknown and its
// start is refused; workers do not execute a run before the response to the start (J-26).
// Committing the start also makes the preceding assignment durable.
const claimEpoch = `
WITH e AS MATERIALIZED (
	SELECT l.epoch, CASE WHEN NOT @start::boolean THEN set_config('synchronous_commit', 'off', true) END AS durable
	  FROM jobs.leader l WHERE l.name = 'default' AND l.expires_at > clock_timestamp()
)`

// lockClaim prevents concurrent use of a claim id until the transaction ends.
func lockClaim(worker, claim string) string {
	return "CASE WHEN " + claim + " <> '' THEN pg_advisory_xact_lock(hashtextextended(" + worker + "::text || ' ' || " + claim + ", 0)) END"
}

// firstOfKeys numbers the runs of each concurrency key, because a claim takes only one run per key.
// If a concurrent claim takes another run of the key, that violates idx_job_runs_concurrency_key.
const firstOfKeys = `
	SELECT l.id,
	       l.priority,
	       l.scheduled_for,
	       l.concurrency_key,
	       row_number() OVER (PARTITION BY l.concurrency_key ORDER BY l.priority DESC, l.scheduled_for, l.id) AS nth
	  FROM locked l`

// assignChosen ends every claim statement. It assigns each run in chosen to its worker in w, and
// with @start it also starts the run. These are two transitions (J-06, J-07), of which the row
// shows only the second, as a saga's row does (decision 0167).
var assignChosen = `, assigned AS (
	UPDATE jobs.job_runs r
	   SET state = CASE WHEN @start::boolean THEN 'RUNNING' ELSE 'ASSIGNED' END,
	       version = r.version + CASE WHEN @start::boolean THEN 2 ELSE 1 END,
	       attempt = r.attempt + 1,
	       assigned_worker_id = c.worker,
	       assigned_at = clock_timestamp(),
	       lease_token = gen_random_uuid(),
	       lease_expires_at = clock_timestamp() + @lease * interval '1 microsecond',
	       leader_epoch = e.epoch,
	       fencing_seq = nextval('jobs.fencing'),
	       started_at = CASE WHEN @start::boolean THEN clock_timestamp() END,
	       continuation_state = 'NONE',
	       continuation_check_started_at = NULL,
	       continuation_check_deadline_at = NULL, progress = NULL, updated_at = clock_timestamp()
	  FROM chosen c CROSS JOIN e
	 WHERE r.id = c.id AND r.tenant_id = @tenant
	RETURNING ` + RunColumns + `
), kept AS (
	INSERT INTO jobs.claims (worker_id, claim_id, tenant_id, run_ids, created_at)
	SELECT w.id, w.claim_id, @tenant, array_agg(r.id), clock_timestamp()
	  FROM w
	  JOIN assigned r ON r.assigned_worker_id = w.id
	 WHERE w.claim_id <> ''
	 GROUP BY w.id, w.claim_id
)
SELECT ` + RunColumns + ` FROM assigned r`

// claimOrder is the order in which runs are claimed, the same as in jobrun.CompareTurns.
const claimOrder = `r.priority DESC, r.scheduled_for, r.id`

// claimOfQueue assigns runs of one queue to the workers that have the same labels and commands as
// the first worker with room; the others get nothing. The free slots of these workers are numbered
// in turn, and the first runs of the queue are assigned in that order.
var claimOfQueue = postgres.Named(claimEpoch+`, alone AS MATERIALIZED (
	SELECT `+lockClaim("k.worker", "k.claim_id")+`
	  FROM unnest((SELECT @workers::uuid[]), @claims::text[]) AS k (worker, claim_id)
), w AS MATERIALIZED (
	SELECT w.id, k.claim_id, w.labels, w.commands, `+roomOf("k.worker", "k.slots")+`
	  FROM unnest((SELECT @workers::uuid[]), @claims::text[], @slots::bigint[]) AS k (worker, claim_id, slots)
	 CROSS JOIN LATERAL (
		SELECT w.id, w.labels, w.commands, w.max_runs FROM jobs.workers w
		 WHERE `+mayClaim("k.worker")+`
		   AND @queue = ANY (w.queues) OFFSET 0) AS w
	 WHERE EXISTS (SELECT FROM e) AND (SELECT count(*) FROM alone) > 0 AND `+unanswered("c", "k.worker", "k.claim_id")+`
), q AS MATERIALIZED (
	SELECT @queue AS queue, w.labels, w.commands FROM w WHERE w.room > 0 AND `+isOpen("@queue")+` LIMIT 1
), seats AS MATERIALIZED (
	SELECT array_agg(w.id ORDER BY s.n, w.id) AS workers, count(*) AS n
	  FROM q CROSS JOIN w CROSS JOIN LATERAL generate_series(1, w.room) AS s (n)
	 WHERE w.labels = q.labels AND w.commands = q.commands
), locked AS MATERIALIZED (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM q CROSS JOIN LATERAL (`+claimable+` LIMIT (SELECT s.n FROM seats s) FOR NO KEY UPDATE OF r SKIP LOCKED) AS r
), numbered AS MATERIALIZED (
	SELECT l.id, row_number() OVER (ORDER BY l.priority DESC, l.scheduled_for, l.id) AS seat FROM (`+firstOfKeys+`) AS l
	 WHERE l.concurrency_key IS NULL OR l.nth = 1
), chosen AS MATERIALIZED (
	SELECT n.id, s.workers[n.seat] AS worker FROM numbered n CROSS JOIN seats s
)`+assignChosen, postgres.Single("tenant", "workers", "claims", "slots", "queue"), claimBounds)
