package postgres

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
)

// An Idempotency-Key is stored by the last statement of the first transaction of its request that
// writes anything, so the key exists if and only if the effect does. A second request with the same
// key waits for the first at this INSERT, and is then rolled back.

// wrote is true once the transaction has written or locked a row. PostgreSQL assigns transaction
// IDs only then, so a request that only reads does not use up its key.
const wrote = `SELECT pg_current_xact_id_if_assigned() IS NOT NULL`

const claimKey = `
INSERT INTO saga.idempotency_answers (tenant_id, principal, route, key, request_id, request_hash)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant_id, principal, route, key) DO NOTHING`

// commit commits a transaction together with the Idempotency-Key of its request. Fault:
// idempotency.InUse if another request has the key; nothing is written in that case.
func commit(ctx context.Context, tx *sqlx.Tx) error {
	c := claims.Of(ctx)
	if c == nil || c.Stored() {
		return tx.Commit()
	}
	var effect bool
	if err := tx.QueryRowContext(ctx, wrote).Scan(&effect); err != nil {
		return fmt.Errorf("check whether anything was written: %w", err)
	}
	if !effect {
		return tx.Commit()
	}
	res, err := tx.ExecContext(ctx, claimKey, c.TenantID, c.Principal, c.Route, c.Key.Key, c.ID, c.Hash)
	if err != nil {
		return fmt.Errorf("store the Idempotency-Key: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		if err == nil {
			err = idempotency.InUse()
		}
		return err
	}
	err = tx.Commit()
	if err == nil || !Collided(err) { // after a collision, nothing was written for certain
		c.SetStored()
	}
	return err
}
