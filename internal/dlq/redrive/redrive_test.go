package redrive_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/redrive"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// policy retries at once.
var policy = func() dlq.Policy {
	p := dlq.DefaultPolicy
	p.Backoff = retry.Policy{InitialIntervalMS: 1, MaxIntervalMS: 1, Multiplier: 1}
	return p
}()

// post is a store of letters on PostgreSQL, and the target that they are sent to.
type post struct {
	t        *testing.T
	dsn      string // with all rights
	db       *postgres.DB
	letters  *dlqdb.Letters
	queue    dlq.Queue
	redrives dlq.Redrives
	tenant   uuid.UUID
	target   *target
}

func newPost(t *testing.T) *post {
	t.Helper()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	queue := dlqdb.NewQueue(db, policy)
	return &post{t, dsn, db, dlqdb.NewLetters(db, policy), queue, redrivedb.NewRedrives(db, queue), id(), newTarget(t)}
}

func id() uuid.UUID      { return uuid.Must(uuid.NewV7()) }
func moment() dlq.Moment { return dlq.Moment{Now: time.Now().UTC().Truncate(time.Microsecond)} }

// target is a server whose responses are set by a test. It counts requests.
type target struct {
	url    string
	mu     sync.Mutex
	status func(lineage string, attempt int) int // guarded by mu; nil: 200
	got    map[string]int                        // requests by lineage; guarded by mu
	bodies []string                              // guarded by mu
	news   chan struct{}
}

func newTarget(t *testing.T) *target {
	x := &target{got: map[string]int{}, news: make(chan struct{}, 10_000)}
	x.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lineage := r.Header.Get(targets.HeaderMessageID)
		x.mu.Lock()
		x.got[lineage]++
		x.bodies = append(x.bodies, string(body))
		code := 200
		if x.status != nil {
			code = x.status(lineage, x.got[lineage])
		}
		x.mu.Unlock()
		w.WriteHeader(code)
		x.news <- struct{}{}
	})
	return x
}

func (x *target) answers(f func(lineage string, attempt int) int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = f
}

func (x *target) requests() (total int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.got {
		total += n
	}
	return total
}

// push stores n letters for the target; due ones are retried automatically.
func (p *post) push(n int, due bool, change ...func(*dlq.Letter)) []uuid.UUID {
	p.t.Helper()
	batch := make([]dlq.Letter, n)
	ids := make([]uuid.UUID, n)
	for i := range batch {
		l := dlq.Letter{
			TenantID: p.tenant, Source: dlq.FromREST, OriginalTopic: "orders", MaxRetries: -1,
			Failure: dlq.Failure{Message: "no"},
			Content: dlq.Content{Payload: []byte(`{"n":1}`)}, Target: dlq.Target{Kind: dlq.ToHTTP, URL: p.target.url},
		}
		for _, c := range change {
			c(&l)
		}
		batch[i] = dlq.New(l, id(), &policy, moment())
		if !due {
			batch[i].NextRetryAt = nil
		}
		ids[i] = batch[i].ID
	}
	pushed, err := p.letters.Push(p.t.Context(), batch)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, x := range pushed {
		if x.Err != nil {
			p.t.Fatal(x.Err)
		}
	}
	return ids
}

func (p *post) get(letter uuid.UUID) dlq.Letter {
	p.t.Helper()
	l, err := p.letters.Get(p.t.Context(), p.tenant, letter)
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// config returns the configuration of a node with short intervals.
func (p *post) config(t *testing.T) redrive.Config {
	t.Helper()
	return redrive.Config{
		Queue: p.queue, Redrives: p.redrives, Now: func() time.Time { return moment().Now },
		Log:     slog.New(slog.DiscardHandler),
		Drivers: map[dlq.TargetKind]redrive.Driver{dlq.ToHTTP: httpDriver(t, 5*time.Second, 4)},
		Poll:    10 * time.Millisecond, Lease: 4 * time.Second, Batch: 20, AtOnce: map[dlq.TargetKind]int{dlq.ToHTTP: 10},
	}
}

// run starts a node and returns a function that stops it and waits for it.
func run(t *testing.T, cfg redrive.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		redrive.New(cfg).Run(ctx)
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-ended }) }
	t.Cleanup(stop)
	return stop
}

// await polls the database until ok.
func (p *post) await(what string, ok func() bool) {
	p.t.Helper()
	patience.Until(p.t, what, ok)
}

// statuses counts letters.
func (p *post) statuses() map[dlq.Status]int64 {
	p.t.Helper()
	stats, err := p.letters.Stats(p.t.Context(), p.tenant)
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[dlq.Status]int64{}
	for _, s := range stats {
		for status, n := range s.Counts {
			out[status] += n
		}
	}
	return out
}

func TestDueLettersAreDrivenAutomatically(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.target.answers(func(_ string, attempt int) int { // the second attempt succeeds
		if attempt == 1 {
			return 500
		}
		return 200
	})
	ids := p.push(30, true)
	byHand := p.push(1, false)[0]
	run(t, p.config(t))
	run(t, p.config(t)) // two nodes
	p.await("all letters to be resolved", func() bool { return p.statuses()[dlq.Resolved] == 30 })
	for _, letter := range ids {
		l := p.get(letter)
		attempts, err := p.letters.Attempts(t.Context(), p.tenant, letter)
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []dlq.AttemptOutcome
		for _, a := range attempts {
			outcomes = append(outcomes, a.Outcome)
		}
		if diff := cmp.Diff([]dlq.AttemptOutcome{dlq.Uncertain, dlq.Acknowledged}, outcomes); diff != "" {
			t.Errorf("its attempts (-want +got):\n%s", diff)
		}
		if l.Resolution != dlq.Redriven || l.RetryCount != 1 {
			t.Errorf("%s %s after %d", l.Status, l.Resolution, l.RetryCount)
		}
	}
	if n := p.target.requests(); n != 60 {
		t.Errorf("%d requests, want 60", n)
	}
	if l := p.get(byHand); l.Status != dlq.Pending || l.LastRetryAt != nil {
		t.Errorf("one that waits for a person is %+v", l)
	}
}

func TestALetterThatItsTargetKeepsRefusingDies(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.target.answers(func(string, int) int { return 422 })
	letter := p.push(1, true)[0]
	run(t, p.config(t))
	p.await("the letter to die", func() bool { return p.get(letter).Status == dlq.Dead })
	if l := p.get(letter); l.Resolution != dlq.Exhausted || l.RetryCount != 3 || p.target.requests() != 3 {
		t.Errorf("%s after %d retries and %d requests", l.Resolution, l.RetryCount, p.target.requests())
	}
}

func (p *post) claim(letter uuid.UUID) dlq.Claim {
	by := operator.By{Actor: "ada"}
	return dlq.Claim{TenantID: p.tenant, LetterID: letter, Actor: "ada",
		By: by.Did(id(), p.tenant, moment().Now, operator.DeadLetter, letter.String(), dlq.VerbRetry, nil)}
}

func TestOneLetterNow(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	cfg := p.config(t)
	cfg.Forbidden = func(topic string) bool { return topic == "orders.dlq" }
	r := redrive.New(cfg)
	ids := p.push(3, false)
	end, err := r.Now(t.Context(), p.claim(ids[0]))
	if err != nil || end.Status != dlq.Resolved || end.Attempt.Outcome != dlq.Acknowledged ||
		p.get(ids[0]).Status != dlq.Resolved {
		t.Errorf("%+v, %v", end, err)
	}
	if _, err := r.Now(t.Context(), p.claim(ids[0])); !fault.IsCode(err, dlq.CodeConflict) {
		t.Errorf("a resolved one: %v", err)
	}
	p.target.answers(func(string, int) int { return 400 })
	end, err = r.Now(t.Context(), p.claim(ids[1]))
	if err != nil {
		t.Fatal(err)
	}
	if end.Status != dlq.Pending || end.RetryCount != 1 || end.Attempt.StatusCode != 400 || p.get(ids[1]).RetryCount != 1 {
		t.Errorf("a failure is not an error: %+v", end)
	}
	gone, leave := context.WithCancel(t.Context())
	p.target.answers(func(string, int) int { leave(); return 200 }) // the client has disconnected
	if end, err := r.Now(gone, p.claim(ids[1])); err != nil || end.Status != dlq.Resolved {
		t.Errorf("whose client has left: %+v, %v", end, err)
	}
	toKafka := p.claim(ids[2])
	toKafka.Target = &dlq.Target{Kind: dlq.ToKafka, Topic: "orders"}
	if _, err := r.Now(t.Context(), toKafka); !fault.IsCode(err, dlq.CodeNoKafka) {
		t.Errorf("without brokers: %v", err)
	}
	toKafka.Target.Topic = "orders.dlq"
	if _, err := r.Now(t.Context(), toKafka); !fault.IsCode(err, dlq.CodeTarget) {
		t.Errorf("to a dead-letter topic: %v", err)
	}
	if l := p.get(ids[2]); l.Status != dlq.Pending || l.RetryCount != 0 || l.LastRetryAt != nil {
		t.Errorf("what was refused is %+v", l)
	}
}

// told is a driver implemented by a function, without a target.
type told func(dlq.Drive) dlq.Result

func (f told) Drive(_ context.Context, batch []dlq.Drive) []dlq.Result {
	out := make([]dlq.Result, len(batch))
	for i := range batch {
		out[i] = f(batch[i])
		out[i].StartedAt, out[i].EndedAt = moment().Now, moment().Now
	}
	return out
}

func TestAnAcceptedLetterStaysRetrying(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	cfg := p.config(t)
	cfg.Drivers[dlq.ToSaga] = told(func(dlq.Drive) dlq.Result {
		return dlq.Result{Accepted: true,
			Outcome: dlq.Uncertain}
	})
	letter := p.push(1, false, func(l *dlq.Letter) { l.Target = dlq.Target{Kind: dlq.ToSaga} })[0]
	end, err := redrive.New(cfg).Now(t.Context(), p.claim(letter))
	if err != nil || end.Status != dlq.Retrying {
		t.Fatalf("%+v, %v", end, err)
	}
	if l := p.get(letter); l.Status != dlq.Retrying || l.Token == uuid.Nil {
		t.Errorf("the letter is %+v", l)
	}
}

func TestATopicThatIngestionReadsIsNeverDrivenTo(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	cfg := p.config(t)
	cfg.Forbidden = func(topic string) bool { return topic == "orders" }
	cfg.Drivers[dlq.ToKafka] = told(func(d dlq.Drive) dlq.Result {
		t.Errorf("%s was driven to %s", d.ID, d.To.Topic)
		return dlq.Result{Outcome: dlq.Acknowledged}
	})
	truncated := func(l *dlq.Letter) { l.Labels = []string{dlq.LabelTruncated}; l.OriginalTopic = "payments" }
	for name, letter := range map[string]uuid.UUID{
		"a dead-letter topic": p.push(1, false, func(l *dlq.Letter) { l.Target = dlq.Target{Kind: dlq.ToKafka} })[0],
		"a part of a payload": p.push(1, false, func(l *dlq.Letter) { l.Target = dlq.Target{Kind: dlq.ToKafka} },
			truncated)[0],
	} {
		end, err := redrive.New(cfg).Now(t.Context(), p.claim(letter))
		if err != nil || end.Attempt.Outcome != dlq.FailedDrive || end.Attempt.Error == "" || end.Status != dlq.Pending {
			t.Errorf("%s: %+v, %v", name, end, err)
		}
	}
}

// httpDriver drives letters to servers of a test.
func httpDriver(t *testing.T, timeout time.Duration, atOnce int) *targets.HTTP {
	t.Helper()
	policy, err := egress.NewPolicy(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	h := targets.NewHTTP(targets.HTTPConfig{
		Policy: policy, Timeout: timeout, Concurrency: atOnce, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(h.Close)
	return h
}

func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}
