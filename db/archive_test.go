package db_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/google/uuid"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestArchivesHaveEveryColumnOfTheirTables(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	// txid belongs to the row, not to the saga: a restored saga has a new one.
	const columns = `SELECT format('%s %s %s', column_name, data_type, character_maximum_length) FROM information_schema.columns
		WHERE table_schema = 'saga' AND table_name = $1 AND column_name <> 'archived_at'
		   AND (table_name, column_name) <> ('saga_states', 'txid') ORDER BY 1`
	for _, table := range []string{"saga_states", "saga_step_logs", "audit_events"} {
		if diff := cmp.Diff(texts(t, pool, columns, table), texts(t, pool, columns, table+"_archive")); diff != "" {
			t.Errorf("columns (-of %s +of its archive):\n%s", table, diff)
		}
	}
}

// fill stores n ended sagas, of which the i-th ended i minutes ago, each with a
// log. Every hundredth needs attention.
func fill(t *testing.T, pool *sql.DB, n int) {
	t.Helper()
	execute(t, pool, `INSERT INTO saga.saga_states (tenant_id, workflow_name, workflow_version, saga_type, total_steps, state, completed_at, clean, needs_attention, payload, error, business_key)
		SELECT gen_random_uuid(), 'w', 1, 'w', 3, CASE WHEN i % 100 = 0 THEN 6 ELSE (ARRAY[3, 5, 7, 8])[1 + i % 4] END,
		       now() - i * interval '1 minute', i % 100 <> 0, i % 100 = 0, '{"n": 1.50}', '{"message": "m"}', 'key ' || i FROM generate_series(1, $1::int) AS i`, n)
	execute(t, pool, `INSERT INTO saga.saga_step_logs (saga_id, step_index, step_name, action, status, completed_at, response_payload)
		SELECT id, 0, 's', 'EXECUTE', 'SUCCESS', now(), '{"b": [1, null]}' FROM saga.saga_states`)
}

var kept = []string{"saga_states", "saga_step_logs"}

// everything returns the content of the live tables and their archives: the row of each id, without
// the columns that archiving changes. An id that is in both fails the test.
func everything(t *testing.T, pool *sql.DB) (live, archived map[string]string) {
	t.Helper()
	live, archived = map[string]string{}, map[string]string{}
	for _, table := range kept {
		for suffix, into := range map[string]map[string]string{"": live, "_archive": archived} {
			for _, row := range texts(t, pool, `SELECT id || ' ' || (to_jsonb(r) - '{archived_at,restored_at,txid}'::text[])::text FROM saga.`+table+suffix+` AS r`) {
				id, content, _ := strings.Cut(row, " ")
				into[table+" "+id] = content
			}
		}
	}
	for id := range live {
		if _, twice := archived[id]; twice {
			t.Errorf("%s is live and archived", id)
		}
	}
	return live, archived
}

func cleanup(t *testing.T, pool *sql.DB, age time.Duration) int {
	t.Helper()
	// Waiting for a lock fails the test instead of blocking it.
	return ask[int](t, pool, `SELECT saga.cleanup_expired_sagas(now() - $1 * interval '1 second') FROM set_config('lock_timeout', '5s', false)`, age.Seconds())
}

func TestCleanupMovesWhatHasExpiredAndLosesNothing(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	fill(t, pool, 2600) // three batches
	before, _ := everything(t, pool)

	// Another session works on some of the old sagas.
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has committed by then
	if _, err := tx.ExecContext(t.Context(), `SELECT 1 FROM saga.saga_states WHERE business_key IN ('key 1501', 'key 2001', 'key 2599') FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	age := 500*time.Minute + 30*time.Second // 501..2600 are older
	const older, attention, held = 2100, 21, 3
	if moved := cleanup(t, pool, age); moved != older-attention-held {
		t.Errorf("%d sagas were moved, want %d", moved, older-attention-held)
	}
	conserved := func() {
		t.Helper()
		live, archived := everything(t, pool)
		for id, row := range archived {
			live[id] = row
		}
		if diff := cmp.Diff(before, live); diff != "" {
			t.Errorf("live and archived rows together (-before +after):\n%s", diff)
		}
	}
	conserved()
	for what, query := range map[string]string{
		"sagas that need attention are gone":   `SELECT $1 - count(*) FROM saga.saga_states WHERE needs_attention`,
		"sagas that are young enough are gone": `SELECT 500 - count(*) + 0 * $1 FROM saga.saga_states WHERE completed_at >= now() - interval '30030 seconds'`,
		"archived sagas have left a log":       `SELECT count(*) + 0 * $1 FROM saga.saga_step_logs AS l JOIN saga.saga_states_archive AS a ON a.id = l.saga_id`,
		"live sagas have lost their log":       `SELECT count(*) + 0 * $1 FROM saga.saga_states AS s WHERE NOT EXISTS (SELECT 1 FROM saga.saga_step_logs AS l WHERE l.saga_id = s.id)`,
	} {
		if n := ask[int](t, pool, query, 26); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if moved := cleanup(t, pool, age); moved != held {
		t.Errorf("%d sagas were moved, want the %d that were held", moved, held)
	}
	if moved := cleanup(t, pool, age); moved != 0 {
		t.Errorf("%d sagas were moved again", moved)
	}
	conserved()
}

func TestRestoredSagasAreByteForByteWhatTheyWere(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	fill(t, pool, 99)
	before, _ := everything(t, pool)
	if moved := cleanup(t, pool, 0); moved != 99 {
		t.Fatalf("%d sagas were moved, want 99", moved)
	}
	const restore = `SELECT count(*) FROM saga.saga_states_archive a WHERE saga.restore_saga(a.tenant_id, a.id)`
	if n := ask[int](t, pool, `SELECT count(*) FROM saga.saga_states_archive a WHERE saga.restore_saga(gen_random_uuid(), a.id)`); n != 0 {
		t.Errorf("%d sagas were restored for a foreign tenant", n)
	}
	if n := ask[int](t, pool, restore); n != 99 {
		t.Errorf("%d sagas were restored, want 99", n)
	}
	live, archived := everything(t, pool)
	if diff := cmp.Diff(before, live); diff != "" || len(archived) > 0 {
		t.Errorf("%d rows are archived; live ones (-before +after):\n%s", len(archived), diff)
	}
	// The restored sagas stay live, whenever they ended, because they were restored only a moment
	// ago.
	if moved := cleanup(t, pool, time.Minute); moved != 0 {
		t.Errorf("%d sagas were moved though they have just been restored", moved)
	}
	if moved := cleanup(t, pool, -time.Minute); moved != 99 {
		t.Errorf("%d sagas were moved again, want 99", moved)
	}
	if again := cleanup(t, pool, -time.Minute) + ask[int](t, pool, restore); again != 99 {
		t.Errorf("%d sagas were restored again, want 99", again)
	}
}

// Regardless of the caller, unfinished sagas and those that need attention stay.
func TestArchivingByIDRefusesWhatIsNotOver(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	fill(t, pool, 200)
	execute(t, pool, `INSERT INTO saga.saga_states (tenant_id, workflow_name, workflow_version, saga_type, total_steps) VALUES (gen_random_uuid(), 'w', 1, 'w', 3)`)
	const archive = `SELECT saga.archive_sagas(ARRAY(SELECT id FROM saga.saga_states) || gen_random_uuid())`
	if n := ask[int](t, pool, archive); n != 198 {
		t.Errorf("%d sagas were archived, want 198", n)
	}
	if n := ask[int](t, pool, archive); n != 0 {
		t.Errorf("%d sagas were archived again", n)
	}
	if n := ask[int](t, pool, `SELECT saga.archive_sagas('{}')`); n != 0 {
		t.Errorf("%d sagas of none were archived", n)
	}
}

func TestCleanupsAtOnceShareTheWork(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	fill(t, pool, 1500)
	before, _ := everything(t, pool)
	moved := make([]int, 4)
	var wg sync.WaitGroup
	for i := range moved {
		wg.Go(func() {
			if err := pool.QueryRowContext(t.Context(), `SELECT saga.cleanup_expired_sagas(now())`).Scan(&moved[i]); err != nil {
				t.Errorf("clean-up %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if total := moved[0] + moved[1] + moved[2] + moved[3]; total != 1500-15 {
		t.Errorf("%v sagas were moved, want 1485 in all", moved)
	}
	live, archived := everything(t, pool)
	if len(live) != 15*len(kept) || len(live)+len(archived) != len(before) {
		t.Errorf("%d rows are live and %d archived of %d", len(live), len(archived), len(before))
	}
}

func TestCleanupNeverTouchesLiveSagas(t *testing.T) {
	t.Parallel()
	s := tell(t)
	runs := s.library()
	want := 0
	for _, run := range runs {
		if run.State.Terminal() && !run.NeedsAttention {
			want++
		}
	}
	if moved := ask[int](t, s.pool, `SELECT saga.cleanup_expired_sagas(now() + interval '1 hour')`); moved != want {
		t.Errorf("%d sagas were moved, want the %d that have ended well", moved, want)
	}
	for name, run := range runs {
		_, err := s.st.Get(t.Context(), s.id, run.ID)
		if gone := run.State.Terminal() && !run.NeedsAttention; gone != (err != nil) {
			t.Errorf("%s, %s: %v", name, run.State, err)
		}
	}
}

// Participants know the idempotency keys of an archived saga. In addition, a second saga with its
// id could not be archived, which would stop every later clean-up.
func TestAnArchivedSagasIDStaysTaken(t *testing.T) {
	t.Parallel()
	s := tell(t)
	node := int64(1)
	run := s.play(s.begin(&node), s.refused(), false)
	if moved := cleanup(t, s.pool, -time.Hour); moved != 1 {
		t.Fatalf("%d sagas were moved, want 1", moved)
	}
	fresh := saga.New(saga.Spec{ID: uuid.Must(uuid.NewV7()), Tenant: tenant.Tenant{ID: s.id},
		Payload: json.RawMessage(`{}`)}, s.def, 1, &node, s.now(), 0)
	again := fresh
	again.ID = run.ID
	key := &idempotency.Key{TenantID: s.id, Principal: "p", Route: "r", Key: "k", Hash: []byte("h")}
	results, err := s.st.Create(t.Context(), []saga.NewSaga{{Saga: again, Key: key}, {Saga: fresh}})
	if err != nil || results[0].Created != saga.IDTaken || results[1].Created != saga.Stored {
		t.Errorf("results %v, %v; want the archived id taken and the other stored", fmt.Sprint(results[0].Created, results[1].Created), err)
	}
	if state, _, err := s.st.Key(t.Context(), *key); err != nil || state != saga.KeyNew {
		t.Errorf("the refused saga's key is %d, %v; want new", state, err)
	}
}
