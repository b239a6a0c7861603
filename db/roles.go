package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/lib/pq"
)

// The database roles, without logins of their own (docs/tenants.md). A login
// that is a member of them takes one on when it connects.
const (
	// AppRole sees and writes the rows of one tenant, whom skald.tenant_id names.
	AppRole = "saga_app_role"
	// EngineRole sees and writes those of all tenants: it drives their sagas.
	EngineRole = "saga_engine_role"
	// ReadonlyRole reads those of all tenants: reports and monitoring.
	ReadonlyRole = "saga_readonly_role"
)

// RolesSQL is what an administrator runs when Skald's own login may not create
// roles: it makes them, where they are missing, and lets every one of logins
// act as them. The one who owns the schema must be among logins.
func RolesSQL(logins ...string) string {
	var b strings.Builder
	for _, role := range []string{AppRole, EngineRole, ReadonlyRole} {
		fmt.Fprintf(&b, "DO $$ BEGIN CREATE ROLE %s NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;\n", role)
	}
	for _, login := range logins {
		fmt.Fprintf(&b, "GRANT %s, %s, %s TO %s;\n", AppRole, EngineRole, ReadonlyRole, pq.QuoteIdentifier(login))
	}
	return b.String()
}

// secure gives tables that are new their grants and policies, and all of them
// when the roles have come later than the schema. Without the roles, or the
// right to do it, it does nothing: Secured tells.
func secure(ctx context.Context, db *sql.DB, changed bool) error {
	var able bool
	err := db.QueryRowContext(ctx, `SELECT coalesce(pg_has_role(proowner, 'USAGE'), false)
		FROM (SELECT to_regprocedure('saga.secure_tables()') AS oid) f LEFT JOIN pg_proc USING (oid)`).Scan(&able)
	if err != nil || !able {
		return err
	}
	if !changed {
		found, err := insecurity(ctx, db)
		if err != nil || len(found) == 0 {
			return err
		}
	}
	if _, err := db.ExecContext(ctx, `SELECT saga.secure_tables()`); err != nil {
		return fmt.Errorf("secure the tables: %w", err)
	}
	return nil
}
