package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

var kafkaOnly = []dlq.TargetKind{dlq.ToKafka}

// chance is what the loops give to stores.
var chance = dlq.Chance{Jitter: func() float64 { return 0.5 }, NewID: func() uuid.UUID { return uuid.Must(uuid.NewV7()) }}

// letterQueue is a letterStore with the queue that the loops see. Its database is the
// test's own: the loops act for all tenants.
type letterQueue struct {
	letterStore
	queue *postgres.LetterQueue
}

func newLetterQueue(t *testing.T) letterQueue {
	t.Helper()
	b := newLetterStore(t)
	return letterQueue{b, postgres.NewLetterQueue(b.db, dlq.DefaultPolicy)}
}

func endOf(d dlq.Drive, outcome dlq.AttemptOutcome) dlq.Finish {
	r := dlq.Result{Outcome: outcome, StartedAt: now(), EndedAt: now()}
	if outcome != dlq.Acknowledged {
		r.Error = "no luck"
	}
	return d.Finished(r, &dlq.DefaultPolicy, dlq.Moment{Now: now(), Jitter: 0.5})
}

// handOver notes that letters are about to be sent.
func (m *letterQueue) handOver(t *testing.T, drives ...dlq.Drive) uuid.UUID {
	t.Helper()
	h := dlq.Handover{ID: newID()}
	for _, d := range drives {
		h.Tenants, h.Tokens = append(h.Tenants, d.TenantID), append(h.Tokens, d.Token)
	}
	if ok, err := m.queue.HandOver(t.Context(), h); err != nil || !ok {
		t.Fatalf("handed over %v, %v", ok, err)
	}
	return h.ID
}

// policy changes the policy of a topic, "": the default.
func (m *letterQueue) policy(t *testing.T, topic string, change func(*dlq.Policy)) {
	t.Helper()
	p, err := m.Policy(t.Context(), m.tenant, topic)
	if err != nil {
		t.Fatal(err)
	}
	change(&p)
	p.TenantID, p.Topic, p.UpdatedAt = m.tenant, topic, now()
	p.Version++
	by := operator.By{}.Did(newID(), m.tenant, now(), operator.TopicPolicy, topic, "update", nil)
	if err := m.PutPolicy(t.Context(), p, by); err != nil {
		t.Fatal(err)
	}
}

// free lets go what nothing holds, and makes it due.
func (m letterQueue) free(t *testing.T) (n int) {
	t.Helper()
	n, err := m.queue.Release(t.Context(), 100, chance)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, m.db.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE next_retry_at IS NOT NULL`)
	return n
}

func (m letterQueue) heldBy(t *testing.T, topic string) dlq.Hold {
	t.Helper()
	time.Sleep(1100 * time.Millisecond) // what is known of a policy may be a second old
	p, err := m.queue.PolicyOf(t.Context(), m.tenant, topic)
	if err != nil {
		t.Fatal(err)
	}
	return p.Held
}

// arrived is a letter of a life of a topic, which has ended already.
func (m letterQueue) arrived(life uuid.UUID, offset int64, payload string) dlq.Arrival {
	return dlq.Arrival{Letter: m.letter(func(l *dlq.Letter) {
		l.Source, l.MaxRetries, l.Content = dlq.FromKafka, 0, dlq.Content{Payload: []byte(payload)}
		l.Arrived = &dlq.Position{Topic: "orders.dlq", Offset: offset, TopicID: life}
	})}
}

// due is a letter whose retry is due.
func (m letterQueue) due(change ...func(*dlq.Letter)) dlq.Letter {
	l := m.letter(change...)
	l.NextRetryAt = new(now().Add(-time.Minute))
	return l
}

func (m letterQueue) claim(t *testing.T, limit int) []dlq.Drive {
	t.Helper()
	drives, err := m.queue.Due(t.Context(), kafkaOnly, time.Minute, limit)
	if err != nil {
		t.Fatal(err)
	}
	return drives
}

// end finishes a drive by the rules.
func (m letterQueue) end(t *testing.T, d dlq.Drive, outcome dlq.AttemptOutcome) bool {
	t.Helper()
	held, err := m.queue.Finish(t.Context(), []dlq.Finish{endOf(d, outcome)})
	if err != nil {
		t.Fatal(err)
	}
	return held[0]
}

// attempts are the outcomes of a letter's retries, in order.
func (m letterQueue) attempts(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return ask[string](t, m.db.SQL(), `SELECT coalesce(string_agg(outcome, ' ' ORDER BY number), '') FROM dlq.dlq_attempts WHERE message_id = $1`, id)
}

func (m letterQueue) expire(t *testing.T) {
	t.Helper()
	execute(t, m.db.SQL(), `UPDATE dlq.dlq_messages SET retry_lease_until = now() - interval '1 second' WHERE status = 'RETRYING'`)
}
