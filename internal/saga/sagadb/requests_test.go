package sagadb_test

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/erasure/erasuredb"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// sentAll stores a saga and answers its calls up to the given point.
func sentAll(t *testing.T, st *sagadb.Sagas, payload string, answers ...saga.Event) saga.Instance {
	t.Helper()
	n := pgtest.Unkeyed()
	n[0].Payload = json.RawMessage(payload)
	if r, err := st.Create(t.Context(), n); err != nil || r[0].Created != saga.Stored {
		t.Fatal(r, err)
	}
	run := saga.NewInstance(n[0].Saga, pgtest.Order)
	for _, e := range answers {
		c := pgtest.Applied(run, pgtest.Sent(run, e))
		pgtest.Commit(t, st, []saga.Change{c})
		run = c.After
	}
	return run
}

// requestsOf returns the requests of a saga's logs, as read by the store and by SQL.
func requestsOf(t *testing.T, st *sagadb.Sagas, raw *sql.DB, id uuid.UUID, archived bool) (read, inSQL []string) {
	t.Helper()
	logs, err := st.StepLogs(t.Context(), pgtest.Big, id, saga.Logs{})
	if archived {
		var a saga.Archived
		a, err = st.GetArchived(t.Context(), pgtest.Big, id, saga.Logs{})
		logs = a.Logs
	}
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, l := range logs {
		read = append(read, string(l.Request))
	}
	return read, texts(t, raw, `SELECT coalesce(request_payload::text, 'NULL') FROM saga.every_step_log WHERE saga_id = $1 ORDER BY step_index, started_at, attempt`, id)
}

// A payload that an operator changes by hand affects the requests that are sent from then on, and
// not those sent before.
func TestAChangedPayloadDoesNotChangeWhatWasSent(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db, raw := pgtest.Connect(t, dsn), pgtest.RawTables(t, dsn)
	pgtest.Registered(t, db)
	st := sagadb.NewSagas(db)
	for name, answers := range map[string][]saga.Event{
		"under way":   {pgtest.Done(), pgtest.Done()},
		"turned back": {pgtest.Done(), pgtest.Refusal("no")},
		"archived":    {pgtest.Done(), pgtest.Done(), pgtest.Done()},
	} {
		t.Run(name, func(t *testing.T) {
			archived := name == "archived"
			run := sentAll(t, st, `{"a":[1.50,"é"]}`, answers...)
			table := "saga.saga_states"
			if archived {
				table += "_archive"
				if n, err := st.ArchiveExpired(t.Context(), pgtest.Once, 10); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			before, inSQL := requestsOf(t, st, raw, run.ID, archived)
			if !strings.Contains(before[1], `1.50`) || !strings.Contains(inSQL[1], `1.50`) {
				t.Fatalf("sent: %q, %q", before, inSQL)
			}
			pgtest.Execute(t, raw, `UPDATE `+table+` SET payload = '{"a":"by hand"}' WHERE id = $1`, run.ID)
			after, inSQLAfter := requestsOf(t, st, raw, run.ID, archived)
			if diff := cmp.Diff(before, after) + cmp.Diff(inSQL, inSQLAfter); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
			if archived {
				return
			}
			l, err := st.Load(t.Context(), pgtest.RefsOf(run.ID))
			if err != nil || len(l) != 1 {
				t.Fatal(l, err)
			}
			now := saga.Rebuild(l[0].Saga, pgtest.Order, l[0].Logs)
			c := pgtest.Applied(now, pgtest.Sent(now, pgtest.Done()))
			pgtest.Commit(t, st, []saga.Change{c})
			after, _ = requestsOf(t, st, raw, run.ID, false)
			if text := strings.Join(after, "\n"); strings.Count(text, `"payload":{"a":"by hand"}`) != 1 || len(after) != len(before)+1 {
				t.Errorf("the next call, with the new payload, and those before it:\n%s", text)
			}
		})
	}
}

// Erased requests that are rebuilt read as erased, like those that are stored.
func TestRequestsThatAreNotKeptAreErased(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db, raw := pgtest.Connect(t, dsn), pgtest.RawTables(t, dsn)
	pgtest.Registered(t, db)
	asPlainOwner(t, raw)
	st := sagadb.NewSagas(db)
	for _, archived := range []bool{false, true} {
		run := sentAll(t, st, string(pgtest.Says("payload")), pgtest.Done(), pgtest.Done(), pgtest.Done())
		if archived {
			if n, err := st.ArchiveExpired(t.Context(), pgtest.Once, 10); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		if read, _ := requestsOf(t, st, raw, run.ID, archived); !strings.Contains(strings.Join(read, ""), pgtest.Canary) {
			t.Fatal(read)
		}
		e := request(erasure.Subject{SagaID: run.ID})
		if erased, err := erasuredb.New(db).Erase(t.Context(), e); err != nil || erased.StepLogs != 3 {
			t.Fatal(erased, err)
		}
		read, inSQL := requestsOf(t, st, raw, run.ID, archived)
		for i := range read {
			if read[i] != string(saga.ErasedContent) || inSQL[i] != `{"$skald_erased": true}` {
				t.Errorf("archived %v: reads as %s, in SQL as %s", archived, read[i], inSQL[i])
			}
		}
	}
}

// Nothing is stored twice: whichever way its calls go, a saga of three steps takes at most a tenth
// more space than its payload and its outputs.
func TestPayloadsAndOutputsAreStoredOnce(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db, raw := pgtest.Connect(t, dsn), pgtest.RawTables(t, dsn)
	pgtest.Registered(t, db)
	noise := func(n int) string { // random, so that it does not compress
		b := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{}).Read(b)
		return `{"n":"` + base64.StdEncoding.EncodeToString(b)[:n] + `"}`
	}
	done := func() saga.Event {
		e := pgtest.Done().(saga.Answered)
		e.Output = json.RawMessage(noise(10_000))
		return e
	}
	st := sagadb.NewSagas(db)
	for name, answers := range map[string][]saga.Event{
		"completed":   {done(), done(), done()},
		"compensated": {done(), done(), pgtest.Refusal("no"), pgtest.Done(), pgtest.Done()},
	} {
		run := sentAll(t, st, noise(100_000), answers...)
		if !run.State.Terminal() {
			t.Fatal(run.State)
		}
		stored := pgtest.Ask[int](t, raw, `SELECT (SELECT pg_column_size(s.payload) FROM saga.saga_states s WHERE id = $1)
			+ (SELECT sum(coalesce(pg_column_size(request_payload), 0) + coalesce(pg_column_size(request_parts), 0) + coalesce(pg_column_size(response_payload), 0))
			     FROM saga.saga_step_logs WHERE saga_id = $1)`, run.ID)
		if content := 100_000 + 30_000; stored > content*11/10 {
			t.Errorf("%s: %d bytes for %d of content", name, stored, content)
		}
		read, _ := requestsOf(t, st, raw, run.ID, false)
		if len(read) != len(answers) || len(read[0]) < 100_000 {
			t.Errorf("%s: %d requests, the first of %d bytes", name, len(read), len(read[0]))
		}
	}
}
