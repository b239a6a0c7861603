package overviewdb

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// causeTable is the result table of the statements that find causes. n is at most overview.Most+1.
var causeTable = postgres.NewTable(
	postgres.Text("kind", func(c *overview.Cause) *overview.Kind { return &c.Kind }),
	postgres.Text("name", func(c *overview.Cause) *string { return &c.Name }),
	postgres.TextOrEmpty("step", func(c *overview.Cause) *string { return &c.Step }),
	postgres.TextOrEmpty("code", func(c *overview.Cause) *string { return &c.Code }),
	postgres.TextOrEmpty("why", func(c *overview.Cause) *string { return &c.Why }),
	postgres.TextOrEmpty("text", func(c *overview.Cause) *string { return &c.Text }),
	postgres.TextOrEmpty("id", func(c *overview.Cause) *string { return &c.ID }),
	postgres.Int("n", func(c *overview.Cause) *int { return &c.Count.N }),
	postgres.Time("since", func(c *overview.Cause) *time.Time { return &c.Since }),
)

// causes builds a statement from one that selects the columns of causeTable as rows.
func causes(with string) *postgres.Statement {
	bounded := fmt.Sprintf(with+"\nSELECT "+causeTable.Selected("c")+" FROM causes c", bounds...)
	return postgres.Named(bounded, postgres.Single("tenant"))
}

// bounds are the arguments of the formats below: %[1]d is the limit for counting items plus one;
// %[2]d is the number of causes; %[3]d is how many items of a list are checked; %[4]d is the limit
// for counting the letters of a group plus one.
var bounds = []any{overview.Most + 1, overview.MostCauses, overview.Most, overview.MostLetters + 1}

// sagaCauses selects sagas that need attention, oldest first. All reasons that people wrote count
// as one cause. The index of a step differs between versions of a workflow, so sagas are grouped by
// the name of the step.
var sagaCauses = causes(`
WITH needing AS MATERIALIZED (
	SELECT s.id,
	       s.workflow_name,
	       s.workflow_version,
	       s.current_step,
	       s.error->>'code' AS code,
	       coalesce(s.completed_at, s.updated_at) AS since,
	       CASE WHEN s.attention_reason` +
	postgres.Among(slices.Concat(saga.EndReasons, saga.StuckReasons, saga.StopReasons)) + `
	            THEN s.attention_reason ELSE 'raised' END AS why
	  FROM saga.saga_states s WHERE s.tenant_id = @tenant AND s.needs_attention ORDER BY s.created_at, s.id LIMIT %[1]d
), grouped AS (
	SELECT workflow_name,
	       workflow_version,
	       current_step,
	       code,
	       why,
	       count(*) AS n,
	       min(since) AS since,
	       (array_agg(id ORDER BY since, id))[1] AS id
	  FROM needing GROUP BY workflow_name, workflow_version, current_step, code, why
), named AS (
	SELECT g.*, l.step_name
	  FROM grouped g LEFT JOIN LATERAL (SELECT l.step_name FROM saga.saga_step_logs l
	         WHERE l.saga_id = g.id AND l.step_index = g.current_step AND l.tenant_id = @tenant LIMIT 1) AS l ON true
), causes AS (
	SELECT 'sagas_need_attention' AS kind,
	       workflow_name AS name,
	       step_name AS step,
	       code,
	       why,
	       '' AS text,
	       (array_agg(id ORDER BY since, id))[1]::text AS id,
	       sum(n)::bigint AS n,
	       min(since) AS since
	  FROM named GROUP BY workflow_name, step_name, code, why
)`)

// groupCauses selects errors that are new or came back. It checks the groups that most recently
// received letters, and selects those with letters that need attention. Letters of sagas and of
// failed runs do not count, because these are causes themselves. Letters are counted only up to
// overview.MostLetters: counting a thousand in each of forty groups took half the time of the whole
// overview.
var groupCauses = causes(`
WITH recent AS MATERIALIZED (
	SELECT g.fingerprint, g.state, g.topic, g.error_type, g.message, g.first_seen, g.last_seen, g.sample_id
	  FROM dlq.dlq_groups g WHERE g.tenant_id = @tenant ORDER BY g.last_seen DESC, g.fingerprint DESC LIMIT %[3]d
), fresh AS (
	SELECT r.* FROM recent r WHERE r.state IN ('NEW', 'REGRESSED')
	   AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.tenant_id = @tenant AND m.id = r.sample_id
	                      AND (m.source = 'SAGA'
	                           OR m.source = 'JOB' AND r.last_seen > statement_timestamp() - interval '24 hours'))
	 ORDER BY r.last_seen DESC, r.fingerprint DESC LIMIT %[2]d * 2
), causes AS (
	SELECT CASE state WHEN 'NEW' THEN 'group_new' ELSE 'group_regressed' END AS kind,
	       topic AS name,
	       '' AS step,
	       error_type AS code,
	       '' AS why,
	       left(message, 200) AS text, fingerprint AS id, o.n, coalesce(f.oldest, first_seen) AS since
	  FROM fresh CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
	         SELECT FROM dlq.dlq_messages m
	          WHERE m.tenant_id = @tenant AND m.fingerprint = fresh.fingerprint AND ` + dlqdb.OpenLetter + `
	          LIMIT %[4]d) AS few) AS o
	 CROSS JOIN LATERAL (SELECT min(first.created_at) AS oldest
	         FROM (` + dlqdb.OldestOpen("m.tenant_id = @tenant AND m.fingerprint = fresh.fingerprint") + `) AS first) AS f
	 WHERE o.n > 0
)`)

var redriveCauses = causes(`
WITH recent AS MATERIALIZED (
	SELECT r.id, r.state, r.halt_reason, r.created_at, r.last_halted_at FROM dlq.dlq_redrives r
	 WHERE r.tenant_id = @tenant ORDER BY r.created_at DESC, r.id DESC LIMIT %[3]d
), causes AS (
	SELECT CASE state WHEN 'HALTED' THEN 'redrive_halted' ELSE 'redrive_awaiting_approval' END AS kind,
	       '' AS name,
	       '' AS step,
	       halt_reason AS code,
	       '' AS why,
	       '' AS text,
	       id::text AS id,
	       1 AS n,
	       coalesce(last_halted_at, created_at) AS since
	  FROM recent WHERE state IN ('HALTED', 'AWAITING_APPROVAL') LIMIT %[2]d
)`)

// failedRuns selects runs that gave up in the last day, except those that a saga or a retry takes
// care of. It finds them by slot and reads the newest slots of eight days, because a rerun may
// belong to a slot of last week.
var failedRuns = `failed AS MATERIALIZED (
	SELECT f.* FROM (
		(SELECT r.id, r.definition_name, r.error_code, r.finished_at, r.root_run_id, r.retry_number, r.saga_id
		   FROM jobs.job_runs r
		  WHERE r.tenant_id = @tenant AND r.phase = 'FAILED' AND r.scheduled_for > statement_timestamp() - interval '8 days'
		  ORDER BY r.scheduled_for DESC, r.id DESC LIMIT %[1]d)
		UNION ALL
		(SELECT r.id, r.definition_name, r.error_code, r.finished_at, r.root_run_id, r.retry_number, r.saga_id
		   FROM jobs.job_runs r
		  WHERE r.tenant_id = @tenant
		    AND r.phase = 'TIMED_OUT'
		    AND r.scheduled_for > statement_timestamp() - interval '8 days'
		  ORDER BY r.scheduled_for DESC, r.id DESC LIMIT %[1]d)) AS f
	 WHERE f.finished_at > statement_timestamp() - interval '24 hours' AND f.saga_id IS NULL
	   AND ` + strings.ReplaceAll(jobdb.NoneFollows("f"), "f.tenant_id", "@tenant") + `
)`

// waitingRuns selects runs that should have started, and whether an active worker would take them.
const waitingRuns = `waiting AS MATERIALIZED (
	SELECT r.*,
	       EXISTS (SELECT FROM jobs.workers w
	                WHERE w.tenant_id = @tenant AND w.state = 'ACTIVE' AND r.queue = ANY (w.queues)
	                       AND r.required_labels <@ w.labels
	                       AND (w.commands = '{}' OR r.command_name = ANY (w.commands))) AS takeable
	  FROM (SELECT r.id, r.queue, r.command_name, r.required_labels, greatest(r.scheduled_for, r.available_at) AS due
	          FROM jobs.job_runs r
	         WHERE r.tenant_id = @tenant
	           AND r.phase = 'PENDING'
	           AND NOT r.held
	           AND r.scheduled_for < statement_timestamp() - interval '1 minute'
	           AND r.available_at < statement_timestamp() - interval '1 minute' -- a retry has the slot of what it repeats
	         ORDER BY r.scheduled_for, r.id LIMIT %[1]d) AS r
	 WHERE r.due < statement_timestamp() - interval '1 minute'
	   AND NOT EXISTS (SELECT FROM jobs.queues q WHERE q.tenant_id = @tenant AND q.name = r.queue AND q.state = 'HELD')
)`

var runCauses = causes(`
WITH ` + failedRuns + `, ` + waitingRuns + `, causes AS (
	(SELECT 'runs_failed' AS kind, definition_name AS name, '' AS step, error_code AS code, '' AS why, '' AS text,
	        (array_agg(id ORDER BY finished_at DESC, id))[1]::text AS id, count(*) AS n, min(finished_at) AS since
	   FROM failed GROUP BY definition_name, error_code ORDER BY count(*) DESC, definition_name LIMIT %[2]d)
	UNION ALL
	(SELECT CASE WHEN takeable THEN 'runs_late' ELSE 'queue_without_worker' END, queue, '', '', '', '',
	        (array_agg(id ORDER BY due, id))[1]::text, count(*), min(due)
	   FROM waiting GROUP BY takeable, queue ORDER BY count(*) DESC, queue LIMIT %[2]d)
)`)

var workerCauses = causes(`
WITH causes AS (
	SELECT 'worker_lost' AS kind,
	       coalesce(nullif(w.name, ''), w.node) AS name,
	       '' AS step,
	       '' AS code,
	       '' AS why,
	       '' AS text,
	       w.id::text AS id, 1 AS n, coalesce(w.lost_at, w.heartbeat_at) AS since
	  FROM jobs.workers w WHERE w.tenant_id = @tenant AND w.state = 'LOST' ORDER BY w.registered_at DESC, w.id LIMIT %[2]d
)`)

// webhookCauses selects webhooks that Skald has disabled or that fail. A webhook is identified by
// its host.
var webhookCauses = causes(`
WITH causes AS (
	SELECT CASE WHEN h.enabled THEN 'webhook_failing' ELSE 'webhook_disabled' END AS kind,
	       coalesce(substring(h.url FROM '^[a-z]+://(?:[^/@]*@)?([^/?#]+)'), '') AS name, '' AS step,
	       CASE WHEN h.enabled THEN '' ELSE left(h.disabled_reason, 100) END AS code,
	       '' AS why,
	       '' AS text,
	       h.id::text AS id,
	       1 AS n,
	       coalesce(h.disabled_at, h.failing_since, h.updated_at) AS since
	  FROM saga.webhooks h
	 WHERE h.tenant_id = @tenant
	   AND (NOT h.enabled AND h.disabled_reason <> 'disabled by request' OR h.enabled AND h.failing_since IS NOT NULL)
	 ORDER BY h.id LIMIT %[2]d
)`)

// participantCauses selects participants on hold, starting with those held longest. n is the number
// of waiting sagas.
var participantCauses = causes(`
WITH held AS MATERIALIZED (
	SELECT p.name, p.reason, p.held_by, p.since FROM saga.participants p
	 WHERE p.tenant_id = @tenant AND p.state = 'HELD' ORDER BY p.since, p.name LIMIT %[2]d
), causes AS (
	SELECT 'participant_held' AS kind,
	       h.name,
	       '' AS step,
	       '' AS code,
	       CASE WHEN h.held_by = '' THEN '' ELSE 'person' END AS why,
	       left(h.reason, 200) AS text,
	       h.name AS id,
	       (SELECT count(*) FROM (SELECT FROM saga.parked w
	         WHERE w.tenant_id = @tenant AND w.participant = h.name AND w.granted_at IS NULL LIMIT %[1]d) AS few) AS n,
	       h.since
	  FROM held h
)`)

// queueCauses selects queues that people have put on hold, starting with those held longest. n is
// the number of waiting runs.
var queueCauses = causes(`
WITH held AS MATERIALIZED (
	SELECT q.name, q.reason, q.since FROM jobs.queues q
	 WHERE q.tenant_id = @tenant AND q.state = 'HELD' ORDER BY q.since, q.name LIMIT %[2]d
), causes AS (
	SELECT 'queue_held' AS kind,
	       h.name,
	       '' AS step,
	       '' AS code,
	       '' AS why,
	       left(h.reason, 200) AS text,
	       h.name AS id,
	       (SELECT count(*) FROM (SELECT FROM jobs.job_runs r
	         WHERE r.tenant_id = @tenant AND r.queue = h.name AND r.phase` + jobdb.Claimable + `
	           AND r.admitted_at IS NOT NULL AND NOT r.held LIMIT %[1]d) AS few) AS n,
	       h.since
	  FROM held h
)`)
