package sagadb_test

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/erasure/erasuredb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// ended is withCanary with a completed compensation.
func ended(t *testing.T, st *sagadb.Sagas) saga.Instance {
	t.Helper()
	run := withCanary(t, st)
	for !run.State.Terminal() {
		c := pgtest.Applied(run, saga.Answered{Outcome: saga.Outcome{Verdict: saga.Done, Code: "http",
			Request: pgtest.Says("undo"), Output: pgtest.Says("undone"), StartedAt: pgtest.Now(), EndedAt: pgtest.Now()}})
		pgtest.Commit(t, st, []saga.Change{c})
		run = c.After
	}
	return run
}

// asPlainOwner makes the erasure functions run with the rights of a table owner who is not a
// superuser, as in production.
func asPlainOwner(t *testing.T, db *sql.DB) {
	t.Helper()
	owner := "owner_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	pgtest.Execute(t, db, fmt.Sprintf(`CREATE ROLE %[1]s; GRANT saga_engine_role TO %[1]s;
		GRANT UPDATE ON saga.audit_events, saga.audit_events_archive TO %[1]s`, owner))
	pgtest.Execute(t, db, `ALTER FUNCTION saga.purge_events OWNER TO `+owner)
	t.Cleanup(func() {
		pgtest.Execute(t, db, `ALTER FUNCTION saga.purge_events OWNER TO CURRENT_USER; DROP OWNED BY `+owner+`; DROP ROLE `+owner)
	})
}

func request(of erasure.Subject) erasure.Erasure {
	return erasure.Erasure{ID: uuid.New(), TenantID: pgtest.Big, Subject: of, Actor: "key:ann",
		Reason: "the customer asked",
		At:     time.Now().UTC().Truncate(time.Microsecond)}
}

func verified(t *testing.T, db *postgres.DB, tenant uuid.UUID) trail.Verification {
	t.Helper()
	chain := sagadb.NewTrail(db)
	for {
		n, err := chain.Seal(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	v, err := audit.Verify(t.Context(), chain, tenant, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hadRun stores an ended job run of a saga, with content in each of its columns and in its log.
func hadRun(t *testing.T, db *sql.DB, of uuid.UUID) uuid.UUID {
	t.Helper()
	id := pgtest.NewID()
	pgtest.Execute(t, db, `INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, state, trigger,
			scheduled_for, available_at, idempotency_key, root_run_id, saga_id, created_at, updated_at, finished_at,
			args, progress, checkpoint, result, error, error_summary)
		VALUES ($1, $2, gen_random_uuid(), 'report', 1, 'report', 'FAILED', 'SAGA', now(), now(), 'erase:' || $1::uuid, $1, $3, now(), now(), now(),
			$4, $4, $4, $4, jsonb_build_object('message', $5::text), $5)`, id, pgtest.Big, of, string(pgtest.Says("run")), pgtest.Canary)
	pgtest.Execute(t, db, `INSERT INTO jobs.job_run_logs (run_id, tenant_id, attempt, seq, at, body) VALUES ($1, $2, 1, 0, now(), $3)`,
		id, pgtest.Big, []byte("a line about "+pgtest.Canary))
	return id
}

// wasTold stores a delivery of an event without an error, with the values of the client's trace.
func wasTold(t *testing.T, db *sql.DB, of uuid.UUID) {
	t.Helper()
	hook := pgtest.NewID()
	pgtest.Execute(t, db, `
		INSERT INTO saga.webhooks (tenant_id, id, url, event_types, workflow_names, enabled, disabled_reason, created_by, version, created_at, updated_at, cursor_txid, cursor_id)
		VALUES ($1, $2, 'https://x', '{}', '{}', true, '', '', 1, now(), now(), '0', 0)`, pgtest.Big, hook)
	pgtest.Execute(t, db, `
		INSERT INTO saga.webhook_deliveries (tenant_id, webhook_id, id, event_id, event_type, saga_id, body, status, due_at, created_at)
		VALUES ($1, $2, $2, 1, 'x', $3, jsonb_build_object('baggage', $4::text, 'tracestate', $4, 'data', '{}'::jsonb), 'pending', now(), now())`,
		pgtest.Big, hook, of, pgtest.Canary)
}

// The erased text is gone from every table, live and archived, sealed or not. The facts are still
// recorded, and the chain is intact.
func TestErasureLeavesNoContentAndAWholeChain(t *testing.T) {
	for name, keys := range map[string]string{"plain": "", "sealed": pgtest.KeyOne, "with events archived": ""} {
		t.Run(name, func(t *testing.T) {
			dsn := testdb.DSN(t)
			db, raw := pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, keys)), pgtest.RawTables(t, dsn)
			pgtest.Registered(t, db)
			asPlainOwner(t, raw)
			st := sagadb.NewSagas(db)
			old := ended(t, st)
			if n, err := st.ArchiveExpired(t.Context(), pgtest.Once, 10); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			live, active := ended(t, st), withCanary(t, st)
			run, oldRun := hadRun(t, raw, live.ID), hadRun(t, raw, old.ID)
			for _, table := range []string{"saga.saga_states", "saga.saga_states_archive", "jobs.job_runs"} {
				pgtest.Execute(t, raw, `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
				pgtest.Execute(t, raw, `UPDATE `+table+` SET tracestate = 'a=' || $1, baggage = 'customer=' || $1`, pgtest.Canary)
				pgtest.Execute(t, raw, `ALTER TABLE `+table+` ENABLE TRIGGER USER`)
			}
			before := verified(t, db, pgtest.Big)
			if before.FirstBad != nil || before.CheckedEvents < 10 {
				t.Fatal(before)
			}
			if name == "with events archived" && pgtest.Ask[int](t, raw,
				`SELECT saga.archive_audit_events($1, now() + interval '1 hour')`, pgtest.Big) != before.CheckedEvents {
				t.Fatal("no events were archived")
			}
			wasTold(t, raw, live.ID)
			rows := func() int { return pgtest.Ask[int](t, raw, `SELECT count(*) FROM saga.audit_events`) }

			dry := request(erasure.Subject{SagaID: live.ID})
			dry.DryRun = true
			was := rows()
			counted, err := erasuredb.New(db).Erase(t.Context(), dry)
			if err != nil || counted.Sagas != 1 || counted.StepLogs < 2 || counted.Runs != 1 || rows() != was {
				t.Fatalf("the dry run: %+v, %v", counted, err)
			}
			_, err = erasuredb.New(db).Erase(t.Context(), request(erasure.Subject{SagaID: active.ID}))
			if !fault.IsCode(err, erasure.CodeNotErasable) {
				t.Errorf("an active saga: %v", err)
			}
			_, err = erasuredb.New(db).Erase(t.Context(), request(erasure.Subject{SagaID: uuid.New()}))
			if fault.KindOf(err) != fault.NotFound {
				t.Errorf("no saga: %v", err)
			}
			for _, id := range []uuid.UUID{live.ID, old.ID} {
				e := request(erasure.Subject{SagaID: id})
				erased, err := erasuredb.New(db).Erase(t.Context(), e)
				if err != nil || id == live.ID && erased != counted {
					t.Fatalf("%+v, %v; the dry run said %+v", erased, err, counted)
				}
			}
			after := verified(t, db, pgtest.Big)
			if after.FirstBad != nil || after.CheckedEvents != before.CheckedEvents+2 {
				t.Errorf("the chain: %+v %+v, before %+v", after, after.FirstBad, before)
			}
			for _, table := range []string{"audit_events", "audit_events_archive"} {
				pgtest.Execute(t, raw, `UPDATE saga.`+table+` SET error = NULL WHERE saga_id = $1`, active.ID)
			}
			pgtest.Execute(t, raw, `DELETE FROM saga.saga_step_logs WHERE saga_id = $1`, active.ID)
			pgtest.Execute(t, raw, `DELETE FROM saga.saga_states WHERE id = $1`, active.ID)
			if n := pgtest.Ask[int](t, raw, `SELECT count(*) FROM jobs.job_runs WHERE id IN ($1, $2)`, run, oldRun); n != 2 {
				t.Errorf("%d of the two runs are still on record", n)
			}
			for _, sign := range []string{pgtest.Canary, `"v1.`, hex.EncodeToString([]byte(pgtest.Canary))} {
				if text := dump(t, raw); strings.Contains(text, sign) {
					at := strings.Index(text, sign)
					t.Errorf("%s is still there: …%s…", sign, text[max(0, at-300):at+40])
				}
			}
			l, err := st.Load(t.Context(), pgtest.RefsOf(live.ID))
			if err != nil || len(l) != 1 || !l[0].Saga.Erased() || l[0].Saga.State != live.State ||
				len(l[0].Saga.AllowedActions()) > 0 {
				t.Errorf("reads as %+v, %v", l, err)
			}
			a, err := st.GetArchived(t.Context(), pgtest.Big, old.ID, saga.Logs{})
			if err != nil || !a.Saga.Erased() || len(a.Logs) == 0 {
				t.Errorf("the archived one reads as %+v, %v", a, err)
			}
		})
	}
}

// Erasure cannot be used to change the trail. It cannot change the recorded facts, the content that
// is kept, an event that no erasure names, or an event that was changed before the erasure.
func TestAnErasedEventIsStillGuarded(t *testing.T) {
	dsn := testdb.DSN(t)
	db, raw := pgtest.Connect(t, dsn), pgtest.RawTables(t, dsn)
	pgtest.Registered(t, db)
	asPlainOwner(t, raw)
	st := sagadb.NewSagas(db)
	run, other := ended(t, st), ended(t, st)
	verified(t, db, pgtest.Big)
	if _, err := erasuredb.New(db).Erase(t.Context(), request(erasure.Subject{SagaID: run.ID})); err != nil {
		t.Fatal(err)
	}
	failed := func(id uuid.UUID) int64 {
		return pgtest.Ask[int64](t, raw, `SELECT id FROM saga.audit_events WHERE saga_id = $1 AND error IS NOT NULL LIMIT 1`, id)
	}
	// The owner of the tables, who is not a superuser, cannot do it at all.
	const purge = `SELECT saga.purge_events($1, ARRAY[$2::bigint], ARRAY[$3::uuid])`
	if _, err := raw.ExecContext(t.Context(), purge, pgtest.Big, failed(other.ID), other.ID); err == nil ||
		!strings.Contains(err.Error(), "append-only") {
		t.Errorf("an event that no erasure names: %v", err)
	}
	// A superuser can do it, and the change is detected.
	for name, change := range map[string]string{
		"who did it":           `UPDATE saga.audit_events SET actor = 'nobody' WHERE id = $1`,
		"what is left":         `UPDATE saga.audit_events SET error = jsonb_set(error, '{code}', '"none"') WHERE id = $1`,
		"erased without trace": `UPDATE saga.audit_events SET error = NULL WHERE id = $1`,
	} {
		id := failed(run.ID)
		was := pgtest.Ask[string](t, raw, `SELECT jsonb_build_object('actor', actor, 'error', error) FROM saga.audit_events WHERE id = $1`, id)
		pgtest.Execute(t, raw, change, id)
		v := verified(t, db, pgtest.Big)
		if v.FirstBad == nil || v.FirstBad.Kind != trail.DigestMismatch || v.FirstBad.EventID != id {
			t.Errorf("%s: %+v", name, v.FirstBad)
		}
		pgtest.Execute(t, raw, `UPDATE saga.audit_events SET actor = $2::jsonb->>'actor', error = $2::jsonb->'error' WHERE id = $1`, id, was)
	}
	if v := verified(t, db, pgtest.Big); v.FirstBad != nil {
		t.Fatal("put back, but", v.FirstBad)
	}
	pgtest.Execute(t, raw, `UPDATE saga.audit_events SET error = jsonb_set(error, '{code}', '"none"') WHERE id = $1`, failed(other.ID))
	_, err := erasuredb.New(db).Erase(t.Context(), request(erasure.Subject{SagaID: other.ID}))
	if !fault.IsCode(err, erasure.CodeNotErasable) {
		t.Errorf("an erasure that would hide a change: %v", err)
	}
}
