// Package idempotencydb stores Idempotency-Keys and the answers to their requests in
// PostgreSQL. A key is written by the transaction of its request (package postgres), its answer
// later.
package idempotencydb

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Answers stores the answers to requests with an Idempotency-Key. It implements claims.Store.
type Answers struct{ db *postgres.DB }

// NewAnswers returns the store on db.
func NewAnswers(db *postgres.DB) *Answers { return &Answers{db} }

var fieldAnswer = envelope.Field{Name: "idempotency_answers.body"}

var findAnswer = postgres.OfTenant(`SELECT a.request_id,
a.request_hash,
a.status,
a.etag,
a.location,
a.body,
a.withheld,
	greatest(0, extract(epoch FROM now() - a.created_at))::float8
  FROM saga.idempotency_answers a
 WHERE a.tenant_id = tenant.id AND a.principal = $2 AND a.route = $3 AND a.key = $4`, "")

// Find implements claims.Store.
func (st *Answers) Find(ctx context.Context, k idempotency.Key) (found *idempotency.Kept, err error) {
	err = st.db.ReadTenant(ctx, k.TenantID, findAnswer, func(rows *sql.Rows) error {
		var (
			kept   idempotency.Kept
			a      idempotency.Answer
			id     uuid.UUID
			status sql.NullInt32
			age    float64
		)
		if err := rows.Scan(&id, &kept.Hash, &status, &a.ETag, &a.Location, &a.Body, &a.Withheld, &age); err != nil {
			return err
		}
		kept.Age = time.Duration(age * float64(time.Second))
		if status.Valid {
			a.Status = int(status.Int32)
			sealer := st.db.Keys.SealerFor(k.TenantID, id)
			if a.Body, err = sealer.OpenBytes(fieldAnswer, a.Body); err != nil {
				return err
			}
			kept.Answer = &a
		}
		found = &kept
		return nil
	}, k.Principal, k.Route, k.Key)
	return found, postgres.Wrap("find an Idempotency-Key", err)
}

// The row of another request is left unchanged.
const keepAnswer = `
INSERT INTO saga.idempotency_answers AS a
       (tenant_id, principal, route, key, request_id, request_hash, status, etag, location, body, withheld)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (tenant_id, principal, route, key) DO UPDATE
   SET status = EXCLUDED.status, etag = EXCLUDED.etag, location = EXCLUDED.location, body = EXCLUDED.body,
       withheld = EXCLUDED.withheld
 WHERE a.request_id = EXCLUDED.request_id`

// Keep implements claims.Store.
func (st *Answers) Keep(ctx context.Context, c *claims.Claim, a idempotency.Answer) error {
	sealer := st.db.Keys.SealerFor(c.TenantID, c.ID)
	body, err := sealer.SealBytes(fieldAnswer, a.Body)
	if err != nil {
		return postgres.Wrap("seal the answer of an Idempotency-Key", err)
	}
	return st.write(ctx, c, "store the answer of an Idempotency-Key", keepAnswer,
		c.TenantID, c.Principal, c.Route, c.Key.Key, c.ID, c.Hash, a.Status, a.ETag, a.Location, body, a.Withheld)
}

const dropKey = `
DELETE FROM saga.idempotency_answers
 WHERE tenant_id = $1 AND principal = $2 AND route = $3 AND key = $4 AND request_id = $5`

// Drop implements claims.Store.
func (st *Answers) Drop(ctx context.Context, c *claims.Claim) error {
	return st.write(ctx, c, "delete an Idempotency-Key", dropKey, c.TenantID, c.Principal, c.Route, c.Key.Key, c.ID)
}

func (st *Answers) write(ctx context.Context, c *claims.Claim, what, query string, args ...any) error {
	ctx = claims.With(ctx, nil) // this is not an effect of the request
	return postgres.Wrap(what, st.db.InTenant(ctx, c.TenantID, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}))
}

const expireAnswers = `
DELETE FROM saga.idempotency_answers WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM saga.idempotency_answers WHERE created_at < now() - $1 * interval '1 second'
	 LIMIT 5000 FOR UPDATE SKIP LOCKED))`

// Expire deletes keys older than keep, in batches, and returns how many it deleted. Several nodes
// may run it at once.
func (st *Answers) Expire(ctx context.Context, keep time.Duration) (int64, error) {
	return st.db.ExecAll(ctx, "expire the answers of Idempotency-Keys", expireAnswers, int64(keep.Seconds()))
}

// SealedTables are the tables of this package with sealed content.
func SealedTables() []postgres.SealedTable {
	return []postgres.SealedTable{{
		Name: "saga.idempotency_answers", Key: []string{"tenant_id", "principal", "route", "key"}, Place: "request_id",
		Values: []postgres.SealedValue{{Column: "body", Form: postgres.SealedBytes, Field: fieldAnswer.Name}},
	}}
}
