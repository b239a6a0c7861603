package pgtest

import (
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Lettered holds the sagas and letters of one database.
type Lettered struct {
	T       *testing.T
	DB      *sql.DB
	Sagas   *sagadb.Sagas
	Letters *dlqdb.Letters
}

func Letters(t *testing.T) *Lettered {
	t.Helper()
	db := Connect(t, testdb.DSN(t))
	Registered(t, db)
	return &Lettered{t, db.SQL(), sagadb.NewSagas(db), dlqdb.NewLetters(db, dlq.DefaultPolicy)}
}

// Begun stores n sagas and drives each of them to the compensation of its first step.
func (k *Lettered) Begun(n int) []saga.Instance {
	k.T.Helper()
	batch := SomeSagas(n)
	runs := make([]saga.Instance, n)
	if r, err := k.Sagas.Create(k.T.Context(), batch); err != nil || r[0].Created != saga.Stored {
		k.T.Fatal(r, err)
	}
	for i := range batch {
		runs[i] = k.Play(saga.NewInstance(batch[i].Saga, Order), Done(), Refusal("no"))
	}
	return runs
}

// Play applies and commits events.
func (k *Lettered) Play(run saga.Instance, events ...saga.Event) saga.Instance {
	k.T.Helper()
	for _, e := range events {
		c := Applied(run, e)
		Commit(k.T, k.Sagas, []saga.Change{c})
		run = c.After
	}
	return run
}

// Letter returns the letter that a run names; the run must name one.
func (k *Lettered) Letter(id uuid.UUID) dlq.Letter {
	k.T.Helper()
	if id == uuid.Nil {
		k.T.Fatal("the saga names no letter")
	}
	l, err := k.Letters.Get(k.T.Context(), Big, id)
	if err != nil {
		k.T.Fatal(err)
	}
	return l
}

// Attempts returns the numbers and outcomes of a letter's retries.
func (k *Lettered) Attempts(id uuid.UUID) string {
	k.T.Helper()
	return Ask[string](k.T, k.DB, `
		SELECT coalesce(string_agg(number || ' ' || outcome, ', ' ORDER BY number), '') FROM dlq.dlq_attempts
		 WHERE message_id = $1 AND tenant_id = $2 AND ended_at >= started_at`, id, Big)
}

func Refusal(message string) saga.Event {
	return saga.Answered{Outcome: saga.Outcome{
		Verdict: saga.Refused, Class: retry.Refused, Code: "http_409", Message: message, Request: []byte(`{}`),
		StartedAt: Now(), EndedAt: Now(),
	}}
}

func Resume() saga.Event { return saga.ResumeRequested{By: "op"} }

func OrderUndone() saga.Event {
	return saga.StepOrdered{Order: saga.Order{Verb: saga.UndoneStep, By: "carla", Reason: "called the stock"}}
}
