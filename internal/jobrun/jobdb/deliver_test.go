package jobdb_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

var _ jobrun.Events = (*jobdb.Events)(nil)

// listening is a fixture of job runs and their events.
type listening struct {
	pgtest.Jobs
	t      *testing.T
	events *jobdb.Events
	term   jobrun.Term
}

func newListening(t *testing.T) *listening {
	t.Helper()
	j := pgtest.NewJobs(t)
	l := &listening{Jobs: j, t: t, events: jobdb.NewEvents(j.Base, pgtest.Defaults)}
	if err := j.DB.SQL().QueryRowContext(t.Context(), `SELECT leader_id, epoch FROM jobs.leader`).Scan(&l.term.LeaderID, &l.term.Epoch); err != nil {
		t.Fatal(err)
	}
	return l
}

// listener creates a definition with an event trigger.
func (l *listening) listener(trigger jobrun.EventTrigger, change ...func(*jobrun.Spec)) jobrun.Definition {
	l.t.Helper()
	d := l.Define(l.t, func(d *jobrun.Definition) {
		d.Spec.Type, d.Spec.Event = jobrun.OnEvent, &trigger
		for _, c := range change {
			c(&d.Spec)
		}
	})
	pgtest.Execute(l.t, l.DB.SQL(), `UPDATE jobs.job_definitions SET event_type = $2 WHERE id = $1`, d.ID, trigger.EventType)
	return d
}

func (l *listening) publish(typ, payload string) uuid.UUID {
	l.t.Helper()
	e, _, err := l.events.Publish(l.t.Context(), l.Tenant, jobrun.NewEvent{ID: pgtest.NewID(), Type: typ,
		Payload: json.RawMessage(payload)})
	if err != nil {
		l.t.Fatal(err)
	}
	return e.ID
}

func (l *listening) deliver() {
	l.t.Helper()
	s, _ := pgtest.Defaults(l.t.Context())
	if _, err := l.events.Deliver(l.t.Context(), l.term, s, 100); err != nil {
		l.t.Fatal(err)
	}
}

func (l *listening) event(id uuid.UUID) jobrun.PublishedEvent {
	l.t.Helper()
	e, err := l.events.Event(l.t.Context(), l.Tenant, id)
	if err != nil {
		l.t.Fatal(err)
	}
	return e
}

func TestAnEventMakesARunOfEachDefinitionThatItIsFor(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	exact := l.listener(jobrun.EventTrigger{EventType: "order.paid"})
	prefix := l.listener(jobrun.EventTrigger{EventType: "order.*", Args: "payload",
		Match: map[string]json.RawMessage{"customer.vip": json.RawMessage("true")}})
	l.listener(jobrun.EventTrigger{EventType: "order.sent"})
	l.listener(jobrun.EventTrigger{EventType: "order.*",
		Match: map[string]json.RawMessage{"customer.vip": json.RawMessage("false")}})
	paused := l.listener(jobrun.EventTrigger{EventType: "order.paid"})
	pgtest.Execute(t, l.DB.SQL(), `UPDATE jobs.job_definitions SET paused_at = now() WHERE id = $1`, paused.ID)
	disabled := l.listener(jobrun.EventTrigger{EventType: "order.paid"})
	pgtest.Execute(t, l.DB.SQL(), `UPDATE jobs.job_definitions SET enabled = false WHERE id = $1`, disabled.ID)

	id := l.publish("order.paid", `{"customer":{"vip":true}}`)
	l.deliver()
	l.deliver() // nothing is left to deliver
	e := l.event(id)
	if e.ProcessedAt == nil || len(e.Deliveries) != 2 {
		t.Fatalf("the event is %+v", e)
	}
	for _, d := range e.Deliveries {
		r := l.GetRun(t, d.RunID)
		args := pgtest.Compact(t, r.Args)
		switch r.DefinitionID {
		case exact.ID:
			if !strings.Contains(args, `"event_type":"order.paid"`) || !strings.Contains(args, `"payload":{"customer":{"vip":true}}`) {
				t.Errorf("it gets %s", args)
			}
		case prefix.ID:
			if args != `{"customer":{"vip":true}}` {
				t.Errorf("it gets %s", args)
			}
		default:
			t.Errorf("%s gets a run", r.DefinitionName)
		}
		if r.Trigger != jobrun.ByEvent || r.EventID != id || r.IdempotencyKey != jobrun.EventKey(id, r.DefinitionID) ||
			r.AdmittedAt == nil {
			t.Errorf("the run is %+v", r)
		}
	}
	if n := l.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE event_id = $1`, id); n != 2 {
		t.Errorf("there are %d runs", n)
	}
}

func TestAnEventThatCannotBeDeliveredIsRetriedAndBecomesALetter(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	good := l.listener(jobrun.EventTrigger{EventType: "n"})
	bad := l.listener(jobrun.EventTrigger{EventType: "n", Args: "payload"}, func(s *jobrun.Spec) {
		s.ArgsSchema = json.RawMessage(`{"type":"object","required":["n"]}`)
	})
	id := l.publish("n", `{"m":1}`)
	for try := 1; try <= jobrun.DeliveryRetry.MaxAttempts; try++ {
		l.deliver()
		e := l.event(id)
		for _, d := range e.Deliveries {
			if d.DefinitionID == good.ID && (d.RunID == uuid.Nil || d.Attempts != 1) {
				t.Errorf("try %d: the good one is %+v", try, d)
			}
			if d.DefinitionID == bad.ID && (d.RunID != uuid.Nil || d.Attempts != try || d.Error == "" ||
				(d.NextTryAt == nil) != (try == jobrun.DeliveryRetry.MaxAttempts)) {
				t.Errorf("try %d: the bad one is %+v", try, d)
			}
		}
		if (e.ProcessedAt != nil) != (try == jobrun.DeliveryRetry.MaxAttempts) {
			t.Errorf("try %d: processed at %v", try, e.ProcessedAt)
		}
		due := func(in string) {
			pgtest.Execute(t, l.DB.SQL(), `UPDATE jobs.event_deliveries SET next_try_at = now() + $2::interval WHERE event_id = $1 AND next_try_at IS NOT NULL`, id, in)
		}
		due("1 hour") // however long this machine takes
		l.deliver()   // nothing happens before the next attempt is due
		due("-1 second")
	}
	found, err := dlqdb.NewLetters(l.DB, dlq.DefaultPolicy).List(t.Context(), l.Tenant,
		dlq.Query{ByTime: page.ByTime{Limit: 10}})
	if err != nil || len(found.Items) != 1 {
		t.Fatal(found, err)
	}
	if n := found.Items[0]; n.Source != dlq.FromJob ||
		n.Target != (dlq.Target{Kind: dlq.ToJobRun, Job: bad.ID.String()}) ||
		pgtest.Compact(t, n.Content.Payload) != `{"m":1}` {
		t.Errorf("the letter is %+v", n)
	}
}

func TestAFormerLeaderDeliversNothing(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	l.listener(jobrun.EventTrigger{EventType: "n"})
	id := l.publish("n", `{}`)
	s, _ := pgtest.Defaults(t.Context())
	old := l.term
	old.Epoch--
	if _, err := l.events.Deliver(t.Context(), old, s, 100); !fault.IsCode(err, jobrun.CodeNoLeader) {
		t.Errorf("error %v", err)
	}
	if e := l.event(id); e.ProcessedAt != nil || e.Deliveries != nil {
		t.Errorf("the event is %+v", e)
	}
	// An event that another transaction is delivering is skipped instead of waited for.
	tx, err := l.DB.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM jobs.events WHERE id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
	l.deliver() // the call returns although that transaction is open
	if e := l.event(id); e.ProcessedAt != nil {
		t.Errorf("the event is %+v", e)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	l.deliver()
	if e := l.event(id); e.ProcessedAt == nil || len(e.Deliveries) != 1 {
		t.Errorf("the event is %+v", e)
	}
}
