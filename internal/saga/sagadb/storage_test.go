package sagadb_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestTheStorageReportMatchesPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	pgtest.Registered(t, db)
	pgtest.Ended(t, db, 2000)
	if _, err := sagadb.NewSagas(db).ArchiveExpired(t.Context(), pgtest.Once, 500); err != nil {
		t.Fatal(err)
	}
	super := pgtest.Observer(t, dsn)
	pgtest.Execute(t, super, `ANALYZE saga.saga_states; SET enable_seqscan = off`)
	used := func() (scans map[string]int64) { // of each index, as far as sessions have reported their usage
		err := json.Unmarshal(pgtest.Ask[[]byte](t, super, `SELECT json_object_agg(schemaname || '.' || indexrelname, idx_scan)
			FROM pg_stat_user_indexes`), &scans)
		if err != nil {
			t.Fatal(err)
		}
		return scans
	}
	if n := pgtest.Ask[int](t, super, `SELECT count(*) FROM saga.saga_states_archive
		WHERE id > '00000000-0000-0000-0000-000000000000'`); n < 100 {
		t.Fatalf("%d sagas are archived", n)
	}
	pgtest.Execute(t, super, `SELECT pg_stat_force_next_flush()`)
	before := used()
	report, err := sagadb.NewSagas(db).Storage(t.Context())
	after := used()
	if err != nil {
		t.Fatal(err)
	}
	if report.DatabaseBytes < 1<<20 ||
		!slices.IsSortedFunc(report.Tables, func(a, b storage.Table) int { return int(b.TotalBytes - a.TotalBytes) }) {
		t.Errorf("database of %d bytes; tables %+v, want the largest first", report.DatabaseBytes, report.Tables)
	}
	found := map[string]storage.Table{}
	for _, table := range report.Tables {
		found[table.Name] = table
		schema, name, other := strings.Cut(table.Name, ".")
		if !other {
			schema, name = "saga", table.Name
		}
		if table.TotalBytes < table.HeapBytes+table.ToastBytes+table.IndexBytes {
			t.Errorf("%s: its parts are larger than it: %+v", table.Name, table)
		}
		if want := pgtest.Ask[int64](t, db.SQL(), `SELECT pg_total_relation_size(($1 || '.' || $2)::regclass)`, schema, name); table.TotalBytes != want {
			t.Errorf("%s takes %d bytes, want %d", table.Name, table.TotalBytes, want)
		}
		if want := pgtest.Ask[int](t, db.SQL(), `SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND tablename = $2`, schema, name); len(table.Indexes) != want {
			t.Errorf("%s has %d indexes in the report, want %d", table.Name, len(table.Indexes), want)
		}
		for _, index := range table.Indexes {
			if !index.Valid || index.Bytes <= 0 && index.Name == "saga_states_pkey" {
				t.Errorf("index %+v", index)
			}
			if id := schema + "." + index.Name; index.Scans < before[id] || index.Scans > after[id] {
				t.Errorf("%s was scanned %d times, %d before and %d after that", id, index.Scans, before[id], after[id])
			}
		}
	}
	// A partitioned table has no storage of its own: the report contains its partitions.
	const stored = `SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs')`
	if want := pgtest.Ask[int](t, db.SQL(), stored); len(report.Tables) != want {
		t.Errorf("%d tables, want %d", len(report.Tables), want)
	}
	states := found["saga_states"]
	if states.LiveTuples == 0 || states.HeapBytes == 0 || states.IndexBytes == 0 {
		t.Errorf("saga_states: %+v; want live tuples", states)
	}
	if states.LastAnalyze == nil || states.LastAnalyze.Location().String() != "UTC" {
		t.Errorf("saga_states: analyzed %v, want it in UTC", states.LastAnalyze)
	}
	if logs := found["saga_step_logs_archive"]; logs.HeapBytes == 0 {
		t.Errorf("saga_step_logs_archive: %+v", logs)
	}
}

func TestTheOldestSnapshotIsReportedToThoseWhoMaySeeIt(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	hidden, err := sagadb.NewSagas(pgtest.Connect(t, dsn)).Storage(t.Context())
	if err != nil || hidden.Snapshot != nil {
		t.Errorf("the engine's role, without pg_read_all_stats, reports %+v, %v", hidden.Snapshot, err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Unsecured: true}) // a superuser
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	holder := pgtest.Observer(t, dsn)
	pgtest.Execute(t, holder, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	held := pgtest.Ask[int64](t, holder, `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint`)
	for range 10 {
		pgtest.Execute(t, db.SQL(), `SELECT pg_current_xact_id()`)
	}
	next := pgtest.Ask[int64](t, db.SQL(), `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`)
	seen, err := sagadb.NewSagas(db).Storage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := seen.Snapshot; s == nil || s.Age <= 0 || s.Transactions < next-held || s.Transactions < 10 {
		t.Errorf("a snapshot that was held for %d transactions is reported as %+v", next-held, s)
	}
}
