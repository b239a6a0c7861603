package db

import (
	"context"
	"database/sql"
	"errors"
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

// Insecure is a database whose roles or row-level security are not in place,
// so that nothing but our own WHERE separates tenants.
type Insecure struct {
	Problems []string // what is wrong, in words; never empty
	Login    string   // who found it
}

// Error names the problems and what an administrator has to run.
func (e *Insecure) Error() string {
	return fmt.Sprintf("row-level security is not in place: %s. As an administrator of the database run what `skald migrate roles` prints, that is\n%sand then, as the owner of schema saga, `skald migrate up`",
		strings.Join(e.Problems, "; "), RolesSQL(e.Login))
}

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

// problems lists what is missing in the eyes of the session's login. The right
// to take a role on is called SET since PostgreSQL 16, MEMBER before.
const problems = `
WITH roles (name) AS (VALUES ('saga_app_role'), ('saga_engine_role'), ('saga_readonly_role'))
SELECT 'role ' || r.name || ' does not exist' FROM roles r WHERE to_regrole(r.name) IS NULL
UNION ALL
SELECT 'login ' || session_user || ' may not act as ' || r.name FROM roles r
 WHERE to_regrole(r.name) IS NOT NULL AND r.name <> 'saga_readonly_role'
   AND NOT pg_has_role(session_user, to_regrole(r.name), CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
UNION ALL
SELECT 'table ' || c.oid::regclass || ' is open' FROM pg_class c
 WHERE c.relnamespace IN (to_regnamespace('saga'), to_regnamespace('dlq'), to_regnamespace('jobs')) AND c.relkind IN ('r', 'p')
   AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
   AND NOT (c.relrowsecurity AND c.relforcerowsecurity
            AND (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname IN ('tenant_rows', 'engine_rows', 'readonly_rows')) = 3)
ORDER BY 1`

func insecurity(ctx context.Context, db *sql.DB) (found []string, err error) {
	rows, err := db.QueryContext(ctx, problems)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p string
		if err := rows.Scan(&p); err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, rows.Err()
}

// Secured returns nil when the login of dsn can act as each role and every
// table with a tenant has row-level security; otherwise an *Insecure, or why
// it could not find out.
func Secured(ctx context.Context, dsn string) error {
	return connected(dsn, func(db *sql.DB) error {
		e := &Insecure{}
		err := db.QueryRowContext(ctx, `SELECT session_user`).Scan(&e.Login)
		if err == nil {
			e.Problems, err = insecurity(ctx, db)
		}
		if err != nil {
			return fmt.Errorf("look at the database's roles: %w", err)
		}
		if len(e.Problems) > 0 {
			return e
		}
		return nil
	})
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

// connected calls f with a pool that is closed again.
func connected(dsn string, f func(*sql.DB) error) error {
	connector, err := pq.NewConnector(dsn)
	if err != nil { // its cause would cite the address, and in it the password
		return errors.New("the database address is neither a postgres:// URL nor a list of keyword=value")
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return f(db)
}
