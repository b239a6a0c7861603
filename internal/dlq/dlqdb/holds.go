package dlqdb

import (
	"context"
	"fmt"
	"time"

	"github.com/lib/pq"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// heldTopic returns the condition that policies hold the letters, alias at, of a topic. This is the case
// if the tenant's default sets hold_all, or if automatic retries are off. The latter comes from the
// topic's policy, or else from the default, or else from the configuration (parameter common).
func heldTopic(at string, common int) string {
	of := func(column, topic string) string {
		return `(SELECT p.` + column + `
		           FROM dlq.dlq_policies p
		          WHERE p.tenant_id = ` + at + `.tenant_id AND p.topic = ` + topic + `)`
	}
	return `coalesce(` + of("hold_all", "''") + `, false) OR NOT coalesce(` + of("auto_retry", at+".original_topic") +
		`, ` + of("auto_retry", "''") +
		fmt.Sprintf(", $%d::boolean)", common)
}

// parkHeld parks letters that are held by a policy or a redrive. It looks at the first letters that
// are due, and at more of them than are claimed at once. Otherwise each claim would pass over all
// held letters again.
var parkHeld = `
WITH due AS MATERIALIZED (
	SELECT m.tenant_id, m.id, m.original_topic, m.source, m.retry_asked FROM dlq.dlq_messages m
	 WHERE ` + Leaves("m.status", dlq.Claimed) + `
	   AND m.next_retry_at <= clock_timestamp()
	   AND m.target ->> 'kind' = ANY ($1::text[])
	 ORDER BY m.next_retry_at, m.seq LIMIT $2
), held AS MATERIALIZED (
	SELECT m.tenant_id, m.id FROM due w JOIN dlq.dlq_messages m ON m.tenant_id = w.tenant_id AND m.id = w.id
	 WHERE (` + retriedAutomatically("w") + ` AND NOT w.retry_asked AND (` + heldTopic("w", 3) + `)) OR ` + collected + `
	 ORDER BY m.id FOR NO KEY UPDATE OF m SKIP LOCKED
)
UPDATE dlq.dlq_messages m SET held_retry_at = m.next_retry_at, next_retry_at = NULL
  FROM held h
 WHERE m.tenant_id = h.tenant_id
   AND m.id = h.id
   AND ` + Leaves("m.status || ''", dlq.Claimed) + `
   AND coalesce(m.next_retry_at, '-infinity') > '-infinity'`

// The number of letters that are checked at once, and the time limit of one call; the next call
// continues where the previous one stopped.
const (
	parkAtOnce = 2000
	parkFor    = 3 * time.Second
)

// park parks letters that are due and held; done means that the first due letter is not held. If no
// policy and no redrive holds anything, which is nearly always the case, this takes a single query.
func (st *Queue) park(ctx context.Context, kinds []dlq.TargetKind) (done bool, err error) {
	if st.common.AutoRetry {
		var any bool
		err := st.db.Read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1
		                                                         FROM dlq.dlq_policies p
		                                                        WHERE NOT p.auto_retry OR p.hold_all)
			OR EXISTS (SELECT 1 FROM dlq.dlq_redrives d WHERE d.started_at IS NOT NULL AND d.ended_at IS NULL)`).Scan(&any)
		if err != nil || !any {
			return true, err
		}
	}
	for began := time.Now(); time.Since(began) < parkFor; {
		res, err := st.db.Read.ExecContext(ctx, parkHeld, kindNames(kinds), parkAtOnce, st.common.AutoRetry)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return true, err
		}
	}
	return false, nil
}

// freedRow is a letter that is no longer held, with the time of its next retry.
type freedRow struct {
	tenant, id uuid.UUID
	topic      string
	letter     dlq.Letter // its failures
	now, at    time.Time
}

var freedTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(f *freedRow) *uuid.UUID { return &f.tenant }),
	postgres.UUID("id", func(f *freedRow) *uuid.UUID { return &f.id }),
	postgres.Text("original_topic", func(f *freedRow) *string { return &f.topic }).ReadOnly(),
	postgres.Int("retry_count", func(f *freedRow) *int { return &f.letter.RetryCount }).ReadOnly(),
	postgres.Int("generation", func(f *freedRow) *int { return &f.letter.Generation }).ReadOnly(),
	postgres.Time("now", func(f *freedRow) *time.Time { return &f.now }).ReadFrom("clock_timestamp()").ReadOnly(),
	postgres.Time("at", func(f *freedRow) *time.Time { return &f.at }).InputOnly(),
)

// freedLetters selects parked letters that are no longer held by a policy or a redrive. It steps
// from topic to topic along the index of parked letters.
var freedLetters = `
WITH RECURSIVE topics AS (
	(SELECT m.tenant_id, m.original_topic
	   FROM dlq.dlq_messages m
	  WHERE ` + Leaves("m.status", dlq.Claimed) + ` AND m.held_retry_at IS NOT NULL
	  ORDER BY m.tenant_id, m.original_topic LIMIT 1)
	UNION ALL
	SELECT n.tenant_id, n.original_topic FROM topics t CROSS JOIN LATERAL (
		SELECT m.tenant_id, m.original_topic
		  FROM dlq.dlq_messages m
		 WHERE ` + Leaves("m.status", dlq.Claimed) + ` AND m.held_retry_at IS NOT NULL
		   AND (m.tenant_id, m.original_topic) > (t.tenant_id, t.original_topic)
		    ORDER BY m.tenant_id, m.original_topic
		    LIMIT 1) AS n
)
SELECT ` + freedTable.Selected("m") + `
  FROM topics t CROSS JOIN LATERAL (
	SELECT m.id, m.tenant_id, m.original_topic, m.retry_count, m.generation FROM dlq.dlq_messages m
	 WHERE m.tenant_id = t.tenant_id
	   AND m.original_topic = t.original_topic
	   AND ` + Leaves("m.status", dlq.Claimed) + `
	   AND m.held_retry_at IS NOT NULL
	   AND NOT ` + collected + ` LIMIT $1) AS m
 WHERE NOT (` + heldTopic("t", 2) + `)
 LIMIT $1`

// Release implements dlq.Queue. Several nodes may call it at the same time; each letter is released
// only once.
func (st *Queue) Release(ctx context.Context, limit int, chance dlq.Chance) (int, error) {
	all, err := freedTable.All(st.db.QueryRead(ctx, freedLetters, limit, st.common.AutoRetry))
	if err != nil || len(all) == 0 {
		return 0, postgres.Wrap("look for dead letters that are no longer held", err)
	}
	batch := freedTable.Batch(len(all))
	for i := range all {
		f := &all[i]
		p, err := st.PolicyOf(ctx, f.tenant, f.topic)
		if err != nil {
			return 0, err
		}
		f.at = p.Released(f.letter.Failures(), f.now, chance.Jitter())
		batch.Add(f)
	}
	_, err = st.db.Write.ExecContext(ctx, releaseLetters.Text, releaseLetters.Args(batch)...)
	return len(all), postgres.Wrap("release held dead letters", err)
}

var releaseLetters = postgres.Named(`
UPDATE dlq.dlq_messages m SET next_retry_at = f.at, held_retry_at = NULL
  FROM `+postgres.Unnest("f", freedTable.As("f"))+`
 WHERE m.tenant_id = f.tenant_id
   AND m.id = f.id
   AND `+Leaves("m.status || ''", dlq.Claimed)+`
   AND coalesce(m.held_retry_at, '-infinity') > '-infinity'`,
	freedTable.As("f"))

func kindNames(kinds []dlq.TargetKind) any {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return pq.Array(names)
}
