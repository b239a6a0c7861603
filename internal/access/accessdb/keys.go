// Package accessdb stores API keys in PostgreSQL.
package accessdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// Keys is access.Store on PostgreSQL.
type Keys struct{ db *postgres.DB }

// NewKeys returns the store of API keys in db.
func NewKeys(db *postgres.DB) *Keys { return &Keys{db} }

// keyRow is a row of saga.api_keys: a key and the stored form of its tenant.
type keyRow struct {
	access.Key
	boundTo
}

// boundTo is the stored form of the tenant of a key or session.
type boundTo struct {
	bound  *uuid.UUID // nil: any tenant
	tenant tenant.Tenant
}

func bind(t *tenant.Tenant) (b boundTo) {
	if t != nil {
		b.bound, b.tenant = &t.ID, *t
	}
	return b
}

func (b *boundTo) tenantOf() *tenant.Tenant {
	if b.bound == nil {
		return nil
	}
	t := b.tenant
	t.ID = *b.bound
	return &t
}

// keyTable is saga.api_keys.
var keyTable = postgres.NewTable(
	postgres.UUID("id", func(r *keyRow) *uuid.UUID { return &r.ID }),
	postgres.Text("name", func(r *keyRow) *string { return &r.Name }),
	postgres.Text("prefix", func(r *keyRow) *string { return &r.Prefix }),
	postgres.Bytes("hash", func(r *keyRow) *[]byte { return &r.Hash }),
	postgres.Text("role", func(r *keyRow) *principal.Role { return &r.Role }),
	postgres.Texts("queues", func(r *keyRow) *[]string { return &r.Queues }),
	postgres.UUIDOrNil("bound_tenant_id", func(r *keyRow) **uuid.UUID { return &r.bound }),
	postgres.Text("tenant_region", func(r *keyRow) *string { return &r.tenant.Region }),
	postgres.Int("tenant_major", func(r *keyRow) *int { return &r.tenant.Major }),
	postgres.Int("tenant_minor", func(r *keyRow) *int { return &r.tenant.Minor }),
	postgres.Text("created_by", func(r *keyRow) *string { return &r.CreatedBy }),
	postgres.Time("created_at", func(r *keyRow) *time.Time { return &r.CreatedAt }),
	postgres.TimeOrNil("expires_at", func(r *keyRow) **time.Time { return &r.ExpiresAt }),
	postgres.TimeOrNil("revoked_at", func(r *keyRow) **time.Time { return &r.RevokedAt }),
	postgres.Text("revoked_by", func(r *keyRow) *string { return &r.RevokedBy }),
	postgres.TimeOrNil("last_used_at", func(r *keyRow) **time.Time { return &r.LastUsedAt }),
)

var apiKeyColumns = keyTable.Selected("k")

func rowOf(k access.Key) *keyRow {
	return &keyRow{Key: k, boundTo: bind(k.Tenant)}
}

func (r *keyRow) key() access.Key {
	r.Tenant = r.tenantOf()
	if len(r.Queues) == 0 {
		r.Queues = nil // the same value as in a new key
	}
	return r.Key
}

func scanKey(row postgres.Scanner) (access.Key, error) {
	r, err := keyTable.One(row)
	return r.key(), err
}

var createKey = postgres.Named(`INSERT INTO saga.api_keys (`+keyTable.Inserted()+`)
	VALUES (`+keyTable.Values("k")+`)`, keyTable.As("k"))

// Create implements access.Store.
func (st *Keys) Create(ctx context.Context, k access.Key) error {
	err := st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, createKey.Text, createKey.Args(keyTable.Row(rowOf(k)))...)
		if err != nil {
			return err
		}
		return tellKey(ctx, tx, st.db.NewID(), k.CreatedAt, "create", nil, &k)
	})
	switch {
	case postgres.Violates(err, "uq_api_keys_prefix"):
		return access.ErrPrefixTaken
	case err != nil:
		return fmt.Errorf("create the API key: %w", err)
	}
	return nil
}

// Find implements access.Store. Requests with a key that is not cached wait for it, so it uses the
// connections reserved for reads by key.
func (st *Keys) Find(ctx context.Context, prefix string) (access.Key, error) {
	rows, err := st.db.QueryRead(ctx, `SELECT `+apiKeyColumns+` FROM saga.api_keys k WHERE k.prefix = $1`, prefix)
	if err != nil {
		return access.Key{}, fmt.Errorf("find the API key: %w", err)
	}
	k, err := oneKey(rows, uuid.Nil)
	if err != nil && fault.As(err) == nil {
		err = fmt.Errorf("find the API key: %w", err)
	}
	return k, err
}

func oneKey(rows *sql.Rows, id uuid.UUID) (k access.Key, err error) {
	found := false
	err = postgres.EachRow(rows, func() error {
		found = true
		k, err = scanKey(rows)
		return err
	})
	if err == nil && !found {
		err = access.KeyNotFound(id)
	}
	return k, err
}

// Get implements access.Store.
func (st *Keys) Get(ctx context.Context, scope *uuid.UUID, id uuid.UUID) (access.Key, error) {
	k, err := scanKey(st.db.Read.QueryRowContext(ctx, `
		SELECT `+apiKeyColumns+`
		  FROM saga.api_keys k
		 WHERE k.id = $1 AND ($2::uuid IS NULL OR k.bound_tenant_id = $2::uuid)`, id, scope))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return access.Key{}, access.KeyNotFound(id)
	case err != nil:
		return access.Key{}, fmt.Errorf("get the API key: %w", err)
	}
	return k, nil
}

// List implements access.Store.
func (st *Keys) List(ctx context.Context, scope *uuid.UUID, f access.Filter) (page.Of[access.Key], error) {
	var none page.Of[access.Key]
	w := postgres.Where{}
	w.Add("true")
	if scope != nil {
		w.Add("k.bound_tenant_id = ?", *scope)
	}
	if f.Active != nil {
		w.Add("(k.revoked_at IS NULL AND coalesce(k.expires_at > ?, true)) = ?", f.Now, *f.Active)
	}
	var total int64
	if f.Total {
		if err := st.db.Read.GetContext(ctx, &total, `SELECT count(*)
		  FROM saga.api_keys k
		 WHERE `+w.Text(), w.Args...); err != nil {
			return none, fmt.Errorf("count API keys: %w", err)
		}
	}
	if f.After != nil {
		w.Add("k.id < ?", *f.After)
	}
	var read []access.Key
	rows, err := st.db.Read.QueryContext(ctx, fmt.Sprintf(`SELECT %s
	  FROM saga.api_keys k
	 WHERE %s
	 ORDER BY k.id DESC
	 LIMIT %d
	 OFFSET %d`,
		apiKeyColumns, w.Text(), f.Limit+1, f.Offset), w.Args...)
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			k, err := scanKey(rows)
			read = append(read, k)
			return err
		})
	}
	if err != nil {
		return none, fmt.Errorf("list API keys: %w", err)
	}
	found := page.Cut(f.Request, read)
	found.Total = total
	return found, nil
}

// Revoke implements access.Store.
func (st *Keys) Revoke(ctx context.Context, scope *uuid.UUID, id uuid.UUID, by string,
	at time.Time) (access.Key, error) {
	var k access.Key
	err := st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		before, err := scanKey(tx.QueryRowContext(ctx, `
			SELECT `+apiKeyColumns+` FROM saga.api_keys k
			 WHERE k.id = $1 AND ($2::uuid IS NULL OR k.bound_tenant_id = $2::uuid) FOR NO KEY UPDATE`, id, scope))
		if k = before; err != nil || before.RevokedAt != nil {
			return err
		}
		k = before.Revoked(by, at)
		if _, err := tx.ExecContext(ctx, `UPDATE saga.api_keys
		   SET revoked_at = $2, revoked_by = $3
		 WHERE id = $1`, id, at, by); err != nil {
			return err
		}
		return tellKey(ctx, tx, st.db.NewID(), at, "revoke", &before, &k)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return access.Key{}, access.KeyNotFound(id)
	case err != nil:
		return access.Key{}, fmt.Errorf("revoke the API key: %w", err)
	}
	return k, nil
}

// tellKey records an action on a key in the audit trail of the key's tenant. An action on a key for
// all tenants is recorded for the deployment.
func tellKey(ctx context.Context, tx *sqlx.Tx, id uuid.UUID, at time.Time, verb string, before,
	after *access.Key) error {
	tenant := operator.Deployment
	if after.Tenant != nil {
		tenant = after.Tenant.ID
	}
	var was any
	if before != nil {
		was = before.Audited()
	}
	details := map[string]any{"name": after.Name, "prefix": after.Prefix, "role": after.Role}
	if len(after.Queues) > 0 {
		details["queues"] = after.Queues
	}
	return auditdb.Tell(ctx, tx, id, tenant, at, operator.APIKey, after.ID.String(), verb, was, after.Audited(), details)
}

// useKeys locks the keys in id order, because otherwise nodes that record uses of the same keys
// would deadlock. After a wait for a lock, PostgreSQL evaluates the new version of the row.
const useKeys = `
WITH used AS (
	SELECT k.id, u.at FROM saga.api_keys k JOIN unnest($1::uuid[], $2::timestamptz[]) u (id, at) ON u.id = k.id
	 WHERE k.last_used_at IS NULL OR u.at >= k.last_used_at + $3 * interval '1 us'
	 ORDER BY k.id FOR UPDATE OF k
)
UPDATE saga.api_keys k SET last_used_at = used.at FROM used
 WHERE k.id = used.id`

// Used implements access.Store.
func (st *Keys) Used(ctx context.Context, at map[uuid.UUID]time.Time) error {
	ids, times := make([]uuid.UUID, 0, len(at)), make([]time.Time, 0, len(at))
	for id, t := range at {
		ids, times = append(ids, id), append(times, t)
	}
	if _, err := st.db.Read.ExecContext(ctx, useKeys, pq.Array(ids), pq.Array(times),
		access.UsedEvery.Microseconds()); err != nil {
		return fmt.Errorf("record the use of API keys: %w", err)
	}
	return nil
}
