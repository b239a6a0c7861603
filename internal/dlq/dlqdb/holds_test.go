package dlqdb_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestAPolicyHoldsLettersThatAreScheduled(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	topic := func(name string) func(*dlq.Letter) { return func(l *dlq.Letter) { l.OriginalTopic = name } }
	l := m.PushAll(t, m.Due(topic("held")), m.Due(topic("held")), m.Due(topic("free")))
	soon := dlq.EditRequested{Edit: dlq.Edit{NextRetryAt: new(pgtest.Now())}}
	asked := pgtest.AppliedToLetter(t, m.Read(t, l[1].ID), soon)
	asked.OriginalTopic = "held"
	if err := m.Change(t.Context(), asked, m.Action(asked, "update")); err != nil {
		t.Fatal(err)
	}
	m.ChangePolicy(t, "held", func(p *dlq.Policy) { p.AutoRetry = false })
	claimed := map[uuid.UUID]bool{}
	for _, d := range m.ClaimDue(t, 2) {
		claimed[d.ID] = true
	}
	if claimed[l[0].ID] || !claimed[l[1].ID] || !claimed[l[2].ID] {
		t.Errorf("claimed %v; want the one that somebody asked for, and the one of another topic", claimed)
	}
	held := m.Read(t, l[0].ID)
	if held.Status != dlq.Pending || held.NextRetryAt != nil || held.NextRetry() == nil || !held.Scheduled() {
		t.Errorf("%s, next %v, held %v", held.Status, held.NextRetryAt, held.HeldRetryAt)
	}
	if by := m.HeldBy(t, "held"); by != dlq.HeldByTopic {
		t.Errorf("held by %q", by)
	}
	if n := m.Free(t); n != 0 {
		t.Errorf("%d letters were let go", n)
	}
	m.ChangePolicy(t, "held", func(p *dlq.Policy) { p.AutoRetry = true })
	// hold_all also holds topics that have a policy of their own.
	m.ChangePolicy(t, "", func(p *dlq.Policy) { p.HoldAll = true })
	if n := m.Free(t); n != 0 {
		t.Errorf("%d letters were let go", n)
	}
	if by := m.HeldBy(t, "held"); by != dlq.HeldByAll {
		t.Errorf("held by %q", by)
	}
	m.ClaimDue(t, 0)
	m.ChangePolicy(t, "", func(p *dlq.Policy) { p.HoldAll = false })
	if n, err := m.Queue.Release(t.Context(), 100, pgtest.Chance); err != nil || n != 1 {
		t.Fatalf("let go %d, %v", n, err)
	}
	freed := m.Read(t, l[0].ID)
	first := time.Duration(dlq.DefaultPolicy.Backoff.InitialIntervalMS) * time.Millisecond
	if freed.HeldRetryAt != nil || freed.NextRetryAt == nil || time.Until(*freed.NextRetryAt) > first {
		t.Errorf("next %v, held %v", freed.NextRetryAt, freed.HeldRetryAt)
	}
	if m.Free(t); len(m.ClaimDue(t, 1)) != 1 {
		t.Error("the letter does not go on")
	}
}

// Where there is no policy, the configuration decides what is held. A policy that says otherwise
// takes precedence for its topic.
func TestTheConfigurationHoldsLettersThatAreScheduled(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	off := dlq.DefaultPolicy
	off.AutoRetry = false
	m.Queue = dlqdb.NewQueue(m.DB, off)
	l := m.PushAll(t, m.Due(func(l *dlq.Letter) { l.OriginalTopic = "a" }),
		m.Due(func(l *dlq.Letter) { l.OriginalTopic = "b" }))
	m.ChangePolicy(t, "b", func(p *dlq.Policy) { p.AutoRetry = true })
	if got := m.ClaimDue(t, 1)[0].ID; got != l[1].ID {
		t.Errorf("claimed %s", got)
	}
	if by := m.HeldBy(t, "a"); by != dlq.HeldByConfiguration {
		t.Errorf("held by %q", by)
	}
	m.ChangePolicy(t, "", func(p *dlq.Policy) { p.AutoRetry = false })
	if by := m.HeldBy(t, "a"); by != dlq.HeldByDefault {
		t.Errorf("held by %q", by)
	}
	m.Queue = dlqdb.NewQueue(m.DB, dlq.DefaultPolicy)
	if n := m.Free(t); n != 0 {
		t.Errorf("%d letters were let go", n)
	}
	m.ChangePolicy(t, "", func(p *dlq.Policy) { p.AutoRetry = true })
	if n := m.Free(t); n != 1 {
		t.Errorf("%d letters were let go", n)
	}
}

// Held letters leave the index of due letters, so they do not slow down claims.
func TestManyHeldLettersDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	var many []dlq.Letter
	for range 500 {
		many = append(many, m.Due(func(l *dlq.Letter) { l.OriginalTopic = "held" }))
	}
	for range 5 {
		m.PushAll(t, many...)
		for i := range many {
			many[i].ID = pgtest.NewID()
			many[i].RootID = many[i].ID
		}
	}
	m.PushAll(t, m.Due(func(l *dlq.Letter) { l.OriginalTopic = "free" }))
	m.ChangePolicy(t, "held", func(p *dlq.Policy) { p.AutoRetry = false })
	// One call parks as many letters as its time allows, and the next call continues.
	var claimed []dlq.Drive
	for range 100 {
		if claimed = m.ClaimDue(t, 1); len(claimed) > 0 {
			break
		}
	}
	if len(claimed) != 1 || claimed[0].OriginalTopic != "free" {
		t.Fatalf("claimed %+v", claimed)
	}
	if n := pgtest.Ask[int](t, m.DB.SQL(), `SELECT count(*) FROM dlq.dlq_messages WHERE held_retry_at IS NOT NULL AND next_retry_at IS NULL`); n != 2500 {
		t.Errorf("%d letters are put aside", n)
	}
}

// A node immediately sees what it stores: a policy that it read before is no longer cached, even
// for topics that the default serves.
func TestAPolicyIsSeenAtOnceWhereItWasChanged(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	m.LetterStore.Letters = m.Letters.Telling(m.Queue.Forget)
	for n := range 20 {
		for _, topic := range []string{"orders", ""} {
			for _, of := range []string{"orders", "others"} {
				if _, err := m.Queue.PolicyOf(t.Context(), m.Tenant, of); err != nil {
					t.Fatal(err)
				}
			}
			m.ChangePolicy(t, topic, func(p *dlq.Policy) { p.MaxRetries = 1 + n })
			of := map[string]string{"orders": "orders", "": "others"}[topic]
			p, err := m.Queue.PolicyOf(t.Context(), m.Tenant, of)
			if err != nil || p.MaxRetries != 1+n {
				t.Fatalf("change %d of %q: %s has %d retries, %v", n, topic, of, p.MaxRetries, err)
			}
		}
	}
}
