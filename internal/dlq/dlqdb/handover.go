package dlqdb

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// noteHandover writes one row for each tenant in a batch that is sent together.
var noteHandover = `
INSERT INTO dlq.dlq_handovers (id, tenant_id, tokens)
SELECT $1, l.tenant_id, array_agg(l.token) FROM unnest($2::uuid[], $3::uuid[]) AS l (tenant_id, token)
 WHERE $4::uuid IS NULL
   OR EXISTS (SELECT 1 FROM dlq.dlq_redrives d WHERE d.id = $4 AND d.state` + postgres.Among(dlq.Running) + `)
 GROUP BY l.tenant_id`

// HandOver implements dlq.Queue.
func (st *Queue) HandOver(ctx context.Context, h dlq.Handover) (ok bool, err error) {
	var tenants, tokens postgres.BinaryColumn
	for i := range h.Tokens {
		tenants.UUID(h.Tenants[i])
		tokens.UUID(h.Tokens[i])
	}
	redrive := uuid.NullUUID{UUID: h.RedriveID, Valid: h.RedriveID != uuid.Nil}
	res, err := st.db.Write.ExecContext(ctx, noteHandover, h.ID, tenants.Parameter(), tokens.Parameter(), redrive)
	if err != nil {
		return false, postgres.Wrap("record hand-overs", err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// takeBack deletes the hand-over notes of ended retries, in the transaction that stores their
// ends.
func takeBack(ctx context.Context, tx *sqlx.Tx, batch []dlq.Finish) error {
	var ids []uuid.UUID
	last := uuid.Nil
	for i := range batch {
		if id := batch[i].Handover; id != uuid.Nil && id != last {
			ids, last = append(ids, id), id
		}
	}
	if ids == nil {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM dlq.dlq_handovers
	 WHERE id = ANY ($1::uuid[])`, pq.Array(ids)); err != nil {
		return fmt.Errorf("delete hand-over notes: %w", err)
	}
	return nil
}

// forget deletes the hand-over notes of lost nodes once the retries of their letters have been
// reclaimed.
func (st *Queue) forget(ctx context.Context) error {
	_, err := st.db.Read.ExecContext(ctx, `
		DELETE FROM dlq.dlq_handovers h WHERE h.at < now() - interval '1 minute' AND NOT EXISTS (
			SELECT 1
			  FROM dlq.dlq_messages m
			 WHERE `+Leaves("m.status", retryEnds...)+` AND m.tenant_id = h.tenant_id AND m.retry_token = ANY (h.tokens))`)
	return postgres.Wrap("delete hand-overs", err)
}
