package eventdb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/postgres"
)

// The letters of a webhook are locked after its subscription and after their delivery.

// lockParcels locks the letters of deliveries and reads them.
var lockParcels = `
SELECT ` + dlqdb.LetterColumns + ` FROM dlq.dlq_messages m
 WHERE m.tenant_id = $1 AND m.dedupe_key = ANY ($2::text[]) AND m.source = 'WEBHOOK'
 ORDER BY m.id
   FOR NO KEY UPDATE OF m`

// tellOf applies updates to the letters of deliveries, which it finds by LetterKey.
func (st *Webhooks) tellOf(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, at time.Time,
	told map[string]*dlq.SourceUpdate) error {
	if len(told) == 0 {
		return nil
	}
	keys := make([]string, 0, len(told))
	for key := range told {
		keys = append(keys, key)
	}
	rows, err := tx.QueryContext(ctx, lockParcels, tenant, pq.Array(keys))
	if err != nil {
		return err
	}
	found := map[uuid.UUID]dlq.Letter{}
	err = postgres.EachRow(rows, func() error {
		l, err := dlqdb.ScanLetter(st.db, rows)
		found[l.ID] = l
		told[l.DedupeKey].ID = l.ID
		return st.db.PassOver(ctx, err)
	})
	if err != nil {
		return err
	}
	all := make([]dlqdb.LetterUpdate, 0, len(told))
	for _, n := range told {
		all = append(all, dlqdb.LetterUpdate{SourceUpdate: n, Tenant: tenant, At: dlq.Moment{Now: at}})
	}
	return st.tell.UpdateLetters(ctx, tx, all, found)
}

// tellRedelivered updates the letters of deliveries that are sent again; before contains the
// deliveries as they were before.
func (st *Webhooks) tellRedelivered(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, m webhook.Moment,
	before ...webhook.Delivery) error {
	told := map[string]*dlq.SourceUpdate{}
	for i := range before {
		if n := webhook.Redelivered(&before[i], m); n != nil {
			told[before[i].LetterKey()] = n
		}
	}
	return st.tellOf(ctx, tx, tenant, m.Now, told)
}

// Letters implements webhook.Log.
func (st *Webhooks) Letters(ctx context.Context, tenant uuid.UUID,
	of []webhook.Delivery) (map[dlq.Status]int64, error) {
	keys := make([]string, len(of))
	for i := range of {
		keys[i] = of[i].LetterKey()
	}
	counts := map[dlq.Status]int64{}
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, `
			SELECT m.status, count(*) FROM dlq.dlq_messages m
			 WHERE m.tenant_id = $1 AND m.dedupe_key = ANY ($2::text[]) AND m.source = 'WEBHOOK' GROUP BY m.status`,
			tenant, pq.Array(keys))
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			var status dlq.Status
			var n int64
			err := rows.Scan(&status, &n)
			counts[status] = n
			return err
		})
	})
	return counts, postgres.Wrap("count the dead letters of deliveries", err)
}

// dropLetters discards the letters of a deleted subscription, because its deliveries cannot be sent
// any more. A retry in progress ends without a result. The statuses come from the transition table.
const dropLetters = `
WITH doomed AS (
	SELECT m.id, m.status, m.retry_token, m.revision, m.target, m.redrive_id, m.last_retry_at, m.attempts
	  FROM dlq.dlq_messages m
	 WHERE m.tenant_id = $1 AND m.original_topic = $2 AND m.source = 'WEBHOOK' AND m.status = ANY ($3::text[])
	 ORDER BY m.id
	   FOR NO KEY UPDATE OF m
), dropped AS (
	UPDATE dlq.dlq_messages m
	   SET status = 'DEAD',
	       resolution = 'DISCARDED',
	       terminal_at = now(),
	       next_retry_at = NULL,
	       retry_token = NULL,
	       retry_lease_until = NULL,
	       version = m.version + 1, updated_at = now()
	  FROM doomed d WHERE m.tenant_id = $1 AND m.id = d.id
)
INSERT INTO dlq.dlq_attempts (message_id, tenant_id, number, token, revision, target, outcome, error, redrive_id,
                              started_at, ended_at)
SELECT d.id, $1, greatest(d.attempts, 1), d.retry_token, d.revision, d.target, 'WITHDRAWN', $4, d.redrive_id,
       least(coalesce(d.last_retry_at, now()), now()), now()
  FROM doomed d WHERE d.status = 'RETRYING'
ON CONFLICT (message_id, number) DO NOTHING`

func (st *Webhooks) dropLetters(ctx context.Context, tx *sqlx.Tx, s *webhook.Subscription, on dlq.Trigger,
	why string) error {
	_, err := tx.ExecContext(ctx, dropLetters, s.TenantID, s.LetterTopic(), pq.Array(dlq.From(on)), why)
	return err
}
