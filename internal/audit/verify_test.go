package audit_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// world is a database with audit trails that the tests alter.
type world struct {
	sagas interface {
		Create(context.Context, []saga.NewSaga) ([]saga.CreateResult, error)
		Commit(context.Context, []saga.Change) ([]error, error)
	}
	workflows workflow.Store
	chain     trail.Chain
	settle    func(*testing.T)
}

func inMemory() world {
	m := memstore.New(time.Now)
	return world{m.Sagas, m.Workflows, m.Trail, func(*testing.T) {}}
}

func inPostgres(t *testing.T) (world, *sql.DB) {
	t.Helper()
	dsn := testdb.DSN(t) // for a superuser, who can disable triggers
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	super, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { super.Close() })
	return world{sagadb.NewSagas(db), sagadb.NewWorkflows(db), sagadb.NewTrail(db), func(t *testing.T) {
		var now, xmin int64
		if err := db.SQL().QueryRowContext(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&now); err != nil {
			t.Fatal(err)
		}
		for xmin <= now {
			if err := db.SQL().QueryRowContext(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot())::text`).Scan(&xmin); err != nil {
				t.Fatal(err)
			}
		}
	}}, super
}

// write writes the trail of a new tenant: three seals, each over a saga that was started and
// canceled, and a fourth saga that is not sealed.
func (w world) write(t *testing.T) uuid.UUID {
	t.Helper()
	tenant := tenant.Tenant{ID: uuid.New()}
	def, err := workflow.ParseJSON(
		[]byte(`{"name":"order","steps":[{"name":"a","action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`),
		workflow.Limits{},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.workflows.Register(t.Context(), tenant.ID, def, false, time.Now()); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		at := time.Now().UTC().Truncate(time.Microsecond)
		s := saga.New(saga.Spec{ID: uuid.Must(uuid.NewV7()), Tenant: tenant}, def, 1, nil, at, 0)
		if r, err := w.sagas.Create(t.Context(), []saga.NewSaga{{Saga: s, Actor: "shop"}}); err != nil ||
			r[0].Created != saga.Stored {
			t.Fatal(r, err)
		}
		c, err := saga.Apply(
			saga.NewInstance(s, def),
			saga.CancelRequested{By: "ann", Reason: "why not"},
			saga.Moment{Now: at, NewID: uuid.New, Actor: "ann"},
		)
		if err != nil {
			t.Fatal(err)
		}
		if errs, err := w.sagas.Commit(t.Context(), []saga.Change{c}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		w.settle(t)
		if i < 3 {
			if n, err := w.chain.Seal(t.Context(), tenant.ID); err != nil || n != eventsEach {
				t.Fatalf("sealed %d events, %v", n, err)
			}
		}
	}
	return tenant.ID
}

const eventsEach = 3 // started, cancel_requested, cancelled

func (w world) verify(t *testing.T, tenant uuid.UUID, from int64, limit int) trail.Verification {
	t.Helper()
	v, err := audit.Verify(t.Context(), w.chain, tenant, from, limit)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUnchangedTrailIsVerified(t *testing.T) {
	onPostgres, _ := inPostgres(t)
	for name, w := range map[string]world{"in memory": inMemory(), "in PostgreSQL": onPostgres} {
		t.Run(name, func(t *testing.T) {
			tenant := w.write(t)
			v := w.verify(t, tenant, 1, 100)
			whole := trail.Verification{CheckedSeals: 3, CheckedEvents: 4 * eventsEach, Unsealed: eventsEach, Head: v.Head}
			if diff := cmp.Diff(whole, v); diff != "" {
				t.Errorf("all (-want +got):\n%s", diff)
			}
			if v.Head.Seq != 3 {
				t.Errorf("the head is seal %d, want 3", v.Head.Seq)
			}
			v = w.verify(t, tenant, 2, 1)
			second := trail.Verification{CheckedSeals: 1, CheckedEvents: eventsEach, Next: 3, Head: v.Head}
			if diff := cmp.Diff(second, v); diff != "" {
				t.Errorf("the second seal (-want +got):\n%s", diff)
			}
			if v.Head.Seq != 2 {
				t.Errorf("the head is seal %d, want 2", v.Head.Seq)
			}
			if v = w.verify(t, tenant, 9, 1); v.FirstBad != nil || v.CheckedSeals != 0 || v.Next != 0 {
				t.Errorf("behind the end: %+v", v)
			}
			if v = w.verify(t, uuid.New(), 1, 100); v.FirstBad != nil || v.CheckedEvents != 0 || v.Unsealed != 0 {
				t.Errorf("nothing: %+v", v)
			}
		})
	}
}

func TestEachKindOfTamperingIsDetectedAndNamed(t *testing.T) {
	w, db := inPostgres(t)
	// event selects the n-th event of the tenant $1.
	const event = `(SELECT id FROM saga.audit_events WHERE tenant_id = $1 ORDER BY txid, id OFFSET %d LIMIT 1)`
	nth := func(n int) string { return fmt.Sprintf(event, n) }
	for _, tt := range []struct {
		name      string
		statement string
		want      trail.Tampering
		seq       int64
		nth       int // the event that is reported; -1: none
	}{
		{"a byte of an event's data", `UPDATE saga.audit_events SET event_data = '{"reason": "why nou"}' WHERE tenant_id = $1 AND id = ` + nth(4), trail.DigestMismatch, 2, 4},
		{"an event's time", `UPDATE saga.audit_events SET timestamp = timestamp - interval '1 us' WHERE tenant_id = $1 AND id = ` + nth(1), trail.DigestMismatch, 1, 1},
		{"a time that is none", `UPDATE saga.audit_events SET timestamp = 'infinity' WHERE tenant_id = $1 AND id = ` + nth(1), trail.DigestMismatch, 1, 1},
		{"an event's actor", `UPDATE saga.audit_events SET actor = 'eve' WHERE tenant_id = $1 AND id = ` + nth(1), trail.DigestMismatch, 1, 1},
		{"an event's digest", `UPDATE saga.audit_events SET digest = digest || '\x00' WHERE tenant_id = $1 AND id = ` + nth(1), trail.DigestMismatch, 1, 1},
		{"an error where none was", `UPDATE saga.audit_events SET error = '[1]' WHERE tenant_id = $1 AND id = ` + nth(8), trail.DigestMismatch, 3, 8},
		{"an event that is not sealed yet", `UPDATE saga.audit_events SET new_state = 3 WHERE tenant_id = $1 AND id = ` + nth(9), trail.DigestMismatch, 0, 9},
		{"an event is gone", `DELETE FROM saga.audit_events WHERE tenant_id = $1 AND id = ` + nth(4), trail.MissingEvents, 2, -1},
		{"the first event of a seal is gone", `DELETE FROM saga.audit_events WHERE tenant_id = $1 AND id = ` + nth(3), trail.MissingEvents, 2, -1},
		{"the last event of a seal is gone", `DELETE FROM saga.audit_events WHERE tenant_id = $1 AND id = ` + nth(5), trail.MissingEvents, 2, -1},
		{"a forged event that is a true copy", `INSERT INTO saga.audit_events (saga_id, tenant_id, txid, timestamp, step_index, attempt, old_state, new_state, event_type, step_name, digest, actor, request_id, event_data, error, trace_id, span_id)
			SELECT saga_id, tenant_id, txid, timestamp, step_index, attempt, old_state, new_state, event_type, step_name, digest, actor, request_id, event_data, error, trace_id, span_id
			  FROM saga.audit_events WHERE tenant_id = $1 AND id = ` + nth(3), trail.UnexpectedEvents, 2, -1},
		{"two events have changed places", `UPDATE saga.audit_events SET id = -id WHERE tenant_id = $1 AND id IN (` + nth(4) + `, ` + nth(5) + `);
			UPDATE saga.audit_events SET id = (SELECT -sum(o.id) FROM saga.audit_events o WHERE o.tenant_id = $1 AND o.id < 0) + id WHERE tenant_id = $1 AND id < 0`, trail.SealMismatch, 2, -1},
		{"a seal's hash", `UPDATE saga.audit_seals SET hash = sha256(hash) WHERE tenant_id = $1 AND seq = 2`, trail.SealMismatch, 2, -1},
		{"the hash before", `UPDATE saga.audit_seals SET prev_hash = sha256(hash) WHERE tenant_id = $1 AND seq = 2`, trail.SealMismatch, 2, -1},
		{"what a seal covers", `UPDATE saga.audit_seals SET events = 2, to_id = to_id - 1 WHERE tenant_id = $1 AND seq = 3`, trail.SealMismatch, 3, -1},
		{"a seal that covers nothing", `UPDATE saga.audit_seals SET to_txid = from_txid, to_id = 0 WHERE tenant_id = $1 AND seq = 1`, trail.MissingEvents, 1, -1},
		{"a seal is gone", `DELETE FROM saga.audit_seals WHERE tenant_id = $1 AND seq = 2`, trail.MissingSeals, 2, -1},
		{"the first seal is gone", `DELETE FROM saga.audit_seals WHERE tenant_id = $1 AND seq = 1`, trail.MissingSeals, 1, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tenant := w.write(t)
			var named int64
			if tt.nth >= 0 {
				if err := db.QueryRowContext(t.Context(), `SELECT `+nth(tt.nth), tenant).Scan(&named); err != nil {
					t.Fatal(err)
				}
			}
			for _, statement := range bytes.Split([]byte(tt.statement), []byte(";\n")) {
				r, err := db.ExecContext(t.Context(), string(statement), tenant)
				if err != nil {
					t.Fatal(err)
				}
				if n, _ := r.RowsAffected(); n == 0 {
					t.Fatal("nothing was changed")
				}
			}
			v := w.verify(t, tenant, 1, 100)
			if v.FirstBad == nil {
				t.Fatalf("nothing was found: %+v", v)
			}
			bad := *v.FirstBad
			want := bad
			want.Kind, want.Seq, want.EventID = tt.want, tt.seq, named
			if diff := cmp.Diff(want, bad); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			if (bad.Subject == "") != (named == 0) || bad.Detail == "" {
				t.Errorf("found %+v, which does not say what and why", bad)
			}
		})
	}
}

// An event that was replaced together with its digest, by an attacker who knows how digests are
// computed, still does not match the seal.
func TestEventWithAForgedDigestDoesNotMatchItsSeal(t *testing.T) {
	w, db := inPostgres(t)
	tenant := w.write(t)
	events, err := w.chain.Span(t.Context(), tenant, trail.Position{}, trail.Position{TxID: 1 << 62}, 100)
	if err != nil {
		t.Fatal(err)
	}
	e := events[4]
	e.Actor = "eve"
	digest := e.Digest()
	if _, err := db.ExecContext(t.Context(), `UPDATE saga.audit_events SET actor = 'eve', digest = $2 WHERE tenant_id = $1 AND id = $3`, tenant, digest[:], e.ID); err != nil {
		t.Fatal(err)
	}
	if v := w.verify(t, tenant, 1, 100); v.FirstBad == nil || v.FirstBad.Kind != trail.SealMismatch ||
		v.FirstBad.Seq != 2 {
		t.Errorf("found %+v", v.FirstBad)
	}
}
