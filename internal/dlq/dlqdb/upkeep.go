package dlqdb

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// Archive implements dlq.Queue. Its statement is a function in migration 0102.
func (st *Queue) Archive(ctx context.Context, limit int) (n int, err error) {
	n, moved, err := st.archive(ctx, limit)
	for tenant, n := range moved {
		operator.Took(ctx, tenant, "dead_letters_archived", n)
	}
	return n, postgres.Wrap("archive dead letters", err)
}

// ofThisTransaction counts, by tenant, the letters that this transaction has archived. It looks
// only at letters archived since the transaction began, using the index on their age.
const ofThisTransaction = `
SELECT m.tenant_id, count(*) FROM dlq.dlq_messages_archive m
 WHERE m.archived_at >= now() AND m.xmin = pg_current_xact_id()::xid GROUP BY m.tenant_id`

func (st *Queue) archive(ctx context.Context, limit int) (n int, moved map[uuid.UUID]int64, err error) {
	err = st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &n,
			`SELECT dlq.archive_batch(NULL, $1, $2)`, st.common.RetentionDays, limit); err != nil || n == 0 {
			return err
		}
		rows, err := tx.QueryContext(ctx, ofThisTransaction)
		if err != nil {
			return err
		}
		moved, err = postgres.ScanCounts(rows)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return n, moved, nil
}

// Purge implements dlq.Queue.
func (st *Queue) Purge(ctx context.Context, limit int) (n int, err error) {
	gone, err := st.db.ExecByTenant(ctx, purgeLetters, st.common.ArchiveDays, limit)
	for tenant, of := range gone {
		operator.Took(ctx, tenant, "dead_letters_deleted", of)
		n += int(of)
	}
	return n, postgres.Wrap("purge dead letters", err)
}

// purgeLetters does what dlq.purge_batch does, and also returns the tenants of the letters.
const purgeLetters = `
WITH doomed AS MATERIALIZED (
	SELECT m.id FROM dlq.dlq_messages_archive m
	  LEFT JOIN dlq.dlq_policies own ON own.tenant_id = m.tenant_id AND own.topic = m.original_topic
	  LEFT JOIN dlq.dlq_policies common ON common.tenant_id = m.tenant_id AND common.topic = ''
	 WHERE m.archived_at < clock_timestamp() - make_interval(days => coalesce(own.archive_days, common.archive_days,
	        $1::integer))
	 ORDER BY m.archived_at, m.id
	 LIMIT $2
	   FOR UPDATE OF m SKIP LOCKED
), attempts AS (
	DELETE FROM dlq.dlq_attempts a USING doomed d WHERE a.message_id = d.id
), revisions AS (
	DELETE FROM dlq.dlq_revisions r USING doomed d WHERE r.message_id = d.id
), gone AS (
	DELETE FROM dlq.dlq_messages_archive m USING doomed d WHERE m.id = d.id RETURNING m.tenant_id
)
SELECT g.tenant_id, count(*) FROM gone g GROUP BY g.tenant_id`

// expireArrivals keeps two days of arrivals: statistics look back one day (dlq.TopicStats), and the
// other day is for queries across midnight.
const expireArrivals = `
WITH gone AS (
	DELETE FROM dlq.dlq_arrivals WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM dlq.dlq_arrivals WHERE minute < now() - interval '2 days' LIMIT $1 FOR UPDATE SKIP LOCKED))
	RETURNING 1
)
SELECT count(*) FROM gone`

// Expire implements dlq.Queue.
func (st *Queue) Expire(ctx context.Context, limit int) (int, error) {
	return st.count(ctx, "expire arrivals of dead letters", expireArrivals, limit)
}

// count runs a statement that returns a number of rows.
func (st *Queue) count(ctx context.Context, what, query string, args ...any) (n int, err error) {
	err = st.db.Read.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, postgres.Wrap(what, err)
}

// leavingLetters counts the letters that dlq.archive_batch will archive within a week without an
// operator's decision (B8).
const leavingLetters = `
SELECT count(*) FROM dlq.dlq_messages m
  LEFT JOIN dlq.dlq_policies own ON own.tenant_id = m.tenant_id AND own.topic = m.original_topic
  LEFT JOIN dlq.dlq_policies common ON common.tenant_id = m.tenant_id AND common.topic = ''
 WHERE m.status = 'DEAD' AND m.resolution IN ('EXHAUSTED', 'POISON')
   AND m.terminal_at < clock_timestamp() + interval '7 days'
       - make_interval(days => 3 * coalesce(own.retention_days, common.retention_days, $1::integer))`

// Backlog implements dlq.Queue.
func (st *Queue) Backlog(ctx context.Context) (dlq.Backlog, error) {
	b := dlq.Backlog{ByStatus: map[dlq.Status]int64{}}
	var found []struct {
		Status dlq.Status `db:"status"`
		N      int64      `db:"n"`
		Oldest time.Time  `db:"oldest"`
	}
	err := st.db.Read.SelectContext(ctx, &found, `
		SELECT m.status, count(*) AS n, min(m.created_at) AS oldest FROM dlq.dlq_messages m
		 WHERE m.status`+postgres.Among(dlq.Blocking)+` OR m.status = '`+string(dlq.Dead)+`' AND `+notDiscarded+`
		 GROUP BY m.status`)
	for _, f := range found {
		b.ByStatus[f.Status] = f.N
		if f.Status == dlq.Pending {
			b.Oldest = f.Oldest.UTC()
		}
	}
	if err == nil {
		err = st.db.Read.GetContext(ctx, &b.Leaving, leavingLetters, st.common.RetentionDays)
	}
	return b, postgres.Wrap("count dead letters", err)
}

type policyKey struct {
	tenant uuid.UUID
	topic  string
}

type knownPolicy struct {
	dlq.Policy
	read time.Time
}

// How long policies are cached, and how many of them.
const (
	policyAge     = time.Second
	policiesKnown = 10_000
)

// Forget makes PolicyOf reread all policies of a tenant after one of them has changed, because the
// tenant's default applies to many topics.
func (st *Queue) Forget(tenant uuid.UUID) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.forgotten++
	for key := range st.policies {
		if key.tenant == tenant {
			delete(st.policies, key)
		}
	}
}

// PolicyOf implements dlq.Queue. The result may be up to a second old, but it includes every change
// made on this node (Letters.Telling).
func (st *Queue) PolicyOf(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error) {
	key := policyKey{tenant, topic}
	st.mu.Lock()
	known, ok := st.policies[key]
	forgotten := st.forgotten
	st.mu.Unlock()
	if ok && time.Since(known.read) < policyAge {
		return known.Policy, nil
	}
	p, found, all := st.common, false, false
	p.TenantID, p.Topic = tenant, topic
	err := st.db.ReadTenant(ctx, tenant, policyServing, func(rows *sql.Rows) (err error) {
		if !found {
			p, err = scanPolicy(rows, &all)
			found = true
		}
		return err
	}, topic)
	if err != nil {
		return dlq.Policy{}, fmt.Errorf("read the policy of a topic: %w", err)
	}
	switch {
	case found && all:
		p.Held = dlq.HeldByAll
	case p.AutoRetry:
	case !found:
		p.Held = dlq.HeldByConfiguration
	case p.Topic == topic:
		p.Held = dlq.HeldByTopic
	default:
		p.Held = dlq.HeldByDefault
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.policies) >= policiesKnown { // the number of topics is unbounded
		clear(st.policies)
	}
	if st.forgotten == forgotten { // otherwise it may have been read before the change
		st.policies[key] = knownPolicy{p, time.Now()}
	}
	return p, nil
}
