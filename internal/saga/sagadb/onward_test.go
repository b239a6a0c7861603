package sagadb_test

import (
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// writtenOf returns everything that the changes of a saga write, except ids, transaction ids and
// times of the database's clock.
const writtenOf = `
SELECT 'row: ' || (to_jsonb(s) - ARRAY['id', 'created_at', 'timeout_at', 'compensation_timeout_at'])::text ||
       (compensation_timeout_at IS NULL)::text FROM saga.saga_states s WHERE id = $1
UNION ALL
SELECT * FROM (SELECT 'log: ' || (to_jsonb(l) - ARRAY['id', 'saga_id'])::text FROM saga.saga_step_logs l
                WHERE saga_id = $1 ORDER BY step_index, action, attempt) l
UNION ALL
SELECT * FROM (SELECT 'event: ' || (to_jsonb(e) - ARRAY['id', 'saga_id', 'txid', 'digest', 'timestamp'])::text
                 FROM saga.audit_events e WHERE saga_id = $1 ORDER BY e.id) e`

// Writing each change of a saga alone, by the narrowest statement that can write it, must have the
// same result as writing it in a shared batch that needs a wider statement.
func TestChangesAreWrittenAlikeByEveryStatement(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	pgtest.Registered(t, db)
	st := sagadb.NewSagas(db)
	done, refused := pgtest.Done, func() saga.Event { return pgtest.Refusal("no") }
	unanswered := func() saga.Event {
		return saga.Answered{Outcome: saga.Outcome{Verdict: saga.Unknown, Class: retry.Timeout, Code: "timeout",
			Message: "too late", Request: []byte(`{}`), StartedAt: pgtest.Now(), EndedAt: pgtest.Now()}}
	}
	type event = func() saga.Event
	is := func(e saga.Event) event { return func() saga.Event { return e } }
	turned, cancel := is(saga.Turned{}), is(saga.CancelRequested{By: "ann", Reason: "why"})
	wide := map[string]func(*saga.Change){
		sagadb.CommitDriven: func(c *saga.Change) { c.After.NextRunAt = &c.After.UpdatedAt },
		sagadb.CommitSagas: func(c *saga.Change) {
			c.Key = &idempotency.Key{TenantID: pgtest.Big, Key: pgtest.NewID().String(), Hash: []byte("h")}
		},
		sagadb.CommitOperated: func(c *saga.Change) { c.Operated = &saga.Operated{} },
	}
	for name, life := range map[string]struct {
		events []event
		ends   saga.State
	}{
		"completed":             {[]event{done, done, done}, saga.Completed},
		"retried":               {[]event{done, unanswered, done, done}, saga.Completed},
		"undone":                {[]event{done, done, refused, done, done}, saga.Compensated},
		"undone after a doubt":  {[]event{done, unanswered, refused, done, unanswered, done}, saga.Compensated},
		"undone at once":        {[]event{refused}, saga.Compensated},
		"cancelled":             {[]event{done, cancel, turned, done}, saga.Cancelled},
		"undone on request":     {[]event{done, is(saga.CompensateRequested{By: "ann"}), turned, done}, saga.Compensated},
		"neglected, then done":  {[]event{done, is(saga.Neglected{Reason: "stalled"}), done, done}, saga.Completed},
		"cancelled when it ran": {[]event{done, cancel, done, done, done}, saga.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			batch := pgtest.SomeSagas(2 + 2*len(wide))
			for i := range batch {
				batch[i].CreatedAt, batch[i].StartedAt = batch[0].CreatedAt, batch[0].StartedAt
			}
			results, err := st.Create(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			runs := make([]saga.Instance, len(results))
			for i := range results {
				runs[i] = saga.NewInstance(results[i].Saga, pgtest.Order)
			}
			for _, e := range life.events {
				// All changes result from the same event at the same time.
				now, event := pgtest.Now(), e()
				apply := func(i int) saga.Change {
					c, err := saga.Apply(runs[i], event, saga.Moment{Now: now, NewID: pgtest.NewID, Jitter: 0.5,
						Actor: "ann", RequestID: "r", CompensationTimeout: time.Minute})
					if err != nil {
						t.Fatal(err)
					}
					return c
				}
				alone := []saga.Change{apply(0)}
				if text := sagadb.CommitText(t, alone); text != sagadb.CommitOnward && text != sagadb.CommitDriven {
					t.Fatalf("%T is written by a wide statement", event)
				}
				pgtest.Commit(t, st, alone)
				runs[0] = alone[0].After
				at := 2
				for text, widen := range wide {
					other := saga.Change{After: runs[at+1]}
					other.Before = saga.Precondition{Version: other.After.Version, Epoch: other.After.LeaseEpoch}
					other.After.Version++
					other.After.UpdatedAt = now
					widen(&other)
					among := []saga.Change{apply(at), other}
					if got := sagadb.CommitText(t, among); got != text {
						t.Fatalf("%T travels in another statement than that to compare", event)
					}
					pgtest.Commit(t, st, among)
					runs[at], runs[at+1] = among[0].After, among[1].After
					with, without := texts(t, db.SQL(), writtenOf, runs[at].ID), texts(t, db.SQL(), writtenOf, runs[0].ID)
					if diff := cmp.Diff(with, without); diff != "" {
						t.Fatalf("%T, at version %d (-with others +alone):\n%s", event, runs[0].Version, diff)
					}
					at += 2
				}
			}
			if runs[0].State != life.ends {
				t.Errorf("the saga is %s, want %s", runs[0].State, life.ends)
			}
		})
	}
}

func texts(t testing.TB, db *sql.DB, query string, args ...any) (all []string) {
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

// The content of a change decides which statement can write it and its batch.
func TestAChangeIsWrittenByTheNarrowestStatementThatSaysAllOfIt(t *testing.T) {
	t.Parallel()
	failure := &saga.Error{Code: "http_500"}
	now, text, cause := pgtest.Now(), "why", saga.CauseCancelled
	onward, driven, full, operated := sagadb.CommitOnward, sagadb.CommitDriven, sagadb.CommitSagas, sagadb.CommitOperated
	for name, tt := range map[string]struct {
		change func(*saga.Change)
		want   string
	}{
		"nothing":               {func(*saga.Change) {}, onward},
		"start of compensation": {func(c *saga.Change) { c.StartsCompensation = true }, driven},
		"a wait":                {func(c *saga.Change) { c.After.NextRunAt = &now }, driven},
		"failures":              {func(c *saga.Change) { c.After.Failures = 1 }, driven},
		"uncertain":             {func(c *saga.Change) { c.After.Uncertain = true }, driven},
		"an error":              {func(c *saga.Change) { c.After.Error = failure }, driven},
		"a cause":               {func(c *saga.Change) { c.After.EndCause = &cause }, driven},
		"attention":             {func(c *saga.Change) { c.After.NeedsAttention = true }, driven},
		"a reason":              {func(c *saga.Change) { c.After.AttentionReason = &text }, driven},
		"compensation expired":  {func(c *saga.Change) { c.After.CompensationExpired = true }, driven},
		"a deadline passed":     {func(c *saga.Change) { c.After.TimedOutAt = &now }, driven},
		"a cancel":              {func(c *saga.Change) { c.After.CancelRequestedAt = &now }, driven},
		"a log's error":         {func(c *saga.Change) { c.Logs[0].Error = failure }, driven},
		"data of an event":      {func(c *saga.Change) { c.Audit[0].Data = json.RawMessage(`{}`) }, driven},
		"error of an event":     {func(c *saga.Change) { c.Audit[0].Error = failure }, driven},
		"an actor":              {func(c *saga.Change) { c.Audit[0].Actor = "ops" }, driven},
		"a request":             {func(c *saga.Change) { c.Audit[0].RequestID = "r" }, driven},
		"a key":                 {func(c *saga.Change) { c.Key = &idempotency.Key{} }, full},
		"a log to complete":     {func(c *saga.Change) { c.Logs[0].Completes = true }, full},
		"an operator":           {func(c *saga.Change) { c.Operated = &saga.Operated{} }, operated},
	} {
		batch := pgtest.OnwardChanges(2)
		tt.change(&batch[1])
		for where, changes := range map[string][]saga.Change{
			"alone": batch[1:], "behind another": batch, "before another": {batch[1], batch[0]},
		} {
			if got := sagadb.CommitText(t, changes); got != tt.want {
				t.Errorf("%s, %s, is written by another statement:\n%s", name, where, got)
			}
		}
	}
}
