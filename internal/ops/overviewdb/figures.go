package overviewdb

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// figure is a count and its destination.
type figure struct {
	of   func(*overview.Overview) *overview.Count
	text string // statement that selects the rows to count
}

var figures = []figure{
	{func(o *overview.Overview) *overview.Count { return &o.Active },
		`SELECT FROM saga.saga_states s WHERE s.tenant_id = @tenant AND s.completed_at IS NULL`},
	{func(o *overview.Overview) *overview.Count { return &o.LettersOpen },
		`SELECT FROM dlq.dlq_messages m WHERE m.tenant_id = @tenant AND ` + dlqdb.OpenLetter},
	{func(o *overview.Overview) *overview.Count { return &o.GroupsNew },
		`SELECT FROM groups WHERE state = 'NEW'`},
	{func(o *overview.Overview) *overview.Count { return &o.GroupsRegressed },
		`SELECT FROM groups WHERE state = 'REGRESSED'`},
	{func(o *overview.Overview) *overview.Count { return &o.RedrivesHalted }, `SELECT FROM redrives
	 WHERE state = 'HALTED'`},
	{func(o *overview.Overview) *overview.Count { return &o.RedrivesWaiting },
		`SELECT FROM redrives WHERE state = 'AWAITING_APPROVAL'`},
	{func(o *overview.Overview) *overview.Count { return &o.RunsFailed }, `SELECT FROM failed`},
	{func(o *overview.Overview) *overview.Count { return &o.RunsSkipped },
		`SELECT FROM jobs.job_runs r
		 WHERE r.tenant_id = @tenant
		   AND r.phase = 'SKIPPED'
		   AND r.scheduled_for > statement_timestamp() - interval '48 hours'
		   AND r.finished_at > statement_timestamp() - interval '24 hours'`},
	{func(o *overview.Overview) *overview.Count { return &o.RunsLate }, `SELECT FROM waiting`},
	{func(o *overview.Overview) *overview.Count { return &o.RunsUnclaimable }, `SELECT FROM waiting WHERE NOT takeable`},
	{func(o *overview.Overview) *overview.Count { return &o.Paused },
		`SELECT FROM jobs.job_definitions d
		 WHERE d.tenant_id = @tenant AND d.paused_at IS NOT NULL AND d.deleted_at IS NULL`},
	{func(o *overview.Overview) *overview.Count { return &o.WorkersLost },
		`SELECT FROM jobs.workers w WHERE w.tenant_id = @tenant AND w.state = 'LOST'`},
	{func(o *overview.Overview) *overview.Count { return &o.WebhooksDisabled },
		`SELECT FROM saga.webhooks h
		 WHERE h.tenant_id = @tenant AND NOT h.enabled AND h.disabled_reason <> 'disabled by request'`},
	{func(o *overview.Overview) *overview.Count { return &o.WebhooksFailed },
		`SELECT FROM saga.webhooks h WHERE h.tenant_id = @tenant AND h.enabled AND h.failing_since IS NOT NULL`},
}

// allFigures counts everything, up to overview.Most+1. Its last columns are the current time, the
// time when the trail was last sealed, and whether there are job definitions.
var allFigures = func() *postgres.Statement {
	var list []string
	for _, f := range figures {
		list = append(list, `(SELECT count(*) FROM (`+f.text+` LIMIT %[1]d) AS few)`)
	}
	return postgres.Named(fmt.Sprintf(`
WITH groups AS MATERIALIZED (
	SELECT g.state
	  FROM dlq.dlq_groups g
	 WHERE g.tenant_id = @tenant
	 ORDER BY g.last_seen DESC, g.fingerprint DESC
	 LIMIT %[3]d
), redrives AS MATERIALIZED (
	SELECT r.state FROM dlq.dlq_redrives r WHERE r.tenant_id = @tenant ORDER BY r.created_at DESC, r.id DESC LIMIT %[3]d
), `+failedRuns+`, `+waitingRuns+`
SELECT `+strings.Join(list, ", ")+`, statement_timestamp(),
       (SELECT a.sealed_at FROM saga.audit_seals a WHERE a.tenant_id = @tenant ORDER BY a.seq DESC LIMIT 1),
       (SELECT count(*)
          FROM (SELECT FROM jobs.job_definitions d WHERE d.tenant_id = @tenant AND d.deleted_at IS NULL LIMIT 1) AS one)
 WHERE %[2]d > 0`, bounds...), postgres.Single("tenant"))
}()

// readFigures reads the counts into o, and returns 1 if there are job definitions.
func readFigures(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID,
	o *overview.Overview) (definitions int, err error) {
	var dest []any
	for _, f := range figures {
		dest = append(dest, &f.of(o).N)
	}
	var sealed sql.NullTime
	dest = append(dest, &o.At, &sealed, &definitions)
	row := tx.QueryRowContext(ctx, allFigures.Text, allFigures.Args(postgres.Values{tenant})...)
	if err := row.Scan(dest...); err != nil {
		return 0, err
	}
	for _, f := range figures {
		*f.of(o) = overview.CountOf(f.of(o).N)
	}
	o.At = o.At.UTC()
	if sealed.Valid {
		o.SealedAt = new(sealed.Time.UTC())
	}
	return definitions, nil
}

// flowOf counts the newest overview.Most rows of a table in the last overview.FlowOver, using an
// index that begins with the tenant and the time. It selects how many rows there are, how many of
// them have ended and failed and, if there may be more, the time of the oldest.
func flowOf(table, at, ended, failed string) string {
	return `
	SELECT count(*) AS n, count(*) FILTER (WHERE f.ended) AS ended, count(*) FILTER (WHERE f.failed) AS failed,
	       CASE WHEN count(*) = ` + strconv.Itoa(overview.Most) + ` THEN min(f.at) END AS since
	  FROM (SELECT x.` + at + ` AS at, ` + ended + ` AS ended, ` + failed + ` AS failed FROM ` + table + ` x
	         WHERE x.tenant_id = $1 AND x.` + at + ` > statement_timestamp() - interval '` +
		strconv.Itoa(int(overview.FlowOver.Seconds())) + ` seconds' ORDER BY x.` + at + ` DESC LIMIT ` +
		strconv.Itoa(overview.Most) + `) AS f`
}

// trafficNow: $1 is the tenant. One row each for sagas, letters and runs, in this order.
var trafficNow = `
SELECT f.n, f.ended, f.failed, extract(epoch FROM statement_timestamp() - f.since) FROM (
	SELECT 1 AS place, s.* FROM (` + flowOf("saga.saga_states", "created_at", "x.completed_at IS NOT NULL",
	"coalesce(x.ended_state <> "+strconv.Itoa(int(saga.Completed))+", false)") + `) AS s
	UNION ALL
	SELECT 2, m.* FROM (` + flowOf("dlq.dlq_messages", "created_at", "false", "false") + `) AS m
	UNION ALL
	SELECT 3, r.* FROM (` + flowOf("jobs.job_runs", "finished_at", "true", "x.phase IN ('FAILED', 'TIMED_OUT')") + `) AS r
) AS f ORDER BY f.place`

func readTraffic(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID) (t overview.Traffic, err error) {
	flows := []*overview.Flow{&t.Sagas, &t.Letters, &t.Runs}
	rows, err := tx.QueryContext(ctx, trafficNow, tenant)
	if err != nil {
		return t, err
	}
	err = postgres.EachRow(rows, func() error {
		f := flows[0]
		flows = flows[1:]
		var seconds sql.NullFloat64
		if err := rows.Scan(&f.N, &f.Ended, &f.Failed, &seconds); err != nil {
			return err
		}
		f.Over = overview.FlowOver
		if seconds.Valid {
			f.Over = time.Duration(seconds.Float64 * float64(time.Second))
		}
		return nil
	})
	return t, err
}

var slotTable = postgres.NewTable(
	postgres.Text("name", func(s *overview.Slot) *string { return &s.Definition }),
	postgres.Time("next_due_at", func(s *overview.Slot) *time.Time { return &s.DueAt }),
)

// nextSlots: $1 is the tenant. Paused definitions have no slots. The runs of the next minute
// already exist, and the definition's next slot is the one after them.
var nextSlots = `
SELECT ` + slotTable.Selected("n") + ` FROM (
	SELECT s.name, min(s.due) AS next_due_at FROM (
		(SELECT d.name, d.next_due_at AS due FROM jobs.job_definitions d
		  WHERE d.tenant_id = $1 AND d.next_due_at IS NOT NULL AND ` + hasSlots + `
		  ORDER BY d.next_due_at, d.name LIMIT 5)
		UNION ALL
		(SELECT d.name, r.scheduled_for FROM jobs.job_runs r JOIN jobs.job_definitions d ON d.id = r.definition_id
		  WHERE r.tenant_id = $1 AND r.phase = 'PENDING' AND r.trigger = 'TIME'
		    AND r.scheduled_for > statement_timestamp() AND ` + hasSlots + `
		  ORDER BY r.scheduled_for LIMIT 100)) AS s
	 GROUP BY s.name) AS n
 ORDER BY n.next_due_at, n.name LIMIT 5`

const hasSlots = `d.enabled AND d.paused_at IS NULL AND d.deleted_at IS NULL`

var nodeTable = postgres.NewTable(
	postgres.Text("node_name", func(n *overview.Node) *string { return &n.Name }),
	postgres.Bool("alive", func(n *overview.Node) *bool { return &n.Alive }),
	postgres.Time("lease_until", func(n *overview.Node) *time.Time { return &n.LeaseUntil }),
)

// aliveNodes selects the latest incarnation of each node name while it is alive, and for an hour
// afterwards.
var aliveNodes = `
SELECT ` + nodeTable.Selected("n") + ` FROM (
	SELECT DISTINCT ON (e.node_name) e.node_name, e.lease_until, e.lease_until > statement_timestamp() AS alive
	  FROM saga.engine_nodes e WHERE e.lease_until > statement_timestamp() - interval '1 hour'
	 ORDER BY e.node_name, e.lease_until DESC LIMIT 100) AS n ORDER BY n.node_name`

var leaderTable = postgres.NewTable(
	postgres.TextOrEmpty("node", func(l *overview.Leader) *string { return &l.Node }),
	postgres.Int("epoch", func(l *overview.Leader) *int64 { return &l.Epoch }),
	postgres.Bool("holds", func(l *overview.Leader) *bool { return &l.Holds }),
	postgres.Time("expires_at", func(l *overview.Leader) *time.Time { return &l.ExpiresAt }),
	postgres.TimeOrNil("swept_at", func(l *overview.Leader) **time.Time { return &l.SweptAt }),
)

var presentLeader = `
SELECT ` + leaderTable.Selected("l") + ` FROM (
	SELECT l.node, l.epoch, l.expires_at > clock_timestamp() AS holds, l.expires_at, l.swept_at
	  FROM jobs.leader l WHERE l.name = 'default' AND l.epoch > 0) AS l`
