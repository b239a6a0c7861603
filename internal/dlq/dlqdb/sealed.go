package dlqdb

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// SealedTables lists the tables of dead letters with sealed content.
func SealedTables() []postgres.SealedTable {
	content := func(field func(envelope.Field) envelope.Field) (values []postgres.SealedValue) {
		for i, column := range []string{"message_key", "headers", "payload_raw"} {
			f := field(contentFields[i])
			values = append(values, postgres.SealedValue{Column: column, Form: postgres.SealedBytes, Field: f.Name})
		}
		return values
	}
	letter := append(content(func(f envelope.Field) envelope.Field { return f }),
		postgres.SealedValue{Column: "error_stack", Form: postgres.SealedText, Field: fieldLetterStack.Name})
	revision := func(f envelope.Field) envelope.Field { return revisionField(f, 0) }
	return []postgres.SealedTable{
		{Name: "dlq.dlq_messages", Key: []string{"id"}, Place: "id", Values: letter},
		{Name: "dlq.dlq_messages_archive", Key: []string{"id"}, Place: "id", Values: letter},
		{
			Name: "dlq.dlq_revisions", Key: []string{"message_id", "number"}, Place: "message_id", Step: "number",
			Values: append(content(revision), postgres.SealedValue{Column: "patch", Field: revision(fieldPatch).Name}),
		},
	}
}

// undigested selects open letters of ordered topics that lack a digest of their key. It uses the
// index for ordering.
const undigested = `
SELECT m.id, m.tenant_id, m.original_topic, m.message_key FROM dlq.dlq_messages m
 WHERE m.ordered
   AND m.status IN ('PENDING', 'RETRYING')
   AND m.order_key IS NULL
   AND m.message_key IS NOT NULL
   AND m.id > $1
 ORDER BY m.id LIMIT 500`

const putDigests = `
UPDATE dlq.dlq_messages m SET order_key = n.digest
  FROM unnest($1::uuid[], $2::bytea[]) AS n (id, digest)
 WHERE m.id = n.id AND m.order_key IS NULL AND m.id IN (
	SELECT o.id FROM dlq.dlq_messages o WHERE o.id = ANY ($1::uuid[]) FOR NO KEY UPDATE SKIP LOCKED)`

// DigestKeys stores a digest of the key for open letters of ordered topics that lack one, because
// they arrived before encryption was turned on or on a node of a version without digests. The
// digest is what keeps letters with sealed keys in order. It returns the number of letters updated
// and skips locked ones.
func (st *Queue) DigestKeys(ctx context.Context) (int64, error) {
	var total int64
	if st.db.Keys == nil {
		return 0, nil
	}
	for last := (uuid.UUID{}); ; {
		before := last
		ids, digests, err := st.digest(ctx, &last)
		switch {
		case err != nil:
			return total, postgres.Wrap("digest the keys of dead letters", err)
		case last == before:
			return total, nil
		case ids == nil: // none that can be decrypted
			continue
		}
		err = st.db.InRead(ctx, func(tx *sqlx.Tx) error {
			// Their updated_at does not change (migration 0253).
			if _, err := tx.ExecContext(ctx, `SELECT set_config('skald.resealing', 'on', true)`); err != nil {
				return err
			}
			done, err := tx.ExecContext(ctx, putDigests, pq.Array(ids), pq.ByteaArray(digests))
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			total += n
			return err
		})
		if err != nil {
			return total, postgres.Wrap("digest the keys of dead letters", err)
		}
	}
}

// digest returns the digests of the next letters after last, and advances last unless there are no
// more.
func (st *Queue) digest(ctx context.Context, last *uuid.UUID) (ids []uuid.UUID, digests [][]byte, err error) {
	rows, err := st.db.QueryRead(ctx, undigested, *last)
	if err != nil {
		return nil, nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var tenant uuid.UUID
		var topic string
		var stored []byte
		if err := rows.Scan(last, &tenant, &topic, &stored); err != nil {
			return err
		}
		sealer := st.db.Keys.SealerFor(tenant, *last)
		key, err := sealer.OpenBytes(FieldLetterKey, stored)
		if err != nil {
			return st.db.PassOver(ctx, err)
		}
		digest, err := st.db.KeyDigest(ctx, tenant, topic, key)
		ids, digests = append(ids, *last), append(digests, digest)
		return err
	})
	return ids, digests, err
}
