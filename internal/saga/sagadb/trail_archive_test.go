package sagadb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// S2-98, S2-116: with the rights used in production, each month gets its partition, which is as
// closed to others as every table, and the oldest partition is dropped when its time is over.
func TestTheArchiveOfEventsHasAPartitionForEachMonth(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	events := sagadb.NewTrail(pgtest.Connect(t, dsn))
	super := pgtest.Observer(t, dsn)
	pgtest.Execute(t, super, `INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest, timestamp)
		SELECT gen_random_uuid(), '`+pgtest.Big.String()+`', 'saga.started', '', at FROM unnest(ARRAY['2024-11-30 23:59:59.999999Z', '2024-12-01', 'infinity',
		       '2025-01-15', '2024-12-31 23:00Z']::timestamptz[]) AS at`)
	var settled bool
	for !settled {
		settled = pgtest.Ask[bool](t, super, `SELECT bool_and(txid < saga.feed_horizon()) FROM saga.audit_events`)
	}
	if n, err := events.Seal(t.Context(), pgtest.Big); err != nil || n != 5 {
		t.Fatalf("sealed %d events, %v", n, err)
	}
	if n, _, err := events.ArchiveEvents(t.Context(), trail.EventRetention{Live: time.Hour}); err != nil || n != 0 {
		t.Errorf("%d events archived before their time, %v", n, err)
	}
	if n, _, err := events.ArchiveEvents(t.Context(), trail.EventRetention{Live: time.Nanosecond}); err != nil || n != 5 {
		t.Fatalf("%d events archived, %v", n, err)
	}
	parts := func() []string {
		rows, err := super.QueryContext(t.Context(), `SELECT tableoid::regclass || ' ' || count(*) FROM saga.audit_events_archive GROUP BY tableoid ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var list []string
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
		return list
	}
	months := []string{"saga.audit_events_2024_11_archive 1", "saga.audit_events_2024_12_archive 2", "saga.audit_events_2025_01_archive 1"}
	if diff := cmp.Diff(append(slices.Clone(months), "saga.audit_events_rest_archive 1"), parts()); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	if err := db.Secured(t.Context(), dsn); err != nil {
		t.Errorf("the partitions are open: %v", err)
	}
	pgtest.Execute(t, super, `SELECT saga.secure_tables()`) // as after the next migration
	for _, role := range []string{db.AppRole, db.EngineRole, db.ReadonlyRole} {
		if pgtest.Ask[bool](t, super, `SELECT has_table_privilege('`+role+`', 'saga.audit_events_2024_12_archive', 'UPDATE, DELETE, TRUNCATE')`) ||
			!pgtest.Ask[bool](t, super, `SELECT has_table_privilege('`+role+`', 'saga.audit_events_2024_12_archive', 'SELECT')`) {
			t.Errorf("%s has other rights than to read a partition", role)
		}
	}
	// November ended longer ago than this, and the rest is too recent.
	age := time.Since(time.Date(2024, 12, 20, 0, 0, 0, 0, time.UTC))
	if _, n, err := events.ArchiveEvents(t.Context(), trail.EventRetention{Archived: age}); err != nil || n != 1 {
		t.Errorf("%d events purged, %v", n, err)
	}
	if _, n, err := events.ArchiveEvents(t.Context(), trail.EventRetention{Archived: age}); err != nil || n != 0 {
		t.Errorf("%d events purged once more, %v", n, err)
	}
	if diff := cmp.Diff(append(months[1:], "saga.audit_events_rest_archive 1"), parts()); diff != "" {
		t.Errorf("partitions that are left (-want +got):\n%s", diff)
	}
	if archived, purged, err := events.ArchivedSeals(t.Context(), pgtest.Big); err != nil || archived != 1 || purged != 1 {
		t.Errorf("archived to seal %d, purged to %d, %v", archived, purged, err)
	}
	// After a restore into a new cluster, new events follow the archived ones.
	if ahead := pgtest.Ask[int](t, super, `WITH future AS (UPDATE saga.audit_progress_archive SET to_txid = '4000000000000' RETURNING 1)
		SELECT count(*) FROM future`); ahead != 1 {
		t.Fatal(ahead)
	}
	if restored, err := events.AfterRestore(t.Context()); err != nil || !restored {
		t.Errorf("restored: %v, %v", restored, err)
	}
}
