package postgres

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// TenantQuery is OfTenant.
var TenantQuery = OfTenant

func ReadTenant(ctx context.Context, db *DB, tenant uuid.UUID, query string, row func(*sql.Rows) error,
	args ...any) error {
	return db.ReadTenant(ctx, tenant, query, row, args...)
}

func InTenant(ctx context.Context, db *DB, tenant uuid.UUID, f func(*sqlx.Tx) error) error {
	return db.InTenant(ctx, tenant, f)
}

func Pooled(db *DB) bool { return db.pooled }
