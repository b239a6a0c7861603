package sagadb

import (
	"context"
	"fmt"
	"time"
)

const expireKeys = `
DELETE FROM saga.idempotency_keys WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM saga.idempotency_keys WHERE created_at < now() - $1 * interval '1 second'
	 LIMIT 5000 FOR UPDATE SKIP LOCKED))`

// ExpireKeys deletes idempotency keys older than keep, in batches, and returns how
// many it deleted. Several nodes may run it at the same time.
func (st *Sagas) ExpireKeys(ctx context.Context, keep time.Duration) (int64, error) {
	var total int64
	for {
		res, err := st.db.Read.ExecContext(ctx, expireKeys, int64(keep.Seconds()))
		if err != nil {
			return total, fmt.Errorf("expire idempotency keys: %w", err)
		}
		n, err := res.RowsAffected()
		if total += n; err != nil || n == 0 {
			return total, err
		}
	}
}
