package sagadb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/idempotencydb"
	"github.com/skald-saga/skald/internal/postgres"
)

var putKey = postgres.Named(`
INSERT INTO saga.idempotency_keys (tenant_id, principal, route, key, request_hash, saga_id)
VALUES (@k.tenant, @k.principal, @k.route, @k.key, @k.hash, @k.id) ON CONFLICT DO NOTHING`, theKeys)

// storeKey stores the saga of an idempotency key outside the statements that store batches. It
// returns false if the key was already used.
func storeKey(ctx context.Context, on sqlx.ExecerContext, k *idempotency.Key, id uuid.UUID) (bool, error) {
	res, err := on.ExecContext(ctx, putKey.Text, putKey.Args(keyTable.Row(&keyRow{id, k}))...)
	return postgres.ChangedOne(res, "store idempotency key", err)
}

const expireKeys = `
DELETE FROM saga.idempotency_keys WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM saga.idempotency_keys WHERE created_at < now() - $1 * interval '1 second'
	 LIMIT 5000 FOR UPDATE SKIP LOCKED))`

// ExpireKeys deletes idempotency keys older than keep in batches, including keys of other subjects,
// and returns how many it deleted. Several nodes may run it at the same time.
func (st *Sagas) ExpireKeys(ctx context.Context, keep time.Duration) (int64, error) {
	total, err := idempotencydb.NewAnswers(st.db).Expire(ctx, keep)
	if err != nil {
		return total, err
	}
	n, err := st.db.ExecAll(ctx, "expire idempotency keys", expireKeys, int64(keep.Seconds()))
	return total + n, err
}
