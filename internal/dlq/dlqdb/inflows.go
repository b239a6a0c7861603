package dlqdb

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// inflowTable describes dlq.dlq_inflows without the observer and the time. A partition with a
// backlog_before was found by an earlier version after the topics were first listed, and therefore
// has no backlog.
var inflowTable = postgres.NewTable(
	postgres.Text("topic", func(s *dlq.Inflow) *string { return &s.Topic }),
	postgres.UUID("topic_id", func(s *dlq.Inflow) *uuid.UUID { return &s.TopicID }),
	postgres.Int("partition", func(s *dlq.Inflow) *int32 { return &s.Partition }),
	postgres.Int("backlog_end", func(s *dlq.Inflow) *int64 { return &s.BacklogEnd }).
		ReadFrom("CASE WHEN s.backlog_before IS NULL THEN s.backlog_end ELSE 0 END"),
)

// Looked implements dlq.Inflows. The cluster is unknown for readers that an earlier version stored.
func (st *Queue) Looked(ctx context.Context, r dlq.Reader) (ever bool, seen []dlq.Inflow, err error) {
	err = st.db.Write.QueryRowxContext(ctx, `
SELECT EXISTS (SELECT FROM dlq.dlq_readers r WHERE r.consumer_group = $1 AND r.expression = $2
	AND (r.cluster_id = $3 OR r.cluster_id = '' OR $3 = ''))`, r.Group, r.Expression, r.Cluster).Scan(&ever)
	if err != nil {
		return false, nil, fmt.Errorf("check whether dead-letter topics were listed before: %w", err)
	}
	seen, err = inflowTable.All(st.db.QueryWrite(ctx,
		`SELECT `+inflowTable.Selected("s")+` FROM dlq.dlq_inflows s WHERE s.consumer_group = $1`, r.Group))
	if err != nil {
		return false, nil, fmt.Errorf("read the state of dead-letter topics: %w", err)
	}
	return ever, seen, nil
}

var seeInflows = postgres.Named(`
INSERT INTO dlq.dlq_inflows AS i (consumer_group, `+inflowTable.Inserted()+`, seen_at)
SELECT @group::text, `+inflowTable.Stored("s")+`, clock_timestamp()
  FROM `+postgres.Unnest("s", inflowTable.As("s"))+`
 ORDER BY s.topic, s.topic_id, s.partition
ON CONFLICT (consumer_group, topic, topic_id, partition) DO UPDATE SET backlog_end = EXCLUDED.backlog_end
 WHERE i.backlog_end < 0 AND EXCLUDED.backlog_end >= 0`, postgres.Single("group"), inflowTable.As("s"))

const lookedNow = `
INSERT INTO dlq.dlq_readers AS r (consumer_group, expression, cluster_id, looked_at)
 VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT (consumer_group)
 DO UPDATE SET expression = EXCLUDED.expression, looked_at = greatest(r.looked_at, EXCLUDED.looked_at),
	cluster_id = CASE WHEN EXCLUDED.cluster_id = '' THEN r.cluster_id ELSE EXCLUDED.cluster_id END`

// See implements dlq.Inflows.
func (st *Queue) See(ctx context.Context, r dlq.Reader, inflows []dlq.Inflow) error {
	batch := inflowTable.Batch(len(inflows))
	for i := range inflows {
		batch.Add(&inflows[i])
	}
	err := st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		if len(inflows) > 0 {
			if _, err := tx.ExecContext(ctx, seeInflows.Text, seeInflows.Args(postgres.Values{r.Group}, batch)...); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, lookedNow, r.Group, r.Expression, r.Cluster)
		return err
	})
	if err != nil {
		return fmt.Errorf("store the state of dead-letter topics: %w", err)
	}
	return nil
}
