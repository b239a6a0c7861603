package dlqdb

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/rest/page"
)

// How many groups the statistics of a topic have, and among how many of those
// that have received most.
const (
	topGroups      = 5
	topGroupsAmong = 20
)

// letterTopics finds the topics after one by stepping from each to the next in
// the index.
const letterTopics = `
WITH RECURSIVE t (topic) AS (
	(SELECT m.original_topic FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.original_topic > $2 ORDER BY m.original_topic LIMIT 1)
	UNION ALL
	SELECT (SELECT m.original_topic FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.original_topic > t.topic ORDER BY m.original_topic LIMIT 1)
	  FROM t WHERE t.topic IS NOT NULL
)
SELECT t.topic FROM t WHERE t.topic IS NOT NULL LIMIT $3`

// Topics implements dlq.Overview.
func (st *Letters) Topics(ctx context.Context, tenant uuid.UUID,
	p page.Request[string]) (found page.Of[dlq.TopicStats], err error) {
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		var topics []string
		if err := tx.SelectContext(ctx, &topics, letterTopics, tenant, p.Start(), p.Limit+1); err != nil {
			return err
		}
		names := page.Cut(p, topics)
		found.More = names.More
		found.Items, err = topicStats(ctx, tx, tenant, names.Items)
		return err
	})
	return found, postgres.Outage("list the topics of dead letters", err)
}

// Topic implements dlq.Overview.
func (st *Letters) Topic(ctx context.Context, tenant uuid.UUID, topic string) (dlq.TopicStats, error) {
	var out dlq.TopicStats
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		policy, err := st.policy(ctx, tx, tenant, topic)
		if err != nil {
			return err
		}
		found, err := topicStats(ctx, tx, tenant, []string{topic})
		if err != nil {
			return err
		}
		if out = found[0]; len(out.Counts) == 0 && policy.Version == 0 {
			return fault.New(fault.NotFound, dlq.CodeTopicNotFound, "topic has no dead letters and no policy")
		}
		if out.TopGroups, err = largestGroups(ctx, tx, tenant, topic); err != nil {
			return err
		}
		var open int64
		var unknown bool
		var now time.Time
		if err := tx.QueryRowContext(ctx, `
			SELECT (SELECT count(*) FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.original_topic = $2 AND `+openLetter+`),
			       EXISTS (SELECT FROM dlq.dlq_groups g WHERE g.tenant_id = $1 AND g.topic = $2 AND g.state = 'NEW'), statement_timestamp()`,
			tenant, topic).Scan(&open, &unknown, &now); err != nil {
			return err
		}
		out.Alerts = policy.Alert.Exceeded(open, &out, unknown, now)
		return nil
	})
	return out, postgres.Outage("read the statistics of a topic", err)
}

// topicStats counts the letters of topics, in their order.
func topicStats(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, topics []string) ([]dlq.TopicStats, error) {
	out := make([]dlq.TopicStats, len(topics))
	at := make(map[string]*dlq.TopicStats, len(topics))
	for i, topic := range topics {
		out[i] = dlq.TopicStats{Topic: topic, Counts: map[dlq.Status]int64{}}
		at[topic] = &out[i]
	}
	rows, err := tx.QueryContext(ctx, `
		SELECT m.original_topic, m.status, count(*) FROM dlq.dlq_messages m
		 WHERE m.tenant_id = $1 AND m.original_topic = ANY($2) GROUP BY m.original_topic, m.status`, tenant, postgres.ArrayOf(topics))
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	if err := postgres.EachRow(rows, func() error { return scanCount(rows, at) }); err != nil {
		return nil, err
	}
	// The oldest of each status stands first in the index.
	rows, err = tx.QueryContext(ctx, `
		SELECT t.topic, (SELECT min(o.created_at) FROM (
			(SELECT m.created_at FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.original_topic = t.topic AND m.status = 'PENDING' ORDER BY m.created_at LIMIT 1)
			UNION ALL
			(SELECT m.created_at FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.original_topic = t.topic AND m.status = 'RETRYING' ORDER BY m.created_at LIMIT 1)
			UNION ALL
			(SELECT m.created_at FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.original_topic = t.topic AND m.status = 'DEAD' AND m.resolution <> 'DISCARDED'
			  ORDER BY m.created_at LIMIT 1)) AS o),
		       coalesce(sum(a.received) FILTER (WHERE a.minute > statement_timestamp() - interval '5 minutes'), 0),
		       coalesce(sum(a.received) FILTER (WHERE a.minute > statement_timestamp() - interval '1 hour'), 0),
		       coalesce(sum(a.received), 0)
		  FROM unnest($2::text[]) AS t (topic)
		  LEFT JOIN dlq.dlq_arrivals a ON a.tenant_id = $1 AND a.topic = t.topic AND a.minute > statement_timestamp() - interval '24 hours'
		 GROUP BY t.topic`, tenant, postgres.ArrayOf(topics))
	if err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	return out, postgres.EachRow(rows, func() error {
		var topic string
		var oldest *time.Time
		var last [3]int64
		if err := rows.Scan(&topic, &oldest, &last[0], &last[1], &last[2]); err != nil {
			return err
		}
		postgres.UTC(oldest)
		s := at[topic]
		s.Oldest, s.Last5m, s.Last1h, s.Last24h = oldest, last[0], last[1], last[2]
		return nil
	})
}

func scanCount(rows *sql.Rows, at map[string]*dlq.TopicStats) error {
	var topic string
	var status dlq.Status
	var n int64
	if err := rows.Scan(&topic, &status, &n); err != nil {
		return err
	}
	at[topic].Counts[status] = n
	return nil
}

// largestGroups returns the groups of a topic that have most open letters, of
// those that have received most.
func largestGroups(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, topic string) ([]dlq.Group, error) {
	query := selectGroups(`g.tenant_id = $1 AND g.topic = $2`, fmt.Sprintf(" ORDER BY g.received DESC, g.fingerprint LIMIT %d", topGroupsAmong), maxOpenListed)
	groups, err := queryGroups(ctx, tx, maxOpenListed, query, tenant, topic)
	slices.SortStableFunc(groups, func(a, b dlq.Group) int { return cmp.Compare(b.Open, a.Open) })
	return groups[:min(len(groups), topGroups)], err
}

// Stats implements dlq.Overview.
func (st *Letters) Stats(ctx context.Context, tenant uuid.UUID) ([]dlq.TopicStats, error) {
	var out []dlq.TopicStats
	err := st.db.ListTenant(ctx, tenant, `
		SELECT m.original_topic, m.status, count(*) FROM dlq.dlq_messages m WHERE m.tenant_id = $1
		 GROUP BY m.original_topic, m.status ORDER BY m.original_topic, m.status`, func(rows *sql.Rows) error {
		var topic string
		var status dlq.Status
		var n int64
		if err := rows.Scan(&topic, &status, &n); err != nil {
			return err
		}
		if len(out) == 0 || out[len(out)-1].Topic != topic {
			out = append(out, dlq.TopicStats{Topic: topic, Counts: map[dlq.Status]int64{}})
		}
		out[len(out)-1].Counts[status] = n
		return nil
	}, tenant)
	return out, postgres.Outage("count dead letters by topic", err)
}

// Policy implements dlq.Overview.
func (st *Letters) Policy(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error) {
	var p dlq.Policy
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		p, err = st.policy(ctx, tx, tenant, topic)
		return err
	})
	return p, postgres.Outage("read the policy of a topic", err)
}
