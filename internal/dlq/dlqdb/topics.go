package dlqdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// The number of groups in the statistics of a topic, and the number of groups with most arrivals
// from which they are chosen.
const (
	topGroups      = 5
	topGroupsAmong = 20
)

// letterTopics finds the topics after $2 by stepping through the index from one topic to the next.
// It returns topics that begin with $4 or, unless $5 is set, that equal $4.
const letterTopics = `
WITH RECURSIVE t (topic) AS (
	(SELECT m.original_topic
	   FROM dlq.dlq_messages m
	  WHERE m.tenant_id = $1 AND m.original_topic > $2 AND m.original_topic >= $4
	  ORDER BY m.original_topic
	  LIMIT 1)
	UNION ALL
	SELECT (SELECT m.original_topic
	          FROM dlq.dlq_messages m
	         WHERE m.tenant_id = $1 AND m.original_topic > t.topic
	         ORDER BY m.original_topic
	         LIMIT 1)
	  FROM t WHERE $5 AND starts_with(t.topic, $4)
)
SELECT t.topic FROM t WHERE CASE WHEN $5 THEN starts_with(t.topic, $4) ELSE t.topic = $4 END LIMIT $3`

// topicCount is the number of letters of a topic in a status.
type topicCount struct {
	Topic  string     `db:"topic"`
	Status dlq.Status `db:"status"`
	N      int64      `db:"n"`
}

// Topics implements dlq.Overview.
func (st *Letters) Topics(ctx context.Context, tenant uuid.UUID,
	topic string, p page.Request[string], most int64) (found page.Of[dlq.TopicStats], err error) {
	prefix, begins := strings.CutSuffix(topic, "*")
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		var topics []string
		if err := tx.SelectContext(ctx, &topics, letterTopics, tenant, p.Start(), p.Limit+1, prefix,
			begins || topic == ""); err != nil {
			return err
		}
		names := page.Cut(p, topics)
		found.More = names.More
		found.Items, err = topicStats(ctx, tx, tenant, names.Items, most)
		return err
	})
	return found, postgres.Wrap("list the topics of dead letters", err)
}

// Topic implements dlq.Overview.
func (st *Letters) Topic(ctx context.Context, tenant uuid.UUID, topic string) (dlq.TopicStats, error) {
	var out dlq.TopicStats
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		policy, err := st.policy(ctx, tx, tenant, topic)
		if err != nil {
			return err
		}
		found, err := topicStats(ctx, tx, tenant, []string{topic}, 0)
		if err != nil {
			return err
		}
		if out = found[0]; len(out.Counts) == 0 && policy.Version == 0 {
			return fault.New(fault.NotFound, dlq.CodeTopicNotFound, "the topic has no dead letters and no policy")
		}
		if out.TopGroups, err = largestGroups(ctx, tx, tenant, topic); err != nil {
			return err
		}
		var now struct {
			Open    int64     `db:"open"`
			Unknown bool      `db:"unknown"`
			At      time.Time `db:"at"`
		}
		if err := tx.GetContext(ctx, &now, `
			SELECT (SELECT count(*)
			          FROM dlq.dlq_messages m
			         WHERE m.tenant_id = $1 AND m.original_topic = $2 AND `+openLetter+`) AS open,
			       EXISTS (SELECT FROM dlq.dlq_groups g WHERE g.tenant_id = $1 AND g.topic = $2 AND g.state = 'NEW') AS unknown,
			       statement_timestamp() AS at`,
			tenant, topic); err != nil {
			return err
		}
		out.Alerts = policy.Alert.Exceeded(now.Open, &out, now.Unknown, now.At)
		return nil
	})
	return out, postgres.Wrap("read the statistics of a topic", err)
}

// OldestOpen returns a query for the arrival time of the oldest open letter m in each status. This
// is the first entry in an index on the columns that of restricts, followed by the status and the
// time.
func OldestOpen(of string) string {
	var each []string
	for _, s := range dlq.OpenStatuses {
		status := "m.status" + postgres.Among([]dlq.Status{s})
		if s == dlq.Discarded.Status() {
			status += " AND " + notDiscarded
		}
		each = append(each, `(SELECT m.created_at FROM dlq.dlq_messages m
			  WHERE `+of+` AND `+status+` ORDER BY m.created_at LIMIT 1)`)
	}
	return strings.Join(each, " UNION ALL ")
}

// oldestOpen applies OldestOpen to the topic of a row t.
var oldestOpen = OldestOpen("m.tenant_id = $1 AND m.original_topic = t.topic")

// countLetters counts the letters of topics by status. countFewLetters counts each status of each
// topic only up to $3, with an index scan that stops there.
const countLetters = `
	SELECT m.original_topic AS topic, m.status, count(*) AS n FROM dlq.dlq_messages m
	 WHERE m.tenant_id = $1 AND m.original_topic = ANY($2) GROUP BY m.original_topic, m.status`

var countFewLetters = `
	SELECT t.topic, s.status, few.n
	  FROM unnest($2::text[]) AS t (topic) CROSS JOIN unnest(ARRAY[` + postgres.Literals(dlq.Statuses) + `]) AS s (status)
	 CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM dlq.dlq_messages m
	       WHERE m.tenant_id = $1 AND m.original_topic = t.topic AND m.status = s.status LIMIT $3) AS m) AS few
	 WHERE few.n > 0`

// topicStats counts the letters of topics, in the order of the topics. Each status is counted up to
// most; 0 means no limit.
func topicStats(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, topics []string, most int64) ([]dlq.TopicStats,
	error) {
	out := make([]dlq.TopicStats, len(topics))
	at := make(map[string]*dlq.TopicStats, len(topics))
	for i, topic := range topics {
		out[i] = dlq.TopicStats{Topic: topic, Counts: map[dlq.Status]int64{}}
		at[topic] = &out[i]
	}
	var counts []topicCount
	query, args := countLetters, []any{tenant, postgres.ArrayOf(topics)}
	if most > 0 {
		query, args = countFewLetters, append(args, most+1)
	}
	if err := tx.SelectContext(ctx, &counts, query, args...); err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	for _, c := range counts {
		t := at[c.Topic]
		if most > 0 && c.N > most {
			c.N, t.Capped = most, append(t.Capped, c.Status)
		}
		t.Counts[c.Status] = c.N
	}
	var arrived []struct {
		Topic   string     `db:"topic"`
		Oldest  *time.Time `db:"oldest"`
		Last5m  int64      `db:"last_5m"`
		Last1h  int64      `db:"last_1h"`
		Last24h int64      `db:"last_24h"`
	}
	err := tx.SelectContext(ctx, &arrived, `
		SELECT t.topic, (SELECT min(o.created_at) FROM (`+oldestOpen+`) AS o) AS oldest,
		       coalesce(sum(a.received) FILTER (WHERE a.minute > statement_timestamp() - interval '5 minutes'), 0) AS last_5m,
		       coalesce(sum(a.received) FILTER (WHERE a.minute > statement_timestamp() - interval '1 hour'), 0) AS last_1h,
		       coalesce(sum(a.received), 0) AS last_24h
		  FROM unnest($2::text[]) AS t (topic)
		  LEFT JOIN dlq.dlq_arrivals a ON a.tenant_id = $1
		    AND a.topic = t.topic
		    AND a.minute > statement_timestamp() - interval '24 hours'
		 GROUP BY t.topic`, tenant, postgres.ArrayOf(topics))
	if err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	for _, a := range arrived {
		postgres.UTC(a.Oldest)
		s := at[a.Topic]
		s.Oldest, s.Last5m, s.Last1h, s.Last24h = a.Oldest, a.Last5m, a.Last1h, a.Last24h
	}
	var hourly []struct {
		Topic string `db:"topic"`
		Ago   int    `db:"ago"`
		N     int64  `db:"n"`
	}
	err = tx.SelectContext(ctx, &hourly, `
		SELECT a.topic,
		       least(23, greatest(0, floor(extract(epoch FROM statement_timestamp() - a.minute) / 3600)))::int AS ago,
		       sum(a.received)::bigint AS n
		  FROM dlq.dlq_arrivals a
		 WHERE a.tenant_id = $1 AND a.topic = ANY($2) AND a.minute > statement_timestamp() - interval '24 hours'
		 GROUP BY 1, 2`,
		tenant, postgres.ArrayOf(topics))
	if err != nil {
		return nil, fmt.Errorf("read arrivals by hour: %w", err)
	}
	for _, h := range hourly {
		at[h.Topic].Hourly[len(at[h.Topic].Hourly)-1-h.Ago] = h.N
	}
	return out, nil
}

// largestGroups returns those groups of a topic that have the most open letters, chosen among the
// groups with the most arrivals.
func largestGroups(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, topic string) ([]dlq.Group, error) {
	query := selectGroups(`g.tenant_id = $1
	  AND g.topic = $2`, fmt.Sprintf(" ORDER BY g.received DESC, g.fingerprint LIMIT %d", topGroupsAmong), maxOpenListed)
	groups, err := queryGroups(ctx, tx, maxOpenListed, query, tenant, topic)
	slices.SortStableFunc(groups, func(a, b dlq.Group) int { return cmp.Compare(b.Open, a.Open) })
	return groups[:min(len(groups), topGroups)], err
}

// Stats implements dlq.Overview.
func (st *Letters) Stats(ctx context.Context, tenant uuid.UUID) ([]dlq.TopicStats, error) {
	var out []dlq.TopicStats
	var counts []topicCount
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		return tx.SelectContext(ctx, &counts, `
			SELECT m.original_topic AS topic, m.status, count(*) AS n FROM dlq.dlq_messages m WHERE m.tenant_id = $1
			 GROUP BY m.original_topic, m.status ORDER BY m.original_topic, m.status`, tenant)
	})
	for _, c := range counts {
		if len(out) == 0 || out[len(out)-1].Topic != c.Topic {
			out = append(out, dlq.TopicStats{Topic: c.Topic, Counts: map[dlq.Status]int64{}})
		}
		out[len(out)-1].Counts[c.Status] = c.N
	}
	return out, postgres.Wrap("count dead letters by topic", err)
}

// Policy implements dlq.Overview.
func (st *Letters) Policy(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error) {
	var p dlq.Policy
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		p, err = st.policy(ctx, tx, tenant, topic)
		return err
	})
	return p, postgres.Wrap("read the policy of a topic", err)
}
