package sagadb_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/eventtest"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// The stores behave the same with and without encryption.
func TestStoresKeepTheContractWithEncryption(t *testing.T) {
	keys := pgtest.Keyring(t, pgtest.KeyOne)
	open := func(t *testing.T) storetest.Env {
		t.Helper()
		env := pgtest.EnvOf(t, pgtest.ConnectWith(t, pgtest.PlainLogin(t, testdb.DSN(t)), keys))
		env.BriefErrors = true
		return env
	}
	t.Run("sagas", func(t *testing.T) { storetest.Sagas(t, open) })
	t.Run("ownership", func(t *testing.T) { storetest.Ownership(t, pgtest.Emptied(t, keys)) })
	t.Run("archive", func(t *testing.T) { storetest.Archive(t, open) })
	t.Run("trail", func(t *testing.T) { storetest.Trail(t, open) })
	t.Run("webhooks", func(t *testing.T) { eventtest.Webhooks(t, open) })
	t.Run("publications", func(t *testing.T) { eventtest.Publications(t, open) })
}

// withCanary stores a saga in which all content contains the canary: the client's, that of two
// participants, and an operator's.
func withCanary(t *testing.T, st *sagadb.Sagas) saga.Instance {
	t.Helper()
	n := pgtest.Unkeyed()
	n[0].Payload = pgtest.Says("payload")
	if r, err := st.Create(t.Context(), n); err != nil || r[0].Created != saga.Stored {
		t.Fatal(r, err)
	}
	run := saga.NewInstance(n[0].Saga, pgtest.Order)
	answer := func(v saga.Verdict, class retry.Class) saga.Outcome {
		return saga.Outcome{Verdict: v, Class: class, Code: "http", Request: pgtest.Says("request"), StartedAt: pgtest.Now(),
			EndedAt: pgtest.Now()}
	}
	first := answer(saga.Done, "")
	first.Output = pgtest.Says("output")
	refusal := answer(saga.Refused, retry.Refused)
	refusal.Message, refusal.Response = "no "+pgtest.Canary, pgtest.Says("refusal")
	for i, e := range []saga.Event{saga.Slow{StartedAt: pgtest.Now()}, saga.Answered{Outcome: first},
		saga.Answered{Outcome: refusal}} {
		c := pgtest.Applied(run, e)
		if i == 2 {
			c.Operated = &saga.Operated{Interventions: true, Result: true}
			c.After.Result = pgtest.Says("result")
			c.After.Interventions = &saga.Interventions{
				Steps: map[int]saga.StepIntervention{1: {Base: 3, Input: pgtest.Says("input"),
					Next: &saga.NextRun{Input: pgtest.Says("next")}}},
				Order: &saga.Order{Verb: saga.CompleteStep, Output: pgtest.Says("by hand")},
			}
		}
		pgtest.Commit(t, st, []saga.Change{c})
		run = c.After
	}
	return run
}

// dump returns every row of every table, as text.
func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	tables := pgtest.Ask[string](t, db, `SELECT string_agg(format('%I.%I', schemaname, tablename), ' ') FROM pg_tables WHERE schemaname IN ('saga', 'dlq', 'jobs', 'skald')`)
	var all strings.Builder
	for table := range strings.FieldsSeq(tables) {
		all.WriteString(pgtest.Ask[string](t, db, `SELECT coalesce(string_agg(r::text, E'\n'), '') FROM `+table+` r`))
	}
	return all.String()
}

func TestADumpContainsNoPlaintext(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys *envelope.Keyring
		want bool
	}{{"with encryption", pgtest.Keyring(t, pgtest.KeyOne), false}, {"without, or the test would prove nothing", nil, true}} {
		t.Run(tt.name, func(t *testing.T) {
			db := pgtest.ConnectWith(t, testdb.DSN(t), tt.keys)
			pgtest.Registered(t, db)
			st := sagadb.NewSagas(db)
			run := withCanary(t, st)
			if got := strings.Contains(dump(t, db.SQL()), pgtest.Canary); got != tt.want {
				t.Errorf("the dump contains the canary: %v", got)
			}
			l, err := st.Load(t.Context(), pgtest.RefsOf(run.ID))
			if err != nil || len(l) != 1 {
				t.Fatal(l, err)
			}
			want := []any{run.Payload, run.Result, run.Error, run.Interventions}
			if diff := cmp.Diff(want,
				[]any{l[0].Saga.Payload, l[0].Saga.Result, l[0].Saga.Error, l[0].Saga.Interventions}); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(l[0].Logs)
			// two requests, an output, a refusal twice, and its message
			if n := strings.Count(string(text), pgtest.Canary); err != nil || n != 6 {
				t.Errorf("the logs contain the canary %d times, %v: %s", n, err, text)
			}
			// The views of the schema still count the runs of a step correctly.
			if base := pgtest.Ask[int](t, db.SQL(), `SELECT saga.step_base(interventions, 1, 'EXECUTE') FROM saga.saga_states`); base != 3 {
				t.Errorf("the run of step 1 begins after attempt %d, want 3", base)
			}
		})
	}
}

// Anyone who can write to the database can move sealed content elsewhere. Reading it there must be
// an error, and must not return another client's data.
func TestMovedSealedContentIsAnErrorOfItsSagaOnly(t *testing.T) {
	for name, swap := range map[string]string{
		"payloads of two sagas":         `UPDATE saga.saga_states s SET payload = o.payload FROM saga.saga_states o WHERE s.id = $1 AND o.id = $2`,
		"errors of two sagas":           `UPDATE saga.saga_states s SET error = o.error FROM saga.saga_states o WHERE s.id = $1 AND o.id = $2`,
		"a result as the payload":       `UPDATE saga.saga_states s SET payload = result_data WHERE s.id IN ($1, $2) AND s.id = $1`,
		"requests of two sagas":         `UPDATE saga.saga_step_logs s SET request_payload = o.request_payload FROM saga.saga_step_logs o WHERE s.saga_id = $1 AND o.saga_id = $2 AND s.step_index = o.step_index`,
		"a request as the response":     `UPDATE saga.saga_step_logs s SET response_payload = request_payload WHERE s.saga_id IN ($1, $2) AND s.saga_id = $1 AND response_payload IS NOT NULL`,
		"an operator's inputs, swapped": `UPDATE saga.saga_states s SET interventions = jsonb_set(interventions, '{steps,1,input}', interventions #> '{steps,1,next,input}') WHERE s.id IN ($1, $2) AND s.id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int32
			db,
				err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t), Encryption: pgtest.Keyring(t, pgtest.KeyOne),
				Unreadable: func(_ context.Context, err error) {
					if told.Add(1); !errors.Is(err, envelope.ErrUnreadable) || strings.Contains(err.Error(), pgtest.Canary) {
						t.Errorf("reported: %v", err)
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			pgtest.Registered(t, db)
			st := sagadb.NewSagas(db)
			a, b := withCanary(t, st), withCanary(t, st)
			pgtest.Execute(t, db.SQL(), swap, a.ID, b.ID)
			// For people, the saga is shown without that content and is marked.
			s, err := st.Get(t.Context(), pgtest.Big, a.ID)
			if err != nil {
				t.Fatal(err)
			}
			logs, err := st.StepLogs(t.Context(), pgtest.Big, a.ID, saga.Logs{})
			if err != nil {
				t.Fatal(err)
			}
			marked := s.ContentUnreadable
			for i := range logs {
				marked = marked || logs[i].ContentUnreadable
			}
			other, err := st.Get(t.Context(), pgtest.Big, b.ID)
			if !marked || err != nil || other.ContentUnreadable {
				t.Errorf("read: %+v, %+v; the other: %+v, %v", s, logs, other, err)
			}
			l, err := st.Load(t.Context(), pgtest.RefsOf(a.ID, b.ID))
			if err != nil || len(l) != 1 || l[0].Saga.ID != b.ID || told.Load() == 0 {
				t.Errorf("the engine loads %d sagas, %v, and %d errors were reported; want the other saga, and at least one error", len(l), err, told.Load())
			}
			// The list is read page by page; an empty page need not be the last.
			var found []saga.Stalled
			for q := (saga.NeglectedQuery{Idle: time.Hour, Limit: 1}); ; {
				page, next, err := st.Neglected(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if found = append(found, page...); next == (saga.Ref{}) {
					break
				}
				q.After = next
			}
			if !slices.ContainsFunc(found, func(s saga.Stalled) bool { return s.Saga.ID == b.ID }) {
				t.Errorf("the janitor finds %d sagas; want the other one among them", len(found))
			}
		})
	}
}

// Two nodes change the same sagas, but only one of them has the new key as its first.
func TestKeysAreRotatedWhileSagasRun(t *testing.T) {
	dsn := testdb.DSN(t)
	old, fresh := pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyOne+","+pgtest.KeyTwo)),
		pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyTwo+","+pgtest.KeyOne))
	pgtest.Registered(t, old)
	nodes := []*sagadb.Sagas{sagadb.NewSagas(old), sagadb.NewSagas(fresh)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				n := pgtest.Unkeyed()
				n[0].Payload = pgtest.Says(fmt.Sprint(i))
				if r, err := nodes[i%2].Create(t.Context(), n); err != nil || r[0].Created != saga.Stored {
					t.Error(r, err)
					return
				}
				run := saga.NewInstance(n[0].Saga, pgtest.Order)
				for step := range 3 {
					c := pgtest.Applied(run, pgtest.Done())
					if errs, err := nodes[(i+step)%2].Commit(t.Context(), []saga.Change{c}); err != nil || errs[0] != nil {
						t.Error(errs, err)
						return
					}
					l, err := nodes[(i+step+1)%2].Load(t.Context(), pgtest.RefsOf(run.ID))
					if err != nil || len(l) != 1 || string(l[0].Saga.Payload) != string(n[0].Payload) || len(l[0].Logs) != step+1 {
						t.Errorf("%+v, %v", l, err)
						return
					}
					run = c.After
				}
			}
		})
	}
	wg.Wait()
	for _, id := range []string{"one", "two"} {
		if n := pgtest.Ask[int](t, old.SQL(), `SELECT count(*) FROM saga.saga_step_logs WHERE response_payload->>'$skald_enc' LIKE 'v1.' || $1 || '.%'`, id); n != 240 {
			t.Errorf("%d answers are sealed with %s, want 240", n, id)
		}
		// This is the query that docs/security.md recommends before a key is retired.
		if n := pgtest.Ask[int](t, old.SQL(), `SELECT count(*) FROM saga.saga_states r WHERE r::text LIKE '%"v1.`+id+`.%'`); n != 80 {
			t.Errorf("%d payloads are sealed with %s, want 80", n, id)
		}
	}
}

func TestEncryptionIsTurnedOnAndOffOnADatabaseInUse(t *testing.T) {
	dsn := testdb.DSN(t)
	before, on, after := pgtest.Connect(t, dsn), pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyOne)),
		pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyOne).OpenOnly())
	pgtest.Registered(t, before)
	forged := json.RawMessage(`{"$skald_enc":"v1.one.AAAA"}`) // a client may send this
	ids := []uuid.UUID{}
	for _, db := range []*postgres.DB{before, on, after} {
		n := pgtest.Unkeyed()
		n[0].Payload = forged
		if r, err := sagadb.NewSagas(db).Create(t.Context(), n); err != nil || r[0].Created != saga.Stored {
			t.Fatal(r, err)
		}
		ids = append(ids, n[0].ID)
	}
	for name, db := range map[string]*postgres.DB{"on": on, "off again": after} {
		for i, id := range ids {
			if s, err := sagadb.NewSagas(db).Get(t.Context(), pgtest.Big, id); err != nil ||
				string(s.Payload) != string(forged) {
				t.Errorf("%s, saga %d: %s, %v", name, i, s.Payload, err)
			}
		}
	}
	if s, err := sagadb.NewSagas(before).Get(t.Context(), pgtest.Big, ids[1]); err != nil || !s.ContentUnreadable ||
		s.Payload != nil {
		t.Errorf("without keys a sealed payload reads: %+v, %v", s, err)
	}
}

func TestANodeWithoutAKeyThatSealedDoesNotStart(t *testing.T) {
	dsn := testdb.DSN(t)
	for _, tt := range []struct{ name, keys, want string }{
		{"nobody has sealed", "", ""},
		{"the first key", pgtest.KeyOne, ""},
		{"no keys", "", "the database has content encrypted with key one, which is missing from encryption.keys"},
		{"another key only", pgtest.KeyTwo, "the database has content encrypted with key one, which is missing from encryption.keys"},
		{"the first key again", pgtest.KeyOne, ""},
		{"another key of its name", strings.Replace(pgtest.KeyTwo, "two", "one", 1), "the database has content encrypted with a key one that differs from the one in encryption.keys"},
		{"a second key, for later", pgtest.KeyOne + "," + pgtest.KeyTwo, ""},
		{"the second key from now on", pgtest.KeyTwo + "," + pgtest.KeyOne, ""},
	} {
		err := pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, tt.keys)).AdmitKeys(t.Context())
		if err == nil && tt.want != "" || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	// The test retires a key as docs/security.md describes.
	db := pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyTwo))
	pgtest.Execute(t, db.SQL(), `DELETE FROM saga.deployment_secrets WHERE name = 'envelope:one'`)
	if err := db.AdmitKeys(t.Context()); err != nil {
		t.Errorf("the second key, after the first was retired: %v", err)
	}
	if err := pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyTwo).OpenOnly()).AdmitKeys(t.Context()); err != nil {
		t.Errorf("the second key, which only opens: %v", err)
	}
}
