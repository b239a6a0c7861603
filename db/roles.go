package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/lib/pq"
)

// The database roles, which cannot log in (docs/tenants.md). A login that is a member of them
// assumes one when it connects.
const (
	// AppRole may read and write the rows of one tenant, the one in skald.tenant_id.
	AppRole = "saga_app_role"
	// EngineRole may read and write the rows of all tenants, because it drives their sagas.
	EngineRole = "saga_engine_role"
	// ReadonlyRole may read the rows of all tenants, for reports and monitoring.
	ReadonlyRole = "saga_readonly_role"
	// LettersRole may read the dead letters of all tenants, and nothing outside their schema.
	LettersRole = "dlq_readonly_role"
	// JobsRole may read the job runs of all tenants, and nothing outside their schema.
	JobsRole = "jobs_readonly_role"
)

// RolesSQL returns statements for an administrator to run if Skald's own login may not create
// roles. They create missing roles and let each of the logins assume them. The owner of the schema
// must be among the logins.
func RolesSQL(logins ...string) string {
	var b strings.Builder
	for _, role := range []string{AppRole, EngineRole, ReadonlyRole, LettersRole, JobsRole} {
		fmt.Fprintf(&b, "DO $$ BEGIN CREATE ROLE %s NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;\n", role)
	}
	for _, login := range logins {
		fmt.Fprintf(&b, "GRANT %s, %s, %s TO %s;\n", AppRole, EngineRole, ReadonlyRole, pq.QuoteIdentifier(login))
	}
	return b.String()
}

// secure grants privileges and adds policies to new tables, and to all tables if the roles were
// created after the schema. Without the roles, or the right to do so, it does nothing; Secured
// reports that.
func secure(ctx context.Context, db *sql.DB, changed bool) error {
	var able bool
	err := db.QueryRowContext(ctx, `SELECT coalesce(pg_has_role(proowner, 'USAGE'), false)
		FROM (SELECT to_regprocedure('saga.secure_tables()') AS oid) f LEFT JOIN pg_proc USING (oid)`).Scan(&able)
	if err != nil || !able {
		return err
	}
	if !changed {
		found, err := insecurity(ctx, db)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return secureReaders(ctx, db) // whose roles may be newer than the schema
		}
	}
	if _, err := db.ExecContext(ctx, `SELECT saga.secure_tables()`); err != nil {
		return fmt.Errorf("secure the tables: %w", err)
	}
	return secureReaders(ctx, db)
}

// readable grants the roles of the engine and of readers, if they exist, the right to read a table
// of the schema skald.
func readable(table string) string {
	return `
DO $$
DECLARE
    r name;
BEGIN
    FOR r IN SELECT rolname FROM pg_roles WHERE rolname IN ('saga_engine_role', 'saga_readonly_role') LOOP
        EXECUTE format('GRANT SELECT ON skald.` + table + ` TO %I', r);
    END LOOP;
END;
$$`
}

// secureReaders grants the roles that read one schema their privileges. The schema may be from a
// version without these roles.
func secureReaders(ctx context.Context, db *sql.DB) error {
	var known bool
	err := db.QueryRowContext(ctx, `SELECT to_regprocedure('saga.secure_readers()') IS NOT NULL`).Scan(&known)
	if err == nil && known {
		_, err = db.ExecContext(ctx, `SELECT saga.secure_readers()`)
	}
	if err != nil {
		return fmt.Errorf("secure the tables for readers of one schema: %w", err)
	}
	return nil
}
