package sagadb_test

import (
	"database/sql"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// writtenOf is everything that changes of a saga write, without ids and transaction ids.
const writtenOf = `
SELECT 'row: ' || (to_jsonb(s) - ARRAY['id', 'created_at', 'timeout_at'])::text FROM saga.saga_states s WHERE id = $1
UNION ALL
SELECT * FROM (SELECT 'log: ' || (to_jsonb(l) - ARRAY['id', 'saga_id'])::text FROM saga.saga_step_logs l WHERE saga_id = $1 ORDER BY step_index, attempt) l
UNION ALL
SELECT * FROM (SELECT 'event: ' || (to_jsonb(e) - ARRAY['id', 'saga_id', 'txid', 'digest', 'timestamp'])::text
                 FROM saga.audit_events e WHERE saga_id = $1 ORDER BY e.id) e`

// A saga whose every change was written by the shorter statement looks like one whose
// changes traveled with an operator's.
func TestOnwardChangesAreWrittenAsAllOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	pgtest.Registered(t, db)
	st := sagadb.NewSagas(db)
	batch := pgtest.SomeSagas(3)
	for i := range batch {
		batch[i].CreatedAt, batch[i].StartedAt = batch[0].CreatedAt, batch[0].StartedAt
	}
	results, err := st.Create(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	one, other, slow := saga.NewInstance(results[0].Saga, pgtest.Order), saga.NewInstance(results[1].Saga, pgtest.Order),
		saga.NewInstance(results[2].Saga, pgtest.Order)
	for range pgtest.Order.Steps {
		// Both changes are made of the same outcome, at the same time.
		now, done := pgtest.Now(), pgtest.Done()
		apply := func(run saga.Instance, e saga.Event) saga.Change {
			c, err := saga.Apply(run, e, saga.Moment{Now: now, NewID: pgtest.NewID})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		alone, among := apply(one, done), apply(other, done)
		with := apply(slow, saga.Slow{StartedAt: now})
		operated := apply(with.After, done)
		operated.Operated = &saga.Operated{}
		if sagadb.CommitText(t, []saga.Change{alone}) != sagadb.CommitOnward ||
			sagadb.CommitText(t, []saga.Change{among, operated}) != sagadb.CommitOperated {
			t.Fatal("the statements are not those to compare")
		}
		pgtest.Commit(t, st, []saga.Change{with})
		pgtest.Commit(t, st, []saga.Change{alone})
		pgtest.Commit(t, st, []saga.Change{among, operated})
		one, other, slow = alone.After, among.After, operated.After
		if diff := cmp.Diff(texts(t, db.SQL(), writtenOf, other.ID), texts(t, db.SQL(), writtenOf, one.ID)); diff != "" {
			t.Fatalf("at version %d (-with others +alone):\n%s", one.Version, diff)
		}
	}
	if one.State != saga.Completed {
		t.Errorf("the saga is %s", one.State)
	}
}

func texts(t *testing.T, db *sql.DB, query string, args ...any) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	return all
}

// Each of these changes says something for which the shorter statement has no parameter.
func TestWhatOnwardChangesCannotSayIsWrittenByTheFullStatement(t *testing.T) {
	t.Parallel()
	failure := &saga.Error{Code: "http_500"}
	now, text, cause := pgtest.Now(), "why", saga.CauseCancelled
	for name, change := range map[string]func(*saga.Change){
		"nothing":               func(*saga.Change) {},
		"a key":                 func(c *saga.Change) { c.Key = &idempotency.Key{} },
		"an operator":           func(c *saga.Change) { c.Operated = &saga.Operated{} },
		"start of compensation": func(c *saga.Change) { c.StartsCompensation = true },
		"a wait":                func(c *saga.Change) { c.After.NextRunAt = &now },
		"failures":              func(c *saga.Change) { c.After.Failures = 1 },
		"uncertain":             func(c *saga.Change) { c.After.Uncertain = true },
		"an error":              func(c *saga.Change) { c.After.Error = failure },
		"a cause":               func(c *saga.Change) { c.After.EndCause = &cause },
		"attention":             func(c *saga.Change) { c.After.NeedsAttention = true },
		"a reason":              func(c *saga.Change) { c.After.AttentionReason = &text },
		"compensation expired":  func(c *saga.Change) { c.After.CompensationExpired = true },
		"a deadline passed":     func(c *saga.Change) { c.After.TimedOutAt = &now },
		"a cancel":              func(c *saga.Change) { c.After.CancelRequestedAt = &now },
		"a log to complete":     func(c *saga.Change) { c.Logs[0].Completes = true },
		"a log's error":         func(c *saga.Change) { c.Logs[0].Error = failure },
		"data of an event":      func(c *saga.Change) { c.Audit[0].Data = json.RawMessage(`{}`) },
		"error of an event":     func(c *saga.Change) { c.Audit[0].Error = failure },
		"an actor":              func(c *saga.Change) { c.Audit[0].Actor = "ops" },
		"a request":             func(c *saga.Change) { c.Audit[0].RequestID = "r" },
	} {
		batch := pgtest.OnwardChanges(2)
		c := batch[1]
		change(&c)
		onward := sagadb.CommitText(t, []saga.Change{c}) == sagadb.CommitOnward
		if want := name == "nothing"; onward != want {
			t.Errorf("%s: written by the shorter statement: %v", name, onward)
		}
		batch[1] = c
		if behind := sagadb.CommitText(t, batch) == sagadb.CommitOnward; behind != onward {
			t.Errorf("%s: behind another change written by the shorter statement: %v", name, behind)
		}
	}
}
