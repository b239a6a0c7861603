package pgtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// LetterStore is a dead letter store and a tenant without letters.
type LetterStore struct {
	*dlqdb.Letters
	DB     *postgres.DB
	Dsn    string // with all privileges
	Tenant uuid.UUID
}

// NewLetterStore opens a store as in production: with a login that has no privileges of its own.
func NewLetterStore(t *testing.T) LetterStore {
	t.Helper()
	dsn := testdb.DSN(t)
	db := Connect(t, PlainLogin(t, dsn))
	return LetterStore{dlqdb.NewLetters(db, dlq.DefaultPolicy), db, dsn, NewID()}
}

func (b LetterStore) AuditActions(t *testing.T, f operator.Filter) []operator.Action {
	t.Helper()
	f.Limit = 200
	p, err := auditdb.NewActions(b.DB).Actions(t.Context(), b.Tenant, f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Items {
		p.Items[i].SubjectName = "" // the name is looked up, not recorded
	}
	return p.Items
}

// Driven edits the content of a letter and claims it for a retry. It returns the drive, which has
// not finished yet.
func (b LetterStore) Driven(t *testing.T, l dlq.Letter) dlq.Drive {
	t.Helper()
	queue := dlqdb.NewQueue(b.DB, dlq.DefaultPolicy)
	d, err := queue.Take(t.Context(), dlq.Claim{
		TenantID: b.Tenant, LetterID: l.ID, Routes: dlq.Routes{Kinds: dlq.TargetKinds}, Actor: "ada",
		By: b.Action(l, dlq.VerbRetry), Force: true,
		Revision: &dlq.Revision{LetterID: l.ID, Content: dlq.Content{Payload: []byte("edited")}, Author: "ada",
			Reason: "better", CreatedAt: Now(), Patch: []byte(`[{"op":"test"}]`)},
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ArchiveAll archives every letter that has ended.
func (b LetterStore) ArchiveAll(t *testing.T) {
	t.Helper()
	Execute(t, b.DB.SQL(), `SELECT dlq.archive_batch(0, 0, 1000)`)
}

// VariedLetters returns n letters, all different, in order of arrival.
func (b LetterStore) VariedLetters(t *testing.T, n int) []dlq.Letter {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	begin := Now().Add(-24 * time.Hour)
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var out []dlq.Letter
	for i := range n {
		l := b.NewLetter(func(l *dlq.Letter) {
			l.OriginalTopic = pick("orders.made", "orders.paid", "order", "orders", "stock")
			l.Source = dlq.Sources[r.IntN(len(dlq.Sources))]
			l.Failure.Message, l.Failure.Type = pick("connection refused: Ärger", "timeout", "was refused"),
				pick("E1", "E2", "E3", "")
			l.Failure.Class = dlq.Classes[r.IntN(len(dlq.Classes))]
			l.ConsumerGroup, l.Assignee, l.CorrelationID, l.TraceID = pick("", "g1", "g2"), pick("", "", "ada", "bo"),
				pick("", "c1", "c2"), pick("", "t1", "t2")
			l.Content.Key = [][]byte{nil, {}, {1}, {2}}[r.IntN(4)]
			l.Content.Headers = []dlq.Header{{Name: "h", Value: []byte(pick("1", "2", ""))},
				{Name: pick("i", "j"), Value: []byte(pick("1", "2"))}, {Name: "i"}}
			l.Content.Payload = fmt.Appendf(nil, `{"customer":{"id":%d,"name":"%[1]d"},"lines":["a","b %d"]}`, r.IntN(3), r.IntN(3))
			if r.IntN(4) == 0 {
				l.Content.Payload = []byte{0xff}
			}
			l.Labels = [][]string{nil, {"red"}, {"blue"}, {"red", "blue"}}[r.IntN(4)]
			if r.IntN(5) == 0 {
				l.Link.SagaID, l.Link.JobRunID, l.RedriveID = SomeSaga, SomeSaga, SomeSaga
			}
			if i > 5 && r.IntN(3) == 0 {
				l.Generation, l.RootID = 1+r.IntN(3), out[r.IntN(3)].ID
			}
			l.RetryCount, l.MaxRetries = r.IntN(12), 20
		})
		l.CreatedAt = begin.Add(time.Duration(i/2) * 5 * time.Minute)
		if l.RetryCount > 0 {
			l.LastRetryAt = new(l.CreatedAt.Add(time.Duration(r.IntN(100)) * time.Minute))
		}
		switch end := l.CreatedAt.Add(time.Hour); r.IntN(6) {
		case 0:
			l.Status, l.Resolution, l.TerminalAt, l.NextRetryAt = dlq.Dead, dlq.Exhausted, &end, nil
		case 1:
			l.Status, l.Resolution, l.TerminalAt, l.NextRetryAt = dlq.Resolved, dlq.Manual, &end, nil
		case 2:
			l.Status, l.Resolution, l.TerminalAt, l.NextRetryAt = dlq.Resolved, dlq.Redriven, &end, nil
		}
		out = append(out, l)
	}
	return b.PushAll(t, out...)
}

func (b LetterStore) Did(kind operator.Kind, subject, verb string) operator.Action {
	return operator.By{Actor: "key:ann", Reason: "because", RequestID: "req-1"}.Did(NewID(), b.Tenant, Now(), kind,
		subject, verb, json.RawMessage(`{"a":1}`))
}

// Actions fails the test unless the actions that a filter selects are exactly these.
func (b LetterStore) Actions(t *testing.T, f operator.Filter, want ...operator.Action) {
	t.Helper()
	found, err := auditdb.NewActions(b.DB).Actions(t.Context(), b.Tenant, f)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, found.Items, cmpopts.IgnoreFields(operator.Action{}, "SubjectName")); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// FillLetterTables stores at least one row of the tenant in each table of the queue and in the
// table of operator actions.
func (b LetterStore) FillLetterTables(t *testing.T, super func(string, ...any)) {
	t.Helper()
	l := b.PushAll(t, b.NewLetter(func(l *dlq.Letter) { l.MaxRetries = 0 }), b.NewLetter())
	super(`SELECT dlq.archive_batch(0, 0, 10)`)
	d := b.Driven(t, l[1])
	f := Finished(&d, dlq.Result{Outcome: dlq.FailedDrive, Error: "no", StartedAt: Now(), EndedAt: Now()})
	if _, err := dlqdb.NewQueue(b.DB, dlq.DefaultPolicy).Finish(t.Context(), []dlq.Finish{f}); err != nil {
		t.Fatal(err)
	}
	p := dlq.DefaultPolicy
	p.TenantID, p.Version, p.UpdatedAt = b.Tenant, 1, Now()
	if err := b.PutPolicy(t.Context(), p, b.Action(l[1], "put")); err != nil {
		t.Fatal(err)
	}
	redrive := dlq.Redrive{
		ID: NewID(), TenantID: b.Tenant, Version: 1, Action: dlq.BulkRetry, State: dlq.RedrivePending,
		IDs: []uuid.UUID{l[1].ID}, Rate: 1, Concurrency: 1,
		Order: dlq.Oldest, CreatedAt: Now(), UpdatedAt: Now(),
	}
	if _, err := redrivedb.NewRedrives(b.DB, dlqdb.NewQueue(b.DB, dlq.DefaultPolicy)).Create(t.Context(), redrive,
		b.Action(l[1], "create")); err != nil {
		t.Fatal(err)
	}
	super(`INSERT INTO dlq.dlq_redrive_items (redrive_id, tenant_id, seq, message_id, updated_at) VALUES ($1, $2, 1, $3, now())`, redrive.ID, b.Tenant, l[1].ID)
	super(`INSERT INTO dlq.dlq_handovers (id, tenant_id, tokens) VALUES ($1, $2, '{}')`, redrive.ID, b.Tenant)
}

// NewLetter returns a new letter of the tenant, completed by the rules.
func (b LetterStore) NewLetter(change ...func(*dlq.Letter)) dlq.Letter {
	l := dlq.Letter{
		TenantID: b.Tenant, Source: dlq.FromREST, OriginalTopic: "orders", MaxRetries: -1,
		Failure: dlq.Failure{Message: "connection refused", Type: "IOException", Class: dlq.Transient},
	}
	for _, c := range change {
		c(&l)
	}
	return dlq.New(l, NewID(), &dlq.DefaultPolicy, dlq.Moment{Now: Now(), Jitter: 0.5})
}

// PushAll stores letters and returns them as stored.
func (b LetterStore) PushAll(t *testing.T, letters ...dlq.Letter) []dlq.Letter {
	t.Helper()
	pushed, err := b.Push(t.Context(), letters)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]dlq.Letter, len(pushed))
	for i, p := range pushed {
		if p.Err != nil || p.Duplicate {
			t.Fatalf("letter %d: duplicate %v, %v", i, p.Duplicate, p.Err)
		}
		out[i] = p.Letter
	}
	return out
}

func (b LetterStore) Read(t *testing.T, id uuid.UUID) dlq.Letter {
	t.Helper()
	l, err := b.Get(t.Context(), b.Tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Action returns an operator action on a letter.
func (b LetterStore) Action(l dlq.Letter, verb string) operator.Action {
	by := operator.By{Actor: "ada", Reason: "because", RequestID: "r-1"}
	return by.Did(NewID(), b.Tenant, Now(), operator.DeadLetter, l.ID.String(), verb, nil)
}

// Everything sets every field of a letter except those that only letters from other sources have.
func (b LetterStore) Everything(l *dlq.Letter) {
	l.Source, l.ConsumerGroup, l.CorrelationID, l.TraceID, l.DedupeKey = dlq.FromKafka, "billing", "c-1", "t-1", "d-"+
		NewID().String()
	l.Origin = dlq.Origin{Partition: new(int32(3)), Offset: new(int64(0)), Timestamp: new(Now().Add(-time.Hour))}
	l.Arrived = &dlq.Position{Topic: "orders.dlq", Partition: 1, Offset: time.Now().UnixNano()}
	l.Failure.Stack = "at Orders.take(Orders.java:17)\nat Main.main(Main.java:3)"
	l.Content = dlq.Content{
		Key: []byte{0, 255},
		Headers: []dlq.Header{{Name: "a", Value: []byte("1")}, {Name: "", Value: []byte{}}, {Name: "a", Value: []byte{0, 1}},
			{Name: "none"}},
		Payload: []byte(`{"b":1.00,"a":1}`),
	}
	l.Link = dlq.Link{SagaID: NewID(), StepIndex: 0, StepName: "charge", Action: "COMPENSATE", JobRunID: NewID(),
		WebhookID: NewID(), DeliveryID: NewID()}
	l.Labels, l.Assignee, l.Note = []string{"b", "a,{}\"", "ж"}, "ada", "look at it"
	l.Target = dlq.Target{Kind: dlq.ToHTTP, URL: "https://x.test/", Method: "PUT"}
	l.ParentID, l.RootID, l.Generation, l.Ordered = NewID(), NewID(), 2, true
	l.RedriveID, l.Revision, l.LastRetryAt, l.RetryCount, l.MaxRetries = NewID(), 1, new(Now()), 1, 5
}

func Moment() dlq.Moment { return dlq.Moment{Now: Now(), Jitter: 0.5} }

var SomeSaga = uuid.MustParse("5a6a0000-0000-4000-8000-000000000000")
