package postgres_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// neighbours are two tenants, each with sagas, logs, keys and a workflow, behind stores that log in
// as login.
type neighbours struct {
	db      *postgres.DB
	tenants [2]uuid.UUID
	sagas   [2]uuid.UUID
}

func neighboursOn(t *testing.T, login string) neighbours {
	t.Helper()
	n := neighbours{db: pgtest.Connect(t, login)}
	st := sagadb.NewSagas(n.db)
	for i := range n.tenants {
		n.tenants[i] = pgtest.NewID()
		if _, _, err := sagadb.NewWorkflows(n.db).Register(t.Context(), n.tenants[i], pgtest.Order, false,
			pgtest.Now()); err != nil {
			t.Fatal(err)
		}
		batch := pgtest.SomeSagas(3)
		for j := range batch {
			batch[j].Tenant.ID, batch[j].Key.TenantID = n.tenants[i], n.tenants[i]
			batch[j].Metadata = []byte(`{"team":5}`)
		}
		if r, err := st.Create(t.Context(), batch); err != nil || r[0].Created != saga.Stored {
			t.Fatalf("create: %+v, %v", r, err)
		}
		pgtest.Commit(t, st, []saga.Change{pgtest.Applied(saga.NewInstance(batch[0].Saga, pgtest.Order), pgtest.Done())})
		n.sagas[i] = batch[0].ID
	}
	return n
}

// own lists the tables and views whose rows belong to a tenant, with the column that has the
// tenant's id.
var own = map[string]string{
	"saga_states": "tenant_id", "saga_step_logs": "saga_id", "idempotency_keys": "tenant_id", "workflows": "tenant_id",
	"workflow_definitions": "tenant_id", "sagas": "tenant_id", "saga_instances": "id", "saga_steps": "saga_id",
	"tenant_metadata": "id",
}

// Invariant I14, threat T12: even if our own WHERE is forgotten, a tenant sees and writes only
// its own rows, and without a tenant none are visible.
func TestWithoutAWhereATenantStillSeesOnlyItsRows(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	n := neighboursOn(t, pgtest.PlainLogin(t, dsn))
	super := pgtest.Observer(t, dsn)
	for table, column := range own {
		query := `SELECT coalesce(array_agg(` + column + `::text ORDER BY 1), '{}') FROM saga.` + table
		whose := query + ` WHERE ` + column + ` IN (SELECT $1::uuid UNION SELECT id FROM saga.saga_states WHERE tenant_id = $1)`
		for _, tenant := range append(n.tenants[:], uuid.Nil) {
			var want pq.StringArray
			if table == "tenant_metadata" { // it shows nothing to the superuser either
				whose = `SELECT coalesce(array_agg(id::text ORDER BY id), '{}') FROM saga.saga_states WHERE tenant_id = $1`
				query = `SELECT coalesce(array_agg(id::text ORDER BY id), '{}') FROM saga.` + table
			}
			if err := super.QueryRowContext(t.Context(), whose, tenant).Scan(&want); err != nil {
				t.Fatal(err)
			}
			if (len(want) == 0) != (tenant == uuid.Nil) {
				t.Fatalf("%s: %d rows to look for", table, len(want))
			}
			var got pq.StringArray
			err := postgres.InTenant(t.Context(), n.db, tenant,
				func(tx *sqlx.Tx) error { return tx.GetContext(t.Context(), &got, query) })
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff([]string(want), []string(got)); diff != "" || err != nil {
				t.Errorf("%s: %v (-own +seen):\n%s", table, err, diff)
			}
			// The same holds for a prepared statement, with either kind of plan.
			for range 7 {
				got = nil
				err := postgres.ReadTenant(t.Context(), n.db, tenant,
					postgres.TenantQuery(`SELECT `+column+` FROM saga.`+table, ""), func(rows *sql.Rows) error {
						got = append(got, "")
						return rows.Scan(&got[len(got)-1])
					})
				slices.Sort(got)
				if diff := cmp.Diff([]string(want), append([]string{}, got...)); diff != "" || err != nil {
					t.Fatalf("%s, prepared: %v (-own +seen):\n%s", table, err, diff)
				}
			}
		}
		for name, pool := range map[string]*sql.DB{"lists": n.db.Lists(), "points": n.db.Points()} {
			if rows := pgtest.Ask[int](t, pool, `SELECT count(*) FROM saga.`+table); rows != 0 {
				t.Errorf("%s: the connections for %s show %d rows without a tenant", table, name, rows)
			}
		}
		if rows, all := pgtest.Ask[int](t, n.db.SQL(), `SELECT count(*) FROM saga.`+table),
			pgtest.Ask[int](t, super, `SELECT count(*) FROM saga.`+table); rows != all {
			t.Errorf("%s: the engine sees %d of %d rows", table, rows, all)
		}
	}
}

func TestATenantCannotWriteAForeignRow(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	n := neighboursOn(t, pgtest.PlainLogin(t, dsn))
	me, other := n.tenants[0], n.tenants[1]
	write := func(statement string, args ...any) (int64, error) {
		var touched int64
		err := postgres.InTenant(t.Context(), n.db, me, func(tx *sqlx.Tx) error {
			res, err := tx.ExecContext(t.Context(), statement, args...)
			if err == nil {
				touched, err = res.RowsAffected()
			}
			return err
		})
		return touched, err
	}
	var tables pq.StringArray
	if err := n.db.SQL().QueryRowContext(t.Context(), `SELECT array_agg(c.oid::regclass::text) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
		WHERE c.relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs') AND c.relkind IN ('r', 'p')`).Scan(&tables); err != nil || len(tables) < 5 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	for _, table := range tables {
		// The policy is checked before any constraint.
		if _, err := write(`INSERT INTO `+table+` (tenant_id) VALUES ($1)`, other); !refused(err) {
			t.Errorf("a foreign row into %s: %v, want it refused", table, err)
		}
	}
	for _, tt := range []struct {
		name, statement string
		args            []any
		refused         bool
	}{
		{"change a foreign saga", `UPDATE saga.saga_states SET description = 'x' WHERE id = $1`, []any{n.sagas[1]}, false},
		{"delete a foreign saga", `DELETE FROM saga.saga_states WHERE id = $1`, []any{n.sagas[1]}, false},
		{"delete foreign step logs", `DELETE FROM saga.saga_step_logs WHERE saga_id = $1`, []any{n.sagas[1]}, false},
		{"lock a foreign workflow", `UPDATE saga.workflows SET enabled = false WHERE tenant_id = $1`, []any{other}, false},
		{"give a saga away", `UPDATE saga.saga_states SET tenant_id = $2 WHERE id = $1`, []any{n.sagas[0], other}, true},
		{"log for a foreign saga", `INSERT INTO saga.saga_step_logs (saga_id, step_index, step_name, action, status) VALUES ($1, 2, 's', 'EXECUTE', 'RUNNING')`, []any{n.sagas[1]}, true},
		{"read the deployment's keys", `SELECT FROM saga.deployment_secrets`, nil, true},
		{"end a node's lease", `UPDATE saga.engine_nodes SET lease_until = now()`, nil, true},
		{"clean up", `SELECT saga.cleanup_expired_sagas(now())`, nil, true},
		{"drop a policy", `DROP POLICY tenant_rows ON saga.saga_states`, nil, true},
		{"switch the fence off", `ALTER TABLE saga.saga_states NO FORCE ROW LEVEL SECURITY`, nil, true},
	} {
		if touched, err := write(tt.statement, tt.args...); touched != 0 || refused(err) != tt.refused ||
			!tt.refused && err != nil {
			t.Errorf("%s: %d rows, %v; want none, refused: %v", tt.name, touched, err, tt.refused)
		}
	}
	if touched, err := write(`UPDATE saga.saga_states SET description = 'x'`); err != nil || touched != 3 {
		t.Errorf("its own sagas: %d changed, %v; want 3", touched, err)
	}
}

func refused(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "42501"
}

// Threat T12: one connection serves two tenants in turn, sometimes with an error or a caller
// that leaves, and never shows one the other's rows.
func TestOneConnectionForTwoTenantsKeepsThemApart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		login  func(*testing.T, string) string
		rounds int
	}{{"direct", pgtest.PlainLogin, 2000}, {"through a pooler", throughPooler, 500}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := neighboursOn(t, tt.login(t, testdb.DSN(t)))
			n.db.Points().SetMaxOpenConns(1)
			n.db.Lists().SetMaxOpenConns(1)
			st := sagadb.NewSagas(n.db)
			everything := postgres.TenantQuery(`SELECT s.tenant_id FROM saga.saga_states s`, "")
			for i := range tt.rounds {
				me, other := i%2, 1-i%2
				tenant := n.tenants[me]
				rows := 0
				row := func(scan func(...any) error) error {
					var whose uuid.UUID
					if err := scan(&whose); err != nil {
						return err
					}
					if rows++; whose != tenant {
						return fmt.Errorf("a row of %s", whose)
					}
					return nil
				}
				if err := postgres.ReadTenant(t.Context(), n.db, tenant, everything,
					func(r *sql.Rows) error { return row(r.Scan) }); err != nil || rows != 3 {
					t.Fatalf("round %d: prepared: %d rows, %v", i, rows, err)
				}
				if s, err := st.Get(t.Context(), tenant, n.sagas[me]); err != nil || s.Tenant.ID != tenant {
					t.Fatalf("round %d: its own saga: %+v, %v", i, s.Tenant, err)
				}
				if _, err := st.Get(t.Context(), tenant, n.sagas[other]); fault.KindOf(err) != fault.NotFound {
					t.Fatalf("round %d: a foreign saga: %v", i, err)
				}
				if i%4 > 1 {
					continue
				}
				found, err := st.List(t.Context(), tenant,
					saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}, Metadata: []byte(`{"team":5}`)})
				if err != nil || found.Total != 3 ||
					slices.ContainsFunc(found.Items, func(s saga.Saga) bool { return s.Tenant.ID != tenant }) {
					t.Fatalf("round %d: list: %d sagas, %v", i, found.Total, err)
				}
				if i%16 == 0 {
					left, leave := context.WithCancel(t.Context())
					err := postgres.InTenant(left, n.db, tenant, func(tx *sqlx.Tx) error {
						leave()
						_, err := tx.ExecContext(t.Context(), `SELECT 1/0`)
						return err
					})
					if err == nil {
						t.Fatal("a division by zero is not an error")
					}
				}
				for _, pool := range []*sql.DB{n.db.Points(), n.db.Lists()} {
					if left := pgtest.Ask[string](t, pool, `SELECT coalesce(current_setting('skald.tenant_id', true), '')`); left != "" {
						t.Fatalf("round %d: the connection still belongs to %s", i, left)
					}
				}
			}
		})
	}
}

// throughPooler is dsn through a pooler that drops the role a connection asks for, as PgBouncer
// does when configured to ignore that parameter. The login then acts with its inherited rights,
// which are all of them.
func throughPooler(t *testing.T, dsn string) string {
	t.Helper()
	server, err := pq.NewConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, net.JoinHostPort(server.Host, fmt.Sprint(server.Port)), func(message []byte) []byte {
		// Length and protocol, four bytes each, then names and values, each terminated by a
		// zero, and one more zero.
		kept := slices.Clone(message[:8])
		fields := strings.Split(strings.TrimSuffix(string(message[8:]), "\x00\x00"), "\x00")
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] != "role" {
				kept = append(kept, fields[i]+"\x00"+fields[i+1]+"\x00"...)
			}
		}
		kept = append(kept, 0)
		binary.BigEndian.PutUint32(kept, uint32(len(kept)))
		return kept
	})
	login := testdb.Login(t, dsn, "INHERIT IN ROLE saga_app_role, saga_engine_role")
	return pgtest.With(t, pgtest.With(t, login, "host", "127.0.0.1"), "port", p.port)
}

func TestStoresKeepTheContractThroughAPooler(t *testing.T) {
	open := func(t *testing.T) storetest.Env {
		db := pgtest.Connect(t, throughPooler(t, testdb.DSN(t)))
		if !postgres.Pooled(db) {
			t.Fatal("the pooler was not noticed")
		}
		return pgtest.EnvOf(t, db)
	}
	storetest.Sagas(t, open)
	storetest.Workflows(t, open)
}

// Without the roles, only WHERE tenant_id separates the tenants.
func TestStoresKeepTheContractWithoutRoles(t *testing.T) {
	open := func(t *testing.T) storetest.Env {
		db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t), Unsecured: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return pgtest.EnvOf(t, db)
	}
	storetest.Sagas(t, open)
	storetest.Workflows(t, open)
}
