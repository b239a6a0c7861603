package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

const (
	interval = 5 * time.Second  // interval of heartbeats
	lease    = 30 * time.Second // lease of a run
)

// skald is a server that speaks the worker protocol. It refuses requests that violate the contract,
// and calls whose fence is not that of the last assignment. Its connections are in memory, so that
// the server, the worker and the test share one fake clock.
type skald struct {
	t      *testing.T
	client *http.Client
	older  bool // it does not support the exchange

	mu      sync.Mutex
	waiting []api.ClaimedRun
	more    chan struct{} // closed when a run is added
	claims  map[string][]api.ClaimedRun
	given   map[uuid.UUID]assignment
	calls   []*call
	hooks   map[string]func(*call) *reply
}

// assignment says which worker has a run.
type assignment struct {
	api.ClaimedRun
	worker string
}

// call is a call from the worker.
type call struct {
	verb    string // the last part of the path
	subject string // the worker or run id in the path
	at      time.Time
	body    any // a value of a contract type
	auth    string
	gone    <-chan struct{} // closed when the caller disconnects
}

// reply is an answer: a problem with this code, or a body. Status 0 breaks the connection.
type reply struct {
	status int
	code   string
	body   any
}

type (
	// batch is a list of runs, each of which must match the contract.
	batch[T any] struct {
		Runs []T `json:"runs"`
	}
	starts    = batch[api.StartItem]
	completes = batch[api.CompleteItem]
	// beat is api.HeartbeatInput with a batch of runs.
	beat struct {
		Load    *float64           `json:"load"`
		Running []api.HeartbeatRun `json:"running"`
		Seq     int64              `json:"seq"`
	}
)

// bodies maps each kind of call to the type of its body.
var bodies = map[string]func() any{
	"workers": newOf[api.WorkerInput], "claim": newOf[api.ClaimInput], "start": newOf[starts],
	"heartbeat": newOf[beat], "complete": newOf[completes], "fail": newOf[api.FailInput],
	"release": newOf[api.ReleaseInput], "cancel-ack": newOf[api.FenceInput],
	"exchange":             newOf[exchanges],
	"confirm-continuation": newOf[api.FenceInput], "logs": newOf[api.LogInput], "drain": newOf[api.WorkerActionInput],
}

func newOf[T any]() any { return new(T) }

func newSkald(t *testing.T) *skald {
	return &skald{
		t: t, more: make(chan struct{}), claims: map[string][]api.ClaimedRun{}, given: map[uuid.UUID]assignment{},
		hooks: map[string]func(*call) *reply{},
	}
}

// onFakeClock runs a test against a current server, and against one that does not support the
// exchange.
func onFakeClock(t *testing.T, play func(t *testing.T, s *skald)) {
	t.Helper()
	t.Run("today", func(t *testing.T) { onServer(t, false, play) })
	t.Run("older", func(t *testing.T) { onServer(t, true, play) })
}

// onServer runs a test against one of these servers.
func onServer(t *testing.T, older bool, play func(t *testing.T, s *skald)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSkald(t)
		s.older = older
		listener := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: s} //nolint:gosec // its only client is the worker of the test
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		transport := &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 100}
		s.client = &http.Client{Transport: transport}
		t.Cleanup(func() {
			transport.CloseIdleConnections()
			_ = server.Close()
			<-served
		})
		play(t, s)
	})
}

// memory is a listener for in-memory connections.
type memory struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.closed) }); return nil }
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// on lets a test answer calls. If its function returns nil, the server answers.
func (s *skald) on(verb string, hook func(*call) *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[verb] = hook
}

func (s *skald) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	c := &call{
		verb: path[len(path)-1], at: time.Now(), auth: r.Header.Get("Authorization"), gone: r.Context().Done(),
	}
	if len(path) > 1 {
		c.subject = path[1]
	}
	if made := bodies[c.verb]; made == nil || r.Method != http.MethodPost ||
		r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("%s %s is not in the protocol", r.Method, r.URL.Path)
	} else {
		c.body = made()
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c.body); err != nil {
		s.t.Errorf("%s: %v in %.500s", r.URL.Path, err, text)
	}
	answer := s.serve(c)
	switch {
	case answer.status == 0:
		panic(http.ErrAbortHandler)
	case answer.code != "":
		answer.body = map[string]any{"code": answer.code, "detail": "of the test", "status": answer.status}
	}
	w.WriteHeader(answer.status)
	_ = json.NewEncoder(w).Encode(answer.body)
}

// serve answers a call as the test says, or as a server without faults would.
func (s *skald) serve(c *call) *reply {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	hook := s.hooks[c.verb]
	s.mu.Unlock()
	if hook != nil {
		if answer := hook(c); answer != nil {
			return answer
		}
	}
	return s.answer(c)
}

// answer returns the answer of a server without faults.
func (s *skald) answer(c *call) *reply {
	switch body := c.body.(type) {
	case *api.WorkerInput:
		return &reply{status: 201, body: registered(*body.MaxRuns)}
	case *api.ClaimInput:
		return &reply{status: 200, body: api.ClaimedRuns{State: "ACTIVE", LeaseMS: 20_000, Runs: s.claim(c)}}
	case *exchanges:
		return s.exchange(c, body)
	case *starts:
		out := api.RunResults{LeaseMS: new(lease.Milliseconds())}
		for _, r := range body.Runs {
			out.Results = append(out.Results, s.judge(c.subject, r.RunID, r.Attempt, r.LeaseToken, r.LeaderEpoch))
		}
		return &reply{status: 200, body: out}
	case *completes:
		out := api.RunResults{}
		for _, r := range body.Runs {
			out.Results = append(out.Results, s.judge(c.subject, r.RunID, r.Attempt, r.LeaseToken, r.LeaderEpoch))
		}
		return &reply{status: 200, body: out}
	case *beat:
		out := api.Heartbeat{State: "ACTIVE", HeartbeatIntervalMS: interval.Milliseconds(), LeaseMS: lease.Milliseconds()}
		for _, r := range body.Running {
			verdict := s.judge(c.subject, r.RunID, r.Attempt, r.LeaseToken, r.LeaderEpoch)
			out.Leases = append(out.Leases, api.LeaseState{RunID: &r.RunID, Ok: verdict.Status == 200})
		}
		return &reply{status: 200, body: out}
	case *api.FailInput:
		return s.ended(c, body.WorkerID, body.Attempt, body.LeaseToken, body.LeaderEpoch)
	case *api.ReleaseInput:
		return s.ended(c, body.WorkerID, body.Attempt, body.LeaseToken, body.LeaderEpoch)
	case *api.FenceInput:
		return s.ended(c, body.WorkerID, body.Attempt, body.LeaseToken, body.LeaderEpoch)
	case *api.LogInput:
		return s.ended(c, body.WorkerID, body.Attempt, body.LeaseToken, body.LeaderEpoch)
	}
	return &reply{status: 200, body: struct{}{}}
}

func registered(runs int32) api.WorkerRegistration {
	return api.WorkerRegistration{
		WorkerID: uuid.New(), State: "ACTIVE", HeartbeatIntervalMS: interval.Milliseconds(), RunLeaseMS: lease.Milliseconds(),
		MaxRuns: runs,
	}
}

func (s *skald) ended(c *call, worker uuid.UUID, attempt int32, token uuid.UUID, epoch int64) *reply {
	id := uuid.MustParse(c.subject)
	if verdict := s.judge(worker.String(), id, attempt, token, epoch); verdict.Status != 200 {
		return &reply{status: int(verdict.Status), code: verdict.Problem.Code}
	}
	return &reply{status: 200, body: struct{}{}}
}

// judge compares a fence with the last assignment of the run.
func (s *skald) judge(worker string, id uuid.UUID, attempt int32, token uuid.UUID, epoch int64) api.RunResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.given[id]
	if a.worker != worker || a.Attempt != attempt || a.LeaseToken != token || a.LeaderEpoch != epoch {
		return api.RunResult{RunID: &id, Status: 409, Problem: &api.ItemProblem{Code: "JOB_FENCE_LOST"}}
	}
	return api.RunResult{RunID: &id, Status: 200}
}

// claim waits for runs as long as the request says, and returns the runs of an earlier claim with
// the same id.
func (s *skald) claim(c *call) (runs []api.ClaimedRun) {
	ask := c.body.(*api.ClaimInput)
	over := time.NewTimer(time.Duration(*ask.WaitMS) * time.Millisecond)
	defer over.Stop()
	for {
		s.mu.Lock()
		runs = s.claims[*ask.ClaimID]
		if runs == nil && len(s.waiting) > 0 {
			n := min(len(s.waiting), int(ask.Slots))
			runs, s.waiting = s.waiting[:n:n], s.waiting[n:]
			s.claims[*ask.ClaimID] = runs
			for _, r := range runs {
				s.given[r.RunID] = assignment{r, c.subject}
			}
		}
		more := s.more
		s.mu.Unlock()
		if runs != nil {
			return runs
		}
		select {
		case <-more:
		case <-over.C:
			return []api.ClaimedRun{}
		case <-c.gone:
			panic(http.ErrAbortHandler)
		}
	}
}

// add makes a run of the command print available, with the changes that the test makes.
func (s *skald) add(change ...func(*api.ClaimedRun)) uuid.UUID {
	r := api.ClaimedRun{
		RunID: uuid.New(), Definition: "report", Command: "print", Attempt: 1, LeaseToken: uuid.New(), LeaderEpoch: 7,
		FencingToken: "7.1", IdempotencyKey: "once", State: "ASSIGNED",
	}
	for _, f := range change {
		f(&r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, r)
	close(s.more)
	s.more = make(chan struct{})
	return r.RunID
}

// made returns the calls of a kind so far.
func (s *skald) made(verb string) (calls []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.verb == verb {
			calls = append(calls, c)
		}
	}
	return calls
}

// said returns the bodies of the calls of a kind so far.
func said[T any](s *skald, verb string) (out []T) {
	for _, c := range s.made(verb) {
		out = append(out, *c.body.(*T))
	}
	return out
}

// completed returns the results reported so far.
func (s *skald) completed() (out []api.CompleteItem) {
	for _, c := range said[completes](s, "complete") {
		out = append(out, c.Runs...)
	}
	return out
}

// work runs a worker until the returned function is called, which waits for the worker to end.
func (s *skald) work(h worker.Handler, change ...func(*worker.Config)) (stop func()) {
	s.t.Helper()
	cfg := worker.Config{URL: "http://skald.example/", Client: s.client, Name: "w", Concurrency: 4}
	for _, f := range change {
		f(&cfg)
	}
	w, err := worker.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	w.Handle("print", h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the worker ended with %v", err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// failing answers the first n calls with the status and leaves the others to the server.
func failing(n int, status int, code string) func(*call) *reply {
	var mu sync.Mutex
	return func(*call) *reply {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return &reply{status: status, code: code}
		}
		return nil
	}
}
