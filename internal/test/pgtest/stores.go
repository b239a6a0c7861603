package pgtest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access/accessdb"
	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/registrydb"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/storetest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// OpenEnv returns the stores on a database of their own.
func OpenEnv(t *testing.T) storetest.Env {
	t.Helper()
	return EnvOf(t, Connect(t, PlainLogin(t, testdb.DSN(t))))
}

func EnvOf(t *testing.T, db *postgres.DB) storetest.Env {
	sagas := sagadb.NewSagas(db)
	return storetest.Env{
		Sagas:        sagas,
		Ownership:    sagas,
		Archive:      sagas,
		Notes:        sagas,
		Callbacks:    sagas,
		Reports:      sagas,
		Workflows:    sagadb.NewWorkflows(db),
		Trail:        sagadb.NewTrail(db),
		Chain:        sagadb.NewTrail(db),
		Keys:         accessdb.NewKeys(db),
		Webhooks:     eventdb.NewWebhooks(db, nil),
		Publications: eventdb.NewPublications(db),
		Participants: registrydb.New(db),
		OpenLetters: func(t *testing.T, id uuid.UUID) (open []uuid.UUID) {
			t.Helper()
			rows, err := db.SQL().QueryContext(t.Context(), `SELECT id FROM dlq.dlq_messages WHERE saga_id = $1 AND status <> 'RESOLVED'`, id)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var letter uuid.UUID
				if err := rows.Scan(&letter); err != nil {
					t.Fatal(err)
				}
				open = append(open, letter)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return open
		},
		Sent: func(t *testing.T, tenant, id uuid.UUID) map[string]string {
			t.Helper()
			if db.Keys.Seals() { // SQL cannot decrypt them
				return nil
			}
			sent := map[string]string{}
			rows, err := db.SQL().QueryContext(t.Context(), `SELECT concat_ws(' ', step_index, action, attempt), coalesce(request_payload::text, '')
			  FROM saga.every_step_log WHERE tenant_id = $1 AND saga_id = $2`, tenant, id)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var place, request string
				if err := rows.Scan(&place, &request); err != nil {
					t.Fatal(err)
				}
				sent[place] = request
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return sent
		},
		Now:    time.Now,
		Settle: func(t *testing.T) { Settle(t, db.SQL()) },
		// The server's clock cannot be advanced, so all times that are compared with it are moved
		// back instead.
		Advance: func(d time.Duration) {
			Execute(t, db.SQL(), `UPDATE saga.webhook_deliveries SET lease_until = lease_until - $1 * interval '1 us'`, d.Microseconds())
			Execute(t, db.SQL(), `UPDATE saga.publications SET lease_until = lease_until - $1 * interval '1 us'`, d.Microseconds())
			Execute(t, db.SQL(), `UPDATE saga.engine_nodes SET lease_until = lease_until - $1 * interval '1 us'`, d.Microseconds())
			Execute(t, db.SQL(), `
				UPDATE saga.saga_states
				   SET next_run_at = next_run_at - $1 * interval '1 us', updated_at = updated_at - $1 * interval '1 us',
				       suspended_at = suspended_at - $1 * interval '1 us', timeout_at = timeout_at - $1 * interval '1 us',
				       timed_out_at = timed_out_at - $1 * interval '1 us',
				       compensation_timeout_at = compensation_timeout_at - $1 * interval '1 us'
				 WHERE completed_at IS NULL`, d.Microseconds())
		},
	}
}

// Emptied opens a few databases and hands them out in turn, emptied, because creating a database
// takes half a second on a busy machine.
func Emptied(t *testing.T, keys *envelope.Keyring) func(*testing.T) storetest.Env {
	t.Helper()
	type pair struct {
		env storetest.Env
		db  *postgres.DB
	}
	free := make(chan pair, 2)
	for range cap(free) {
		db := ConnectWith(t, testdb.DSN(t), keys)
		free <- pair{EnvOf(t, db), db}
	}
	return func(t *testing.T) storetest.Env {
		p := <-free
		t.Cleanup(func() {
			for _, table := range []string{"saga_states", "engine_nodes", "idempotency_keys",
				"workflow_definitions", "workflows"} {
				Execute(t, p.db.SQL(), "DELETE FROM saga."+table)
			}
			free <- p
		})
		return p.env
	}
}
