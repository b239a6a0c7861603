package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/google/uuid"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// lettered is sagas and letters of one database.
type lettered struct {
	t       *testing.T
	db      *sql.DB
	sagas   *postgres.Sagas
	letters *postgres.Letters
}

func letters(t *testing.T) *lettered {
	t.Helper()
	db := connect(t, testdb.DSN(t))
	registered(t, db)
	return &lettered{t, db.SQL(), postgres.NewSagas(db), postgres.NewLetters(db, dlq.DefaultPolicy)}
}

// begun stores n sagas and lets them come to the compensation of their first step.
func (k *lettered) begun(n int) []saga.Instance {
	k.t.Helper()
	batch := someSagas(n)
	runs := make([]saga.Instance, n)
	if r, err := k.sagas.Create(k.t.Context(), batch); err != nil || r[0].Created != saga.Stored {
		k.t.Fatal(r, err)
	}
	for i := range batch {
		runs[i] = k.play(saga.NewInstance(batch[i].Saga, order), done(), refusal("no"))
	}
	return runs
}

// play commits what events make of a run.
func (k *lettered) play(run saga.Instance, events ...saga.Event) saga.Instance {
	k.t.Helper()
	for _, e := range events {
		c := applied(run, e)
		commit(k.t, k.sagas, []saga.Change{c})
		run = c.After
	}
	return run
}

// letter reads the letter of a run, which must name one.
func (k *lettered) letter(id uuid.UUID) dlq.Letter {
	k.t.Helper()
	if id == uuid.Nil {
		k.t.Fatal("the saga names no letter")
	}
	l, err := k.letters.Get(k.t.Context(), big, id)
	if err != nil {
		k.t.Fatal(err)
	}
	return l
}

// attempts are the numbers and outcomes of a letter's retries.
func (k *lettered) attempts(id uuid.UUID) string {
	k.t.Helper()
	return ask[string](k.t, k.db, `
		SELECT coalesce(string_agg(number || ' ' || outcome, ', ' ORDER BY number), '') FROM dlq.dlq_attempts
		 WHERE message_id = $1 AND tenant_id = $2 AND ended_at >= started_at`, id, big)
}

func refusal(message string) saga.Event {
	return saga.Answered{Outcome: saga.Outcome{
		Verdict: saga.Refused, Class: retry.Refused, Code: "http_409", Message: message, Request: []byte(`{}`), StartedAt: now(), EndedAt: now(),
	}}
}

func resume() saga.Event { return saga.ResumeRequested{By: "op"} }

func orderUndone() saga.Event {
	return saga.StepOrdered{Order: saga.Order{Verb: saga.UndoneStep, By: "carla", Reason: "called the stock"}}
}
