package pgtest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
)

var KafkaOnly = []dlq.TargetKind{dlq.ToKafka}

// Chance is the source of randomness that the loops pass to stores.
var Chance = dlq.Chance{Jitter: func() float64 { return 0.5 },
	NewID: func() uuid.UUID { return uuid.Must(uuid.NewV7()) }}

// LetterQueue is a LetterStore with the queue that the loops use. It has a database of its own,
// because the loops act for all tenants.
type LetterQueue struct {
	LetterStore
	Queue *dlqdb.Queue
}

func NewLetterQueue(t *testing.T) LetterQueue {
	t.Helper()
	b := NewLetterStore(t)
	return LetterQueue{b, dlqdb.NewQueue(b.DB, dlq.DefaultPolicy)}
}

func EndOf(d dlq.Drive, outcome dlq.AttemptOutcome) dlq.Finish {
	r := dlq.Result{Outcome: outcome, StartedAt: Now(), EndedAt: Now()}
	if outcome != dlq.Acknowledged {
		r.Error = "no luck"
	}
	return Finished(&d, r)
}

// AppliedToLetter returns a letter after an event.
func AppliedToLetter(t *testing.T, l dlq.Letter, e dlq.Event) dlq.Letter {
	t.Helper()
	c, err := dlq.Apply(l, e, Moment())
	if err != nil {
		t.Fatal(err)
	}
	return c.After
}

// Finished returns how a drive ends with a result under the default policy.
func Finished(d *dlq.Drive, r dlq.Result) dlq.Finish {
	f, err := d.Finished(r, &dlq.DefaultPolicy, dlq.Moment{Now: Now(), Jitter: 0.5})
	if err != nil {
		panic(err)
	}
	return f
}

// HandOver records that letters are about to be sent.
func (m *LetterQueue) HandOver(t *testing.T, drives ...dlq.Drive) uuid.UUID {
	t.Helper()
	h := dlq.Handover{ID: NewID()}
	for _, d := range drives {
		h.Tenants, h.Tokens = append(h.Tenants, d.TenantID), append(h.Tokens, d.Token)
	}
	if ok, err := m.Queue.HandOver(t.Context(), h); err != nil || !ok {
		t.Fatalf("handed over %v, %v", ok, err)
	}
	return h.ID
}

// ChangePolicy changes the policy of a topic; "" means the default policy.
func (m *LetterQueue) ChangePolicy(t *testing.T, topic string, change func(*dlq.Policy)) {
	t.Helper()
	p, err := m.Policy(t.Context(), m.Tenant, topic)
	if err != nil {
		t.Fatal(err)
	}
	change(&p)
	p.TenantID, p.Topic, p.UpdatedAt = m.Tenant, topic, Now()
	p.Version++
	by := operator.By{}.Did(NewID(), m.Tenant, Now(), operator.TopicPolicy, topic, "update", nil)
	if err := m.PutPolicy(t.Context(), p, by); err != nil {
		t.Fatal(err)
	}
}

// Free releases letters that are no longer held and makes them due.
func (m LetterQueue) Free(t *testing.T) (n int) {
	t.Helper()
	n, err := m.Queue.Release(t.Context(), 100, Chance)
	if err != nil {
		t.Fatal(err)
	}
	Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE next_retry_at IS NOT NULL`)
	return n
}

func (m LetterQueue) HeldBy(t *testing.T, topic string) dlq.Hold {
	t.Helper()
	time.Sleep(1100 * time.Millisecond) // a cached policy may be up to a second old
	p, err := m.Queue.PolicyOf(t.Context(), m.Tenant, topic)
	if err != nil {
		t.Fatal(err)
	}
	return p.Held
}

// Arrived returns the arrival of a letter from an incarnation of a topic that has already ended.
func (m LetterQueue) Arrived(life uuid.UUID, offset int64, payload string) dlq.Arrival {
	return dlq.Arrival{Letter: m.NewLetter(func(l *dlq.Letter) {
		l.Source, l.MaxRetries, l.Content = dlq.FromKafka, 0, dlq.Content{Payload: []byte(payload)}
		l.Arrived = &dlq.Position{Topic: "orders.dlq", Offset: offset, TopicID: life}
	})}
}

// Due returns a letter whose retry is due.
func (m LetterQueue) Due(change ...func(*dlq.Letter)) dlq.Letter {
	l := m.NewLetter(change...)
	l.NextRetryAt = new(Now().Add(-time.Minute))
	return l
}

func (m LetterQueue) ClaimDue(t *testing.T, limit int) []dlq.Drive {
	t.Helper()
	drives, err := m.Queue.Due(t.Context(), KafkaOnly, time.Minute, limit)
	if err != nil {
		t.Fatal(err)
	}
	return drives
}

// End finishes a drive according to the rules.
func (m LetterQueue) End(t *testing.T, d dlq.Drive, outcome dlq.AttemptOutcome) bool {
	t.Helper()
	held, err := m.Queue.Finish(t.Context(), []dlq.Finish{EndOf(d, outcome)})
	if err != nil {
		t.Fatal(err)
	}
	return held[0]
}

// Outcomes returns the outcomes of a letter's retries, in order.
func (m LetterQueue) Outcomes(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return Ask[string](t, m.DB.SQL(), `SELECT coalesce(string_agg(outcome, ' ' ORDER BY number), '') FROM dlq.dlq_attempts WHERE message_id = $1`, id)
}

func (m LetterQueue) Expire(t *testing.T) {
	t.Helper()
	Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET retry_lease_until = now() - interval '1 second' WHERE status = 'RETRYING'`)
}
