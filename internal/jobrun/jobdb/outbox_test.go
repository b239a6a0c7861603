package jobdb_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

var (
	_ jobrun.RecordEvents = (*jobdb.Events)(nil)
	_ jobrun.Outbox       = (*jobdb.Events)(nil)
)

// unsent returns the types of the events in the outbox, in their order.
func (l *listening) unsent() (types []string, all []jobrun.Outgoing) {
	l.t.Helper()
	all, err := l.events.Unsent(l.t.Context(), 100)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range all {
		types = append(types, all[i].Event.Type)
	}
	return types, all
}

func TestEventsForATopicAreInTheOutboxWithTheOutcomeOfTheirRun(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	d := l.Define(t, func(d *jobrun.Definition) {
		d.Spec.Emit = []jobrun.EmitTopic{{EventType: "order.*", Topic: "orders"}}
	})
	r := l.Running(t, l.NewWorker(t), d, func(a *jobrun.Request) { a.CorrelationID = "c-1" })
	res := pgtest.Success(r)
	emits := func(eventType, dedupe, correlation string) jobrun.Emitted {
		return jobrun.Emitted{Event: &jobrun.NewEvent{Type: eventType, Payload: json.RawMessage(`{"a":1}`), DedupeKey: dedupe,
			CorrelationID: correlation}}
	}
	res.Emit = []jobrun.Emitted{emits("order.paid", "k", ""), {Run: &jobrun.NextRun{Definition: "nobody"}}}
	if done := l.FinishRuns(t, res)[0]; fault.As(done.Err) == nil {
		t.Fatalf("a result that cannot be stored: %+v", done)
	}
	if types, _ := l.unsent(); len(types) > 0 {
		t.Fatalf("%v of a result that was refused", types)
	}
	res.Emit = []jobrun.Emitted{
		emits("order.paid", "k", ""), emits("other", "", ""), emits("order.sent", "", "c-2"), emits("order.paid", "k", ""),
	}
	for range 2 { // the second call is a replay
		if done := l.FinishRuns(t, res)[0]; done.Err != nil {
			t.Fatal(done.Err)
		}
	}
	types, all := l.unsent()
	if len(types) != 2 || types[0] != "order.paid" || types[1] != "order.sent" ||
		all[0].Key != "c-1" || all[1].Key != "c-2" ||
		all[0].Topic != "orders" || all[0].Event.SourceRunID != r.ID || string(all[0].Event.Payload) != `{"a":1}` {
		t.Fatalf("the outbox has %+v", all)
	}
	if p := l.event(all[0].Event.ID).Publication; p == nil || p.Topic != "orders" || p.EndedAt != nil {
		t.Errorf("before it is sent: %+v", p)
	}
	l.ends(all)
}

// ends gives up the first event and sends the second one, as nodes with and without the lease.
func (l *listening) ends(all []jobrun.Outgoing) {
	t := l.t
	t.Helper()
	pgtest.Execute(t, l.DB.SQL(), `INSERT INTO saga.publications (name, owner, epoch, lease_until) VALUES ('p', 'a', 7, now())`)
	refused := jobrun.Unpublished(&all[0], dlq.Content{Payload: []byte("{}")}, "there is no such topic", pgtest.NewID(),
		dlq.Moment{Now: pgtest.Now()})
	sent := func(epoch int64) bool {
		t.Helper()
		ours, err := l.events.Sent(t.Context(), "p", epoch, []uuid.UUID{all[1].Event.ID}, []jobrun.RefusedEvent{refused})
		if err != nil {
			t.Fatal(err)
		}
		return ours
	}
	if sent(6) {
		t.Error("a former leader records what it has sent")
	}
	if types, _ := l.unsent(); len(types) != 2 {
		t.Fatalf("after that the outbox has %v", types)
	}
	for range 2 { // the answer to the first call may have been lost
		if !sent(7) {
			t.Error("the leader does not record what it has sent")
		}
	}
	if types, _ := l.unsent(); len(types) != 0 {
		t.Errorf("the outbox still has %v", types)
	}
	p, q := l.event(all[0].Event.ID).Publication, l.event(all[1].Event.ID).Publication
	if p.Error != "there is no such topic" || p.LetterID != refused.Letter.ID ||
		q.EndedAt == nil || q.LetterID != uuid.Nil {
		t.Errorf("they became %+v and %+v", p, q)
	}
	if n := l.Count(t, `SELECT count(*) FROM dlq.dlq_messages WHERE id = $1 AND target->>'kind' = 'kafka' AND source = 'JOB'`,
		refused.Letter.ID); n != 1 {
		t.Errorf("%d letters", n)
	}
}

// An event that was purged before its publication would never be published.
func TestEventsInTheOutboxAreNotPurged(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	d := l.Define(t, func(d *jobrun.Definition) { d.Spec.Emit = []jobrun.EmitTopic{{EventType: "*", Topic: "orders"}} })
	res := pgtest.Success(l.Running(t, l.NewWorker(t), d))
	res.Emit = []jobrun.Emitted{{Event: &jobrun.NewEvent{Type: "a"}}, {Event: &jobrun.NewEvent{Type: "b"}}}
	if done := l.FinishRuns(t, res)[0]; done.Err != nil {
		t.Fatal(done.Err)
	}
	pgtest.Execute(t, l.DB.SQL(), `UPDATE jobs.events SET processed_at = now() - interval '10 years'`)
	pgtest.Execute(t, l.DB.SQL(), `UPDATE jobs.event_publications SET ended_at = $1
		WHERE event_id = (SELECT id FROM jobs.events WHERE event_type = 'b')`, time.Now())
	if _, err := l.Retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if types, _ := l.unsent(); len(types) != 1 || types[0] != "a" {
		t.Errorf("the outbox has %v", types)
	}
	if n := l.Count(t, `SELECT count(*) FROM jobs.events`) + l.Count(t, `SELECT count(*) FROM jobs.event_publications`); n != 2 {
		t.Errorf("%d rows are left, want those of one event", n)
	}
}
