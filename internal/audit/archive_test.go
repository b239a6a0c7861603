package audit_test

import (
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
)

// With atOnce, all sealed events may be archived.
var atOnce = trail.EventRetention{Live: time.Nanosecond}

// archived moves all sealed events to the archive and returns their number.
func (w world) archived(t *testing.T) (events int64) {
	t.Helper()
	for {
		n, _, err := w.chain.(trail.EventArchive).ArchiveEvents(t.Context(), atOnce)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return events
		}
		events += n
	}
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// The chain verifies events wherever they are stored, and reports purged events as purged. Mistakes
// are found in the archive as well.
func TestChainOutlivesItsEvents(t *testing.T) {
	t.Parallel()
	w, super := inPostgres(t)
	tenant := w.write(t)
	if n := w.archived(t); n != 3*eventsEach {
		t.Fatalf("%d events archived, want %d", n, 3*eventsEach)
	}
	want := trail.Verification{CheckedSeals: 3, CheckedEvents: 4 * eventsEach, ArchivedSeals: 3, Unsealed: eventsEach}
	check := func(when string) {
		t.Helper()
		v := w.verify(t, tenant, 1, 100)
		want.Head = v.Head
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("archived")
	var first uuid.UUID
	const oldest = `SELECT saga_id FROM saga.audit_events_archive ORDER BY id LIMIT 1`
	if err := super.QueryRowContext(t.Context(), oldest).Scan(&first); err != nil {
		t.Fatal(err)
	}
	history, _, err := w.chain.(trail.Trail).Events(t.Context(), tenant, first, trail.EventFilter{}, false, 0, 100)
	if err != nil || len(history) != eventsEach || history[0].Type != eventtype.SagaStarted {
		t.Errorf("the history of an archived saga: %+v, %v", history, err)
	}
	bad := func(what string, kind trail.Tampering, seq int64) {
		t.Helper()
		v := w.verify(t, tenant, 1, 100)
		if v.FirstBad == nil || v.FirstBad.Kind != kind || v.FirstBad.Seq != seq {
			t.Errorf("%s: %+v, want %s in seal %d", what, v.FirstBad, kind, seq)
		}
	}
	execute(t, super, `UPDATE saga.audit_events_archive SET actor = 'eve' WHERE saga_id = $1`, first)
	bad("a change in the archive", trail.DigestMismatch, 1)
	execute(t, super, `DELETE FROM saga.audit_events_archive WHERE saga_id = $1`, first)
	bad("a hole in the archive", trail.MissingEvents, 1)
	// The month of the events and their retention have ended.
	execute(t, super, `SELECT saga.purge_audit_events(now() + interval '2 months')`)
	execute(t, super, `SELECT saga.purge_audit_events(now() + interval '2 months')`) // nothing is left to purge
	want.CheckedEvents, want.PurgedSeals, want.PurgedEvents = eventsEach, 3, 3*eventsEach
	check("purged")
	w.settle(t)
	if n, err := w.chain.Seal(t.Context(), tenant); err != nil || n != eventsEach {
		t.Fatalf("sealed %d events, %v", n, err)
	}
	want.CheckedSeals, want.Unsealed = 4, 0
	check("purged, and sealed on")
	execute(t, super, `DELETE FROM saga.audit_events WHERE tenant_id = $1`, tenant)
	bad("events that are gone, and not by retention", trail.MissingEvents, 4)
	execute(t, super, `UPDATE saga.audit_seals SET hash = sha256('x') WHERE tenant_id = $1 AND seq = 2`, tenant)
	bad("a changed seal of purged events", trail.SealMismatch, 3)
}

func TestEventsAreArchivedOnceAndOnlyAfterTheyWereRead(t *testing.T) {
	t.Parallel()
	w, super := inPostgres(t)
	tenant, broken := w.write(t), w.write(t)
	execute(t, super, `INSERT INTO saga.webhooks (tenant_id, id, url, enabled, created_at, updated_at, version, cursor_txid, cursor_id)
		SELECT $1, gen_random_uuid(), 'http://h/', true, now(), now(), 1, to_txid, to_id FROM saga.audit_seals WHERE tenant_id = $1 AND seq = 1`, tenant)
	// A sealed event was removed, so no event of its seal is archived.
	execute(t, super, `DELETE FROM saga.audit_events WHERE id = (SELECT min(id) FROM saga.audit_events WHERE tenant_id = $1)`, broken)
	archive := w.chain.(trail.EventArchive)
	n, _, err := archive.ArchiveEvents(t.Context(), atOnce)
	if err == nil || n != eventsEach {
		t.Errorf("%d events archived, %v; want those of one seal, and an error about the other tenant", n, err)
	}
	if n, _, _ := archive.ArchiveEvents(t.Context(), atOnce); n != 0 {
		t.Errorf("%d events archived that a webhook has not read", n)
	}
	execute(t, super, `UPDATE saga.webhooks SET enabled = false, disabled_at = now()`)
	var moved [4]int64
	var wg sync.WaitGroup
	for i := range moved {
		wg.Go(func() {
			for range 10 {
				n, _, _ := archive.ArchiveEvents(t.Context(), atOnce)
				moved[i] += n
			}
		})
	}
	wg.Wait()
	if total := moved[0] + moved[1] + moved[2] + moved[3]; total != 2*eventsEach {
		t.Errorf("four at once moved %v events, want %d together", moved, 2*eventsEach)
	}
	if v := w.verify(t, tenant, 1, 100); v.FirstBad != nil || v.CheckedEvents != 4*eventsEach || v.ArchivedSeals != 3 {
		t.Errorf("afterwards: %+v", v)
	}
	v := w.verify(t, broken, 1, 100)
	if v.FirstBad == nil || v.FirstBad.Kind != trail.MissingEvents || v.ArchivedSeals != 0 {
		t.Errorf("of the other tenant: %+v", v)
	}
}
