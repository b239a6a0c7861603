package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// Looked implements dlq.Inflows.
func (st *Queue) Looked(ctx context.Context, group, expression string) (at time.Time, seen []dlq.Inflow, err error) {
	err = st.db.Write.QueryRowxContext(ctx, `SELECT looked_at FROM dlq.dlq_readers WHERE consumer_group = $1 AND expression = $2`, group, expression).Scan(&at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return at, nil, fmt.Errorf("when dead-letter topics were looked for: %w", err)
	}
	rows, err := st.db.QueryWrite(ctx, `SELECT s.topic, s.topic_id, s.partition, s.backlog_end, s.backlog_before FROM dlq.dlq_inflows s WHERE s.consumer_group = $1`, group)
	if err != nil {
		return at, nil, fmt.Errorf("what was seen of dead-letter topics: %w", err)
	}
	err = postgres.EachRow(rows, func() error {
		var s dlq.Inflow
		var before sql.NullTime
		err := rows.Scan(&s.Topic, &s.TopicID, &s.Partition, &s.BacklogEnd, &before)
		s.BacklogBefore = before.Time.UTC()
		if !before.Valid {
			s.BacklogBefore = time.Time{}
		}
		seen = append(seen, s)
		return err
	})
	if err != nil {
		return at, nil, fmt.Errorf("what was seen of dead-letter topics: %w", err)
	}
	return at, seen, nil
}

const seeInflows = `
INSERT INTO dlq.dlq_inflows (consumer_group, topic, topic_id, partition, backlog_end, backlog_before, seen_at)
SELECT $1::text, s.topic, s.topic_id, s.partition, s.backlog_end, s.backlog_before, clock_timestamp()
  FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::bigint[], $6::timestamptz[]) AS s (topic, topic_id, partition, backlog_end, backlog_before)
 ORDER BY s.topic, s.topic_id, s.partition
ON CONFLICT DO NOTHING`

const lookedNow = `
INSERT INTO dlq.dlq_readers AS r (consumer_group, expression, looked_at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (consumer_group) DO UPDATE SET expression = EXCLUDED.expression, looked_at = greatest(r.looked_at, EXCLUDED.looked_at)`

// See implements dlq.Inflows.
func (st *Queue) See(ctx context.Context, group, expression string, inflows []dlq.Inflow) error {
	var c [5]postgres.BinaryColumn
	for _, s := range inflows {
		c[0].Text(s.Topic)
		c[1].UUID(s.TopicID)
		c[2].Int(int64(s.Partition))
		c[3].Int(s.BacklogEnd)
		if s.BacklogBefore.IsZero() {
			c[4].Null()
		} else {
			c[4].Time(s.BacklogBefore)
		}
	}
	err := st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		if len(inflows) > 0 {
			if _, err := tx.ExecContext(ctx, seeInflows, append([]any{group}, postgres.Parameters(c[:])...)...); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, lookedNow, group, expression)
		return err
	})
	if err != nil {
		return fmt.Errorf("what is seen of dead-letter topics: %w", err)
	}
	return nil
}
