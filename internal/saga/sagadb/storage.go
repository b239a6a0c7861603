package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/postgres"
)

// tableUsage and indexUsage are seed 2's monitoring queries, extended to all of Skald's schemas.
// Tables in the schema saga are named without it.
const tableUsage = `
SELECT CASE u.schemaname WHEN 'saga' THEN '' ELSE u.schemaname || '.' END || c.relname,
       pg_total_relation_size(c.oid),
       pg_relation_size(c.oid),
       coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0), pg_indexes_size(c.oid),
       u.n_live_tup,
       u.n_dead_tup,
       u.n_mod_since_analyze,
       u.last_vacuum,
       u.last_autovacuum,
       u.last_analyze,
       u.last_autoanalyze
  FROM pg_class c JOIN pg_stat_user_tables u ON u.relid = c.oid
 WHERE u.schemaname IN ('saga', 'dlq', 'jobs') AND c.relkind = 'r'
 ORDER BY 2 DESC, 1`

const indexUsage = `
SELECT CASE u.schemaname WHEN 'saga' THEN '' ELSE u.schemaname || '.' END || u.relname,
       u.indexrelname,
       pg_relation_size(u.indexrelid),
       i.indisunique,
       i.indisvalid,
       u.idx_scan,
       u.idx_tup_read,
       u.idx_tup_fetch
  FROM pg_stat_user_indexes u JOIN pg_index i ON i.indexrelid = u.indexrelid
 WHERE u.schemaname IN ('saga', 'dlq', 'jobs')
 ORDER BY 1, 2`

// oldestSnapshot looks at sessions, prepared transactions and replication slots, except for its own
// session. Without pg_read_all_stats, sessions of other logins are not visible.
const oldestSnapshot = `
SELECT pg_has_role('pg_read_all_stats', 'USAGE') OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
       coalesce(extract(epoch FROM clock_timestamp() - least(a.since, (SELECT min(prepared) FROM pg_prepared_xacts))),
                0)::float8,
       coalesce(greatest(a.age, (SELECT max(age(transaction)) FROM pg_prepared_xacts),
                         (SELECT max(greatest(age(xmin), age(catalog_xmin))) FROM pg_replication_slots)), 0)::bigint
  FROM (SELECT min(xact_start) AS since, max(age(backend_xmin)) AS age FROM pg_stat_activity
         WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker') AS a`

// Storage reports the size of all tables, including those of dead letters and job runs, and the
// usage of tables and indexes (S2-126, S2-127).
func (st *Sagas) Storage(ctx context.Context) (storage.Storage, error) {
	tx, err := st.db.Read.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return storage.Storage{}, fmt.Errorf("report on storage: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // the transaction only reads
	s, err := measure(ctx, tx)
	if err != nil {
		return storage.Storage{}, fmt.Errorf("report on storage: %w", err)
	}
	return s, nil
}

func measure(ctx context.Context, tx *sqlx.Tx) (s storage.Storage, err error) {
	if err := tx.GetContext(ctx, &s.DatabaseBytes, `SELECT pg_database_size(current_database())`); err != nil {
		return s, err
	}
	var visible bool
	var age float64
	var held storage.Snapshot
	if err := tx.QueryRowContext(ctx, oldestSnapshot).Scan(&visible, &age, &held.Transactions); err != nil {
		return s, err
	}
	if visible {
		held.Age = time.Duration(age * float64(time.Second))
		s.Snapshot = &held
	}
	rows, err := tx.QueryContext(ctx, tableUsage)
	if err != nil {
		return s, err
	}
	at := map[string]int{}
	err = postgres.EachRow(rows, func() error {
		var t storage.Table
		err := rows.Scan(&t.Name, &t.TotalBytes, &t.HeapBytes, &t.ToastBytes, &t.IndexBytes, &t.LiveTuples, &t.DeadTuples,
			&t.ModifiedSinceAnalyze, &t.LastVacuum, &t.LastAutovacuum, &t.LastAnalyze, &t.LastAutoanalyze)
		postgres.UTC(t.LastVacuum, t.LastAutovacuum, t.LastAnalyze, t.LastAutoanalyze)
		at[t.Name] = len(s.Tables)
		s.Tables = append(s.Tables, t)
		return err
	})
	if err != nil {
		return s, err
	}
	if rows, err = tx.QueryContext(ctx, indexUsage); err != nil {
		return s, err
	}
	err = postgres.EachRow(rows, func() error {
		var table string
		var x storage.Index
		err := rows.Scan(&table, &x.Name, &x.Bytes, &x.Unique, &x.Valid, &x.Scans, &x.TuplesRead, &x.TuplesFetched)
		if i, ours := at[table]; ours {
			s.Tables[i].Indexes = append(s.Tables[i].Indexes, x)
		}
		return err
	})
	return s, err
}
