package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// inflowTable is dlq.dlq_inflows without the observer and the time.
var inflowTable = postgres.NewTable(
	postgres.Text("topic", func(s *dlq.Inflow) *string { return &s.Topic }),
	postgres.UUID("topic_id", func(s *dlq.Inflow) *uuid.UUID { return &s.TopicID }),
	postgres.Int("partition", func(s *dlq.Inflow) *int32 { return &s.Partition }),
	postgres.Int("backlog_end", func(s *dlq.Inflow) *int64 { return &s.BacklogEnd }),
	postgres.TimeOrZero("backlog_before", func(s *dlq.Inflow) *time.Time { return &s.BacklogBefore }),
)

// Looked implements dlq.Inflows.
func (st *Queue) Looked(ctx context.Context, group, expression string) (at time.Time, seen []dlq.Inflow, err error) {
	err = st.db.Write.QueryRowxContext(ctx, `SELECT looked_at FROM dlq.dlq_readers WHERE consumer_group = $1 AND expression = $2`, group, expression).Scan(&at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return at, nil, fmt.Errorf("read when dead-letter topics were last looked up: %w", err)
	}
	seen, err = inflowTable.All(st.db.QueryWrite(ctx,
		`SELECT `+inflowTable.Selected("s")+` FROM dlq.dlq_inflows s WHERE s.consumer_group = $1`, group))
	if err != nil {
		return at, nil, fmt.Errorf("read the state of dead-letter topics: %w", err)
	}
	return at, seen, nil
}

var seeInflows = postgres.Named(`
INSERT INTO dlq.dlq_inflows (consumer_group, `+inflowTable.Inserted()+`, seen_at)
SELECT @group::text, `+inflowTable.Stored("s")+`, clock_timestamp()
  FROM `+postgres.Unnest("s", inflowTable.As("s"))+`
 ORDER BY s.topic, s.topic_id, s.partition
ON CONFLICT DO NOTHING`, postgres.Single("group"), inflowTable.As("s"))

const lookedNow = `
INSERT INTO dlq.dlq_readers AS r (consumer_group, expression, looked_at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (consumer_group) DO UPDATE SET expression = EXCLUDED.expression, looked_at = greatest(r.looked_at, EXCLUDED.looked_at)`

// See implements dlq.Inflows.
func (st *Queue) See(ctx context.Context, group, expression string, inflows []dlq.Inflow) error {
	batch := inflowTable.Batch(len(inflows))
	for i := range inflows {
		batch.Add(&inflows[i])
	}
	err := st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		if len(inflows) > 0 {
			if _, err := tx.ExecContext(ctx, seeInflows.Text, seeInflows.Args(postgres.Values{group}, batch)...); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, lookedNow, group, expression)
		return err
	})
	if err != nil {
		return fmt.Errorf("store the state of dead-letter topics: %w", err)
	}
	return nil
}
