package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

const expireKeys = `
DELETE FROM saga.idempotency_keys WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM saga.idempotency_keys WHERE created_at < now() - $1 * interval '1 second'
	 LIMIT 5000 FOR UPDATE SKIP LOCKED))`

// ExpireKeys deletes idempotency keys older than keep, in batches, and returns
// how many. Several nodes may do it at once.
func (st *Sagas) ExpireKeys(ctx context.Context, keep time.Duration) (int64, error) {
	var total int64
	for {
		res, err := st.db.read.ExecContext(ctx, expireKeys, int64(keep.Seconds()))
		if err != nil {
			return total, fmt.Errorf("expire idempotency keys: %w", err)
		}
		n, err := res.RowsAffected()
		if total += n; err != nil || n == 0 {
			return total, err
		}
	}
}

// Secret returns the deployment's secret of that name: 32 random bytes, made
// by the first node that asks and the same for all nodes ever after.
func (db *DB) Secret(ctx context.Context, name string) ([]byte, error) {
	value := make([]byte, 32)
	if _, err := rand.Read(value); err != nil {
		return nil, err
	}
	if _, err := db.read.ExecContext(ctx, `
		INSERT INTO saga.deployment_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, name, value); err != nil {
		return nil, fmt.Errorf("store secret: %w", err)
	}
	err := db.read.GetContext(ctx, &value, `SELECT value FROM saga.deployment_secrets WHERE name = $1`, name)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	return value, nil
}
