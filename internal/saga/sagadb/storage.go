package sagadb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// tableUsage and indexUsage are seed 2's monitoring queries, for all of Skald's
// schemas. Tables of the schema saga are named without it.
const tableUsage = `
SELECT CASE u.schemaname WHEN 'saga' THEN '' ELSE u.schemaname || '.' END || c.relname, pg_total_relation_size(c.oid), pg_relation_size(c.oid),
       coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0), pg_indexes_size(c.oid),
       u.n_live_tup, u.n_dead_tup, u.n_mod_since_analyze, u.last_vacuum, u.last_autovacuum, u.last_analyze, u.last_autoanalyze
  FROM pg_class c JOIN pg_stat_user_tables u ON u.relid = c.oid
 WHERE u.schemaname IN ('saga', 'dlq', 'jobs') AND c.relkind = 'r'
 ORDER BY 2 DESC, 1`

const indexUsage = `
SELECT CASE u.schemaname WHEN 'saga' THEN '' ELSE u.schemaname || '.' END || u.relname, u.indexrelname, pg_relation_size(u.indexrelid), i.indisunique, i.indisvalid, u.idx_scan, u.idx_tup_read, u.idx_tup_fetch
  FROM pg_stat_user_indexes u JOIN pg_index i ON i.indexrelid = u.indexrelid
 WHERE u.schemaname IN ('saga', 'dlq', 'jobs')
 ORDER BY 1, 2`

// Storage reports the size of all tables, including those of dead letters and job runs,
// and how they and their indexes are used (S2-126, S2-127).
func (st *Sagas) Storage(ctx context.Context) (saga.Storage, error) {
	tx, err := st.db.Read.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return saga.Storage{}, fmt.Errorf("report on storage: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	s, err := storage(ctx, tx)
	if err != nil {
		return saga.Storage{}, fmt.Errorf("report on storage: %w", err)
	}
	return s, nil
}

func storage(ctx context.Context, tx *sqlx.Tx) (s saga.Storage, err error) {
	if err := tx.GetContext(ctx, &s.DatabaseBytes, `SELECT pg_database_size(current_database())`); err != nil {
		return s, err
	}
	rows, err := tx.QueryContext(ctx, tableUsage)
	if err != nil {
		return s, err
	}
	at := map[string]int{}
	err = postgres.EachRow(rows, func() error {
		var t saga.Table
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
		var x saga.Index
		err := rows.Scan(&table, &x.Name, &x.Bytes, &x.Unique, &x.Valid, &x.Scans, &x.TuplesRead, &x.TuplesFetched)
		if i, ours := at[table]; ours {
			s.Tables[i].Indexes = append(s.Tables[i].Indexes, x)
		}
		return err
	})
	return s, err
}
