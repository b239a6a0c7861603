package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/lib/pq"
)

// Insecure is the error for a database whose roles or row-level security are not in place, so that
// only the WHERE clauses of Skald separate tenants, or whose schema the login cannot even read.
type Insecure struct {
	Problems []string // descriptions of the problems; never empty
	Login    string   // the login that found them
	Owner    string   // owner of schema saga; Login if there is none yet
	Database string
	closed   bool // Login may not read the schema, for lack of the roles
}

// Error describes the problems, with many open tables as one, and the commands to run.
func (e *Insecure) Error() string {
	what := "row-level security is not in place"
	if e.closed {
		what = fmt.Sprintf("login %s may not read the schema", e.Login)
	}
	return fmt.Sprintf("%s: %s. %s", what, strings.Join(e.summary(), "; "), e.Remedy())
}

// Remedy returns which commands to run, and as which user.
func (e *Insecure) Remedy() string {
	var steps []string
	if e.lacksRoles() {
		steps = append(steps, fmt.Sprintf("As an administrator of the database, run `skald migrate roles %s | psql %s`", logins(e.Owner, e.Login), word(e.Database)))
	}
	if _, open := e.tables(); open > 0 {
		run := "run"
		if len(steps) == 0 {
			run = "Run"
		}
		steps = append(steps, fmt.Sprintf("%s `skald migrate up` as %s, which owns the schema", run, e.Owner))
	}
	return strings.Join(steps, ", and then ")
}

const openTable = " is open" // suffix of a table's problem

// tables returns the first open table and the number of open tables.
func (e *Insecure) tables() (first string, n int) {
	for _, p := range e.Problems {
		if strings.HasPrefix(p, "table ") && strings.HasSuffix(p, openTable) {
			if n++; n == 1 {
				first = p
			}
		}
	}
	return first, n
}

func (e *Insecure) lacksRoles() bool {
	_, open := e.tables()
	return len(e.Problems) > open
}

// summary returns Problems with all open tables as one.
func (e *Insecure) summary() []string {
	var out []string
	for _, p := range e.Problems {
		if !strings.HasSuffix(p, openTable) {
			out = append(out, p)
		}
	}
	if first, n := e.tables(); n == 1 {
		out = append(out, first)
	} else if n > 1 {
		out = append(out, fmt.Sprintf("%d tables are open to every tenant (%s is the first)", n, strings.TrimSuffix(strings.TrimPrefix(first, "table "), openTable)))
	}
	return out
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_.@-]+$`)

// word quotes s as one word for a shell.
func word(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func logins(owner, login string) string {
	if owner == login {
		return word(owner)
	}
	return word(owner) + " " + word(login)
}

// problems lists what is missing from the point of view of the session's login. Since PostgreSQL
// 16, the right to assume a role is called SET, before that MEMBER.
const problems = `
WITH roles (name) AS (VALUES ('saga_app_role'), ('saga_engine_role'), ('saga_readonly_role'))
SELECT 'role ' || r.name || ' does not exist' FROM roles r WHERE to_regrole(r.name) IS NULL
UNION ALL
SELECT 'login ' || session_user || ' may not act as ' || r.name FROM roles r
 WHERE to_regrole(r.name) IS NOT NULL AND r.name <> 'saga_readonly_role'
   AND NOT pg_has_role(session_user, to_regrole(r.name),
                       CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
UNION ALL
SELECT 'table ' || c.oid::regclass || ' is open' FROM pg_class c
 WHERE c.relnamespace IN (to_regnamespace('saga'), to_regnamespace('dlq'), to_regnamespace('jobs'))
   AND c.relkind IN ('r', 'p')
   AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
   AND NOT (c.relrowsecurity AND c.relforcerowsecurity
            AND (SELECT count(*)
                   FROM pg_policy p
                  WHERE p.polrelid = c.oid AND p.polname IN ('tenant_rows', 'engine_rows', 'readonly_rows')) = 3)
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

// Secured returns nil if the login of dsn can assume each role and every table with a tenant has
// row-level security. Otherwise it returns an *Insecure, or the error that prevented the check.
func Secured(ctx context.Context, dsn string) error {
	return connected(dsn, func(db *sql.DB) error {
		e, err := look(ctx, db)
		if err != nil {
			return fmt.Errorf("read the database's roles: %w", err)
		}
		if len(e.Problems) > 0 {
			return e
		}
		return nil
	})
}

// look returns the problems of the login of db, if there are any.
func look(ctx context.Context, db *sql.DB) (*Insecure, error) {
	e := &Insecure{}
	err := db.QueryRowContext(ctx, `SELECT session_user, current_database(),
		coalesce((SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'saga'),
		         session_user)`).Scan(&e.Login, &e.Database, &e.Owner)
	if err == nil {
		e.Problems, err = insecurity(ctx, db)
	}
	return e, err
}

// denied reports whether err says that the login lacks a privilege.
func denied(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "42501"
}

// unreadable explains why the schema may not be read.
func unreadable(ctx context.Context, db *sql.DB, err error) error {
	e, lookErr := look(ctx, db)
	if lookErr != nil || !e.lacksRoles() {
		return err
	}
	e.closed = true
	return e
}

// notOwner explains why the schema may not be changed.
func notOwner(ctx context.Context, db *sql.DB, err error) error {
	e, lookErr := look(ctx, db)
	if lookErr != nil {
		return err
	}
	if e.Owner == e.Login {
		return fmt.Errorf("login %s may not create what Skald needs in database %s: make it the owner of the database, or GRANT it CREATE ON DATABASE (%w)", e.Login, e.Database, err)
	}
	return fmt.Errorf("login %s may not change the schema, which belongs to %s: run `skald migrate up` as %s, and start the server with database.auto_migrate off (%w)",
		e.Login, e.Owner, e.Owner, err)
}

// connected calls f with a connection pool, and closes it afterwards.
func connected(dsn string, f func(*sql.DB) error) error {
	return connectedBy(dsn, func(c driver.Connector) driver.Connector { return c }, f)
}

// connectedBy is connected with connections that by creates.
func connectedBy(dsn string, by func(driver.Connector) driver.Connector, f func(*sql.DB) error) error {
	connector, err := pq.NewConnector(dsn)
	if err != nil { // its cause would contain the address, including the password
		return errors.New("the database address is neither a postgres:// URL nor a list of keyword=value pairs")
	}
	db := sql.OpenDB(by(connector))
	defer db.Close()
	return f(db)
}
