package auditdb

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
)

// Unsealed implements trail.Sealed.
func (st *Actions) Unsealed(ctx context.Context) ([]trail.Unsealed, error) {
	return ofActions.UnsealedIn(ctx, st.db)
}

// Seal implements trail.Sealed.
func (st *Actions) Seal(ctx context.Context, tenant uuid.UUID) (actions int, err error) {
	return ofActions.SealIn(ctx, st.db, tenant)
}

// Seals implements trail.Sealed.
func (st *Actions) Seals(ctx context.Context, tenant uuid.UUID, from int64, limit int) ([]trail.Seal, error) {
	return ofActions.SealsIn(ctx, st.db, tenant, from, limit)
}

// actionLinks reads the fields that saga.action_digest hashes, in the form in which it hashes them.
// The digest is computed again here, because an attacker who can change a row could change that
// function as well. A timestamp that was set to infinity has no microseconds.
const actionLinks = `
SELECT a.txid, a.n, a.digest, a.id::text, ARRAY[
       a.id::text,
       a.tenant_id::text,
       CASE WHEN isfinite(a.at) THEN (extract(epoch FROM a.at) * 1000000)::bigint::text END,
       a.kind,
       a.subject,
       a.verb,
       a.actor,
       a.reason,
       a.request_id,
       a.detail::text,
       a.credential_id::text,
       a.address,
       a.operation,
       encode(a.before_hash, 'hex'),
       encode(a.after_hash, 'hex'), a.result]
  FROM saga.audit_actions a
 WHERE a.tenant_id = $1 AND (a.txid, a.n) > ($2::xid8, $3::bigint) AND (a.txid, a.n) <= ($4::xid8, $5::bigint)
 ORDER BY a.txid, a.n LIMIT $6`

// Links implements trail.Sealed.
func (st *Actions) Links(ctx context.Context, tenant uuid.UUID, after, upTo trail.Position,
	limit int) ([]trail.Link, error) {
	var links []trail.Link
	err := st.db.ListTenant(ctx, tenant, actionLinks, func(rows *sql.Rows) error {
		var l trail.Link
		var fields []sql.NullString
		if err := rows.Scan(&l.TxID, &l.ID, &l.Stored, &l.Subject, pq.Array(&fields)); err != nil {
			return err
		}
		texts := make([]*string, len(fields))
		for i := range fields {
			if fields[i].Valid {
				texts[i] = &fields[i].String
			}
		}
		digest := operator.Digest(texts)
		l.Intact = bytes.Equal(digest[:], l.Stored)
		links = append(links, l)
		return nil
	}, tenant, strconv.FormatUint(after.TxID, 10), after.ID, strconv.FormatUint(upTo.TxID, 10), upTo.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("read sealed actions: %w", err)
	}
	return links, nil
}
