package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// withoutTenant contains the tables without tenant_id and the reason why they need none. New ones
// must be added here deliberately.
var withoutTenant = map[string]string{
	"saga.saga_schema_version": "says nothing about anybody",
	"saga.engine_nodes":        "nodes drive the sagas of all tenants; the engine's alone",
	"saga.deployment_secrets":  "keys of the deployment; the engine's alone",
	"saga.publications":        "who publishes the events of all tenants; the engine's alone",
	"saga.feed_clock":          "one number about the cluster; the engine's alone",
	"saga.saga_counts_horizon": "how far the statistics have come; everybody may know",
	"saga.session_secrets":     "as api_keys", "saga.api_keys": "read before it is known who asks; the engine's alone",
	"dlq.dlq_readers":       "who reads topics for all tenants; the engine's alone",
	"dlq.dlq_inflows":       "where topics began, whose records are not yet anybody's; the engine's alone",
	"jobs.event_sources":    "how far topics have become events; the engine's alone",
	"jobs.leader":           "who leads the scheduler of all tenants; the engine's alone",
	"jobs.schedulers":       "nodes that would lead; the engine's alone",
	"jobs.settings":         "of the deployment; the engine's alone",
	"jobs.settings_version": "of the deployment; the engine's alone",
	"jobs.settings_history": "of the deployment; the engine's alone",
}

// as returns a connection that acts as role. Its login has no rights of its own.
func as(t *testing.T, dsn, role string) *sql.Conn {
	t.Helper()
	conn, err := open(t, testdb.Login(t, dsn, "NOINHERIT IN ROLE "+role)).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.ExecContext(t.Context(), "SET ROLE "+role); err != nil {
		t.Fatal(err)
	}
	return conn
}

var roles = []string{db.AppRole, db.EngineRole, db.ReadonlyRole}

func denied(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "42501"
}

// ourSchemas is a condition for queries that selects the relations of Skald.
const ourSchemas = `::regnamespace::text IN ('saga', 'dlq', 'jobs')`

// tables returns our tables, with their schemas, and whether each has a tenant.
func tables(t *testing.T, pool *sql.DB) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, line := range texts(t, pool, `SELECT format('%s %s', c.oid::regclass, a.attname) FROM pg_class c
		LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
		WHERE c.relnamespace`+ourSchemas+` AND c.relkind IN ('r', 'p')`) {
		name, tenant, _ := strings.Cut(line, " ")
		found[name] = tenant != ""
	}
	if len(found) < 10 {
		t.Fatalf("only %d tables", len(found))
	}
	return found
}

// Requirements D8, F67, T12: no table is forgotten.
func TestEveryTableWithATenantIsSecured(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	for table, hasTenant := range tables(t, pool) {
		if why := withoutTenant[table]; hasTenant != (why == "") {
			t.Errorf("%s: has a tenant: %v; the list says %q", table, hasTenant, why)
		}
		if !hasTenant {
			continue
		}
		if !ask[bool](t, pool, `SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = $1::regclass`, table) {
			t.Errorf("%s: row-level security is not forced", table)
		}
		got := texts(t, pool, `SELECT format('%s %s %s to %s: %s / %s', policyname, permissive, cmd, array_to_string(sorted, ','), qual, with_check)
			FROM (SELECT *, (SELECT array_agg(r ORDER BY r) FROM unnest(roles) r) AS sorted FROM pg_policies) p WHERE schemaname || '.' || tablename = $1 ORDER BY policyname`, table)
		own := `(tenant_id = ( SELECT (NULLIF(current_setting('skald.tenant_id'::text, true), ''::text))::uuid AS "nullif"))`
		readers := db.ReadonlyRole
		if schema, _, _ := strings.Cut(table, "."); readerOf[schema] != "" {
			readers = readerOf[schema] + "," + readers
		}
		want := []string{
			"engine_rows PERMISSIVE ALL to saga_engine_role: true / true",
			"readonly_rows PERMISSIVE SELECT to " + readers + ": true / ",
			"tenant_rows PERMISSIVE ALL to saga_app_role: " + own + " / " + own,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: policies (-want +got):\n%s", table, diff)
		}
	}
	if err := db.Secured(t.Context(), testdb.DSN(t)); err != nil {
		t.Errorf("the check that Skald makes at its start: %v", err)
	}
}

// secret reports whether a table must not be readable for reports.
func secret(table string) bool {
	return strings.HasSuffix(table, "_secrets") || table == "saga.api_keys"
}

// Requirements S2-121, S2-122, T15.
func TestRolesHaveTheseGrantsAndNoOthers(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	grants := func(object, role, kinds string, has string) string {
		var got []string
		for _, kind := range strings.Fields(kinds) {
			if ask[bool](t, pool, `SELECT `+has+`($1, $2, $3)`, role, object, kind) {
				got = append(got, kind)
			}
		}
		return strings.Join(got, " ")
	}
	for table, hasTenant := range tables(t, pool) {
		want := map[string]string{db.AppRole: "", db.EngineRole: "SELECT INSERT UPDATE DELETE", db.ReadonlyRole: "SELECT"}
		if hasTenant {
			want[db.AppRole] = "SELECT INSERT UPDATE DELETE"
		}
		switch {
		case appendOnly(table):
			want[db.AppRole], want[db.EngineRole] = "SELECT INSERT", "SELECT INSERT"
		case secret(table):
			want[db.ReadonlyRole] = ""
		case table == "saga.saga_schema_version":
			want[db.AppRole], want[db.EngineRole] = "SELECT", "SELECT"
		case table == "saga.saga_counts_horizon":
			want[db.AppRole] = "SELECT"
		}
		if strings.HasSuffix(table, "_archive") {
			want[db.AppRole] = "SELECT"
		}
		schema, _, _ := strings.Cut(table, ".")
		want[readerOf[schema]] = want[db.ReadonlyRole]
		for _, role := range append([]string{db.LettersRole, db.JobsRole}, roles...) {
			if got := grants(table, role, "SELECT INSERT UPDATE DELETE TRUNCATE REFERENCES TRIGGER", "has_table_privilege"); got != want[role] {
				t.Errorf("%s on %s: %q, want %q", role, table, got, want[role])
			}
		}
		if n := ask[int](t, pool, `SELECT count(*) FROM pg_class, aclexplode(relacl) a WHERE oid = $1::regclass AND a.grantee = 0`, table); n > 0 {
			t.Errorf("%s: everybody has %d privileges", table, n)
		}
	}
	for _, view := range texts(t, pool, `SELECT oid::regclass FROM pg_class WHERE relnamespace`+ourSchemas+` AND relkind = 'v'`) {
		for _, role := range append([]string{db.LettersRole, db.JobsRole}, roles...) {
			if got := grants(view, role, "INSERT UPDATE DELETE", "has_table_privilege"); got != "" {
				t.Errorf("%s on the view %s: %q; views are for reading", role, view, got)
			}
		}
	}
	for _, role := range roles {
		for _, schema := range []string{"saga", "dlq"} {
			if got := grants(schema, role, "USAGE CREATE", "has_schema_privilege"); got != "USAGE" {
				t.Errorf("%s on the schema %s: %q, want USAGE", role, schema, got)
			}
		}
		want := "USAGE"
		if role == db.ReadonlyRole {
			want = ""
		}
		for _, sequence := range texts(t, pool, `SELECT oid::regclass FROM pg_class WHERE relnamespace`+ourSchemas+` AND relkind = 'S'`) {
			if got := grants(sequence, role, "USAGE UPDATE", "has_sequence_privilege"); got != want {
				t.Errorf("%s on %s: %q, want %q", role, sequence, got, want)
			}
		}
	}
	if rights := texts(t, pool, `SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)
		AND (rolsuper OR rolcanlogin OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication)`, pq.Array(append([]string{db.LettersRole, db.JobsRole}, roles...))); len(rights) > 0 {
		t.Errorf("%v have rights beyond the schema", rights)
	}
}

func TestFunctionsAndViewsDoNotGrantTheirOwnersRights(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	if open := texts(t, pool, `SELECT relname FROM pg_class WHERE relnamespace`+ourSchemas+` AND relkind = 'v' AND relname NOT LIKE 'tenant\_%'
		AND NOT coalesce(reloptions @> ARRAY['security_invoker=true'], false)`); len(open) > 0 {
		t.Errorf("views that show every tenant's rows to the application role: %v", open)
	}
	for _, tt := range []struct{ name, query string }{
		{"functions whose search_path the caller chooses", `SELECT proname FROM pg_proc WHERE pronamespace` + ourSchemas + `
			AND prokind <> 'p' -- one that commits cannot have settings; its names are qualified
			AND NOT coalesce(array_to_string(proconfig, ' ') LIKE '%search_path=%', false)`},
		{"functions of the owner's rights that others than the engine may call", `SELECT proname FROM pg_proc WHERE pronamespace` + ourSchemas + ` AND prosecdef
			AND proname <> 'feed_horizon' -- shows one transaction id
			AND (has_function_privilege('saga_app_role', oid, 'EXECUTE') OR has_function_privilege('saga_readonly_role', oid, 'EXECUTE'))`},
		{"functions that everybody may call", `SELECT proname FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) a
			WHERE pronamespace` + ourSchemas + ` AND a.grantee = 0`},
	} {
		if found := texts(t, pool, tt.query); len(found) > 0 {
			t.Errorf("%s: %v", tt.name, found)
		}
	}
	if !ask[bool](t, pool, `SELECT prosecdef AND has_function_privilege('saga_engine_role', oid, 'EXECUTE') FROM pg_proc WHERE oid = 'saga.cleanup_expired_sagas'::regproc`) {
		t.Error("the engine cannot clean up with the owner's rights")
	}
}

// seeded is a database in which every table with a tenant has one row for each of two tenants, with
// arbitrary values.
func seeded(t *testing.T) (dsn string, tenants [2]uuid.UUID) {
	t.Helper()
	dsn, tenants = testdb.DSN(t), [2]uuid.UUID{uuid.New(), uuid.New()}
	pool := open(t, dsn)
	for _, s := range texts(t, pool, `SELECT format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', conrelid::regclass, conname) FROM pg_constraint
		WHERE connamespace`+ourSchemas+` AND contype IN ('c', 'f') AND conparentid = 0`) {
		execute(t, pool, s)
	}
	for table, hasTenant := range tables(t, pool) {
		if !hasTenant || isPartition(t, pool, table) {
			continue
		}
		columns := texts(t, pool, `SELECT quote_ident(attname) || ' ' || atttypid::regtype FROM pg_attribute
			WHERE attrelid = $1::regclass AND attnum > 0 AND attnotnull AND NOT atthasdef AND attidentity = '' AND attname <> 'tenant_id'`, table)
		for i, tenant := range tenants {
			names, values := "tenant_id", "'"+tenant.String()+"'"
			for _, column := range columns {
				name, kind, _ := strings.Cut(column, " ")
				value := map[string]string{
					"uuid": uuid.NewString(), "jsonb": "{}", "bytea": "", "timestamp with time zone": "now", "boolean": "true",
					"character varying": uuid.NewString()[:4], "text": uuid.NewString(),
				}[kind]
				if strings.HasSuffix(kind, "[]") {
					value = "{}"
				} else if value == "" && kind != "bytea" {
					value = fmt.Sprint(1 + i)
				}
				names, values = names+", "+name, values+", '"+value+"'"
			}
			execute(t, pool, `INSERT INTO `+table+` (`+names+`) VALUES (`+values+`)`)
		}
	}
	return dsn, tenants
}

// isPartition reports whether a table is a partition, whose rows belong to its parent.
func isPartition(t *testing.T, pool *sql.DB, table string) bool {
	return ask[bool](t, pool, `SELECT relispartition FROM pg_class WHERE oid = $1::regclass`, table)
}

// Invariant I14, failure F67: in every table.
func TestEveryTableShowsATenantItsOwnRows(t *testing.T) {
	t.Parallel()
	dsn, tenants := seeded(t)
	app, engine := as(t, dsn, db.AppRole), as(t, dsn, db.EngineRole)
	pool := open(t, dsn)
	for table, hasTenant := range tables(t, pool) {
		if !hasTenant || isPartition(t, pool, table) {
			continue
		}
		count := `SELECT count(*) FROM ` + table
		for _, tt := range []struct {
			tenant uuid.UUID
			want   int
		}{{tenants[0], 1}, {tenants[1], 1}, {uuid.New(), 0}, {uuid.Nil, 0}} {
			if got, err := inTenant(t.Context(), app, tt.tenant, count); err != nil || got != tt.want {
				t.Errorf("%s shows the tenant %s %d rows, %v; want %d", table, tt.tenant, got, err, tt.want)
			}
		}
		if got, err := inTenant(t.Context(), engine, uuid.Nil, count); err != nil || got != 2 {
			t.Errorf("%s shows the engine %d rows, %v; want 2", table, got, err)
		}
	}
}

// Requirement T14, S2-121: append-only tables are append-only for every role that Skald assumes.
func TestNoRoleCanChangeTheAuditTrail(t *testing.T) {
	t.Parallel()
	dsn, tenants := seeded(t)
	trail := 0
	for table := range tables(t, open(t, dsn)) {
		if !appendOnly(table) {
			continue
		}
		trail++
		for _, role := range roles {
			conn := as(t, dsn, role)
			for _, statement := range []string{
				`UPDATE %s SET tenant_id = tenant_id`, `DELETE FROM %s`, `TRUNCATE %s`, `TRUNCATE %s CASCADE`, `DROP TABLE %s`,
				`ALTER TABLE %s DISABLE TRIGGER ALL`, `ALTER TABLE %s DISABLE ROW LEVEL SECURITY`,
			} {
				if _, err := inTenant(t.Context(), conn, tenants[0], fmt.Sprintf(statement, table)); !denied(err) {
					t.Errorf("%s: "+statement+": %v, want it denied", role, table, err)
				}
			}
		}
	}
	if trail == 0 {
		t.Error("no table is append-only")
	}
}

func appendOnly(table string) bool {
	return table == "saga.saga_events" || table == "saga.saga_events_archive" || strings.HasPrefix(table, "saga.audit_")
}

// Requirement S2-122, T15.
func TestTheReadonlyRoleReadsEverythingAndWritesNothing(t *testing.T) {
	t.Parallel()
	dsn, _ := seeded(t)
	pool, conn := open(t, dsn), as(t, dsn, db.ReadonlyRole)
	execute(t, pool, `CREATE TABLE saga.later (n int)`)
	for table, hasTenant := range tables(t, pool) {
		var n int
		err := conn.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n)
		if secret(table) {
			if !denied(err) {
				t.Errorf("%s: %v, want it denied", table, err)
			}
		} else if err != nil {
			t.Errorf("read %s: %v", table, err)
		}
		column := "tenant_id"
		if !hasTenant {
			column = ask[string](t, pool, `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND attidentity = '' LIMIT 1`, table)
		}
		for _, statement := range []string{"INSERT INTO %s DEFAULT VALUES", "DELETE FROM %s", "TRUNCATE %s", "UPDATE %s SET " + column + " = NULL"} {
			if _, err := conn.ExecContext(t.Context(), fmt.Sprintf(statement, table)); !denied(err) {
				t.Errorf(statement+": %v, want it denied", table, err)
			}
		}
	}
	for _, view := range texts(t, pool, `SELECT schemaname || '.' || viewname FROM pg_views WHERE schemaname IN ('saga', 'dlq', 'jobs')`) {
		if _, err := conn.ExecContext(t.Context(), `SELECT * FROM `+view); err != nil {
			t.Errorf("read %s: %v", view, err)
		}
	}
	for _, statement := range []string{`SELECT saga.cleanup_expired_sagas(now())`, `CREATE TABLE saga.mine (n int)`, `SELECT saga.secure_tables()`} {
		if _, err := conn.ExecContext(t.Context(), statement); !denied(err) {
			t.Errorf("%s: %v, want it denied", statement, err)
		}
	}
	var n int
	if err := conn.QueryRowContext(t.Context(), `SELECT count(*) FROM saga.saga_instances`).Scan(&n); err != nil || n != 2 {
		t.Errorf("the view of sagas shows %d of both tenants' two, %v", n, err)
	}
}

// A table created by a later migration is secured by the next `migrate up`.
func TestTablesOfLaterMigrationsAreSecuredToo(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	execute(t, open(t, dsn), `CREATE TABLE saga.later (tenant_id uuid NOT NULL, n int)`)
	var insecure *db.Insecure
	if err := db.Secured(t.Context(), dsn); !errors.As(err, &insecure) ||
		!slices.Equal(insecure.Problems, []string{"table saga.later is open"}) {
		t.Errorf("an open table: %v", err)
	}
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if err := db.Secured(t.Context(), dsn); err != nil {
		t.Errorf("after migrate up: %v", err)
	}
	tenant := uuid.New()
	conn := as(t, dsn, db.AppRole)
	for of, ok := range map[uuid.UUID]bool{tenant: true, uuid.New(): false} {
		_, err := inTenant(t.Context(), conn, tenant, `INSERT INTO saga.later (tenant_id) VALUES ('`+of.String()+`') RETURNING 1`)
		if (err == nil) != ok || err != nil && !denied(err) {
			t.Errorf("insert of an own row: %v, %v", ok, err)
		}
	}
}

// inTenant executes one statement as a tenant, or as none if it is uuid.Nil, and returns the number
// in its first row, if it has one.
func inTenant(ctx context.Context, conn *sql.Conn, tenant uuid.UUID, statement string) (n int, err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if tenant != uuid.Nil {
		if _, err := tx.ExecContext(ctx, `SELECT set_config('skald.tenant_id', $1, true)`, tenant.String()); err != nil {
			return 0, err
		}
	}
	if err := tx.QueryRowContext(ctx, statement).Scan(&n); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return n, tx.Commit()
}
