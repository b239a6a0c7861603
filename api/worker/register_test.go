package worker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
	"github.com/skald-saga/skald/internal/test/patience"
)

func nothing(context.Context, *worker.Run) (any, error) { return nil, nil }

func TestAConfigIsChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  worker.Config
		ok   bool
	}{
		{"the least", worker.Config{URL: "http://skald.example"}, true},
		{"over TLS, most runs", worker.Config{URL: "https://skald.example", Concurrency: 1000}, true},
		{"no URL", worker.Config{}, false},
		{"a URL that is not HTTP", worker.Config{URL: "ftp://skald.example"}, false},
		{"too many runs", worker.Config{URL: "http://skald.example", Concurrency: 1001}, false},
		{"fewer than no runs", worker.Config{URL: "http://skald.example", Concurrency: -1}, false},
	} {
		w, err := worker.New(tt.cfg)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && w.Run(t.Context()) == nil {
			t.Errorf("%s: it runs without handlers", tt.name)
		}
	}
}

func TestRegisteringSaysWhatTheWorkerIs(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		w, err := worker.New(worker.Config{
			URL: "http://skald.example/", Client: s.client, Credential: "key", Concurrency: 3,
			Name: "a\x00b\xff" + strings.Repeat("💥", 300), Labels: map[string]string{"zone": "a"}, Queues: []string{"q"},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("z", nothing)
		w.Handle("a", nothing)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		got := said[api.WorkerInput](s, "workers")
		if len(got) != 1 {
			t.Fatalf("%d registrations", len(got))
		}
		in := got[0]
		if in.Name != "a\uFFFDb\uFFFD"+strings.Repeat("💥", 251) || *in.MaxRuns != 3 || *in.Pid != int64(os.Getpid()) ||
			!slices.Equal(in.Commands, []string{"a", "z"}) || !slices.Equal(in.Queues, []string{"q"}) ||
			in.Labels["zone"] != "a" || *in.Sdk != "skald-go" {
			t.Errorf("%+v", in)
		}
		for _, c := range s.calls {
			if c.auth != "Bearer key" {
				t.Errorf("%s with the credential %q", c.verb, c.auth)
			}
		}
	})
}

func TestRegisteringIsRepeatedWithGrowingPauses(t *testing.T) {
	for name, fault := range map[string]reply{
		"broken connections": {}, "500": {status: 500, code: "INTERNAL"}, "429": {status: 429, code: "REQ_RATE_LIMITED"},
		"408": {status: 408}, "an answer that is not JSON": {status: 200, body: "what"},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				const ms = time.Millisecond
				s.on("workers", func(c *call) *reply {
					if len(s.made("workers")) <= 8 {
						r := fault
						return &r
					}
					return nil
				})
				s.work(nothing)
				id := s.add()
				time.Sleep(time.Minute)
				wantSteps(t, s.made("workers"), 100*ms, 200*ms, 400*ms, 800*ms, 1600*ms, 3200*ms, 5000*ms, 5000*ms)
				if done := s.completed(); len(s.made("workers")) != 9 || len(done) != 1 || done[0].RunID != id {
					t.Errorf("%d registrations, results %v", len(s.made("workers")), done)
				}
			})
		})
	}
}

func TestARefusedRegistrationEndsTheWorker(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.on("workers", failing(1, 403, "AUTH_FORBIDDEN"))
		w, err := worker.New(worker.Config{URL: "http://skald.example", Client: s.client})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("print", nothing)
		var refusal *worker.Refusal
		if err := w.Run(t.Context()); !errors.As(err, &refusal) || refusal.Status != 403 ||
			refusal.Code != "AUTH_FORBIDDEN" || refusal.Detail != "of the test" {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestStoppingEndsTheAttemptsToRegister(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.on("workers", failing(1000, 503, "REQ_UNAVAILABLE"))
		stop := s.work(nothing)
		time.Sleep(time.Minute)
		at := time.Now()
		stop()
		if took := time.Since(at); took != 0 {
			t.Errorf("it ended after %s", took)
		}
	})
}

// TestADetachedWorkerConfirmsItsRunsAndRegistersAgain: the worker claims nothing more under its old
// id, drops the run that is refused, and finishes the others.
func TestADetachedWorkerConfirmsItsRunsAndRegistersAgain(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		keep, lost, goOn := s.add(), s.add(), make(chan struct{})
		causes := map[string]chan error{keep.String(): make(chan error, 1), lost.String(): make(chan error, 1)}
		s.work(func(ctx context.Context, r *worker.Run) (any, error) {
			if causes[r.ID] == nil {
				return nil, nil
			}
			select {
			case <-ctx.Done():
			case <-goOn:
			}
			causes[r.ID] <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		})
		synctest.Wait()
		first := s.made("claim")[0].subject
		s.on("heartbeat", func(c *call) *reply {
			if c.subject == first {
				return &reply{status: 410, code: "JOB_WORKER_GONE"}
			}
			return nil
		})
		s.on("confirm-continuation", func(c *call) *reply {
			if c.subject == lost.String() {
				return &reply{status: 409, code: "JOB_FENCE_LOST"}
			}
			return nil
		})
		var refusal *worker.Refusal
		if err := <-causes[lost.String()]; !errors.Is(err, worker.ErrLost) || !errors.As(err, &refusal) {
			t.Errorf("the refused run ended with %v", err)
		}
		synctest.Wait() // until the server knows that no call of the first worker is still waiting
		next := s.add()
		time.Sleep(time.Second)
		if n := len(s.made("workers")); n != 1 || len(s.completed()) != 0 {
			t.Errorf("%d registrations and %v before its runs have ended", n, s.completed())
		}
		close(goOn)
		if err := <-causes[keep.String()]; err != nil {
			t.Errorf("the confirmed run ended with %v", err)
		}
		time.Sleep(time.Minute)
		if done := s.completed(); len(done) != 2 || done[0].RunID != keep || done[1].RunID != next {
			t.Errorf("results: %+v", done)
		}
		claims := s.made("claim")
		if n := len(s.made("workers")); n != 2 || claims[len(claims)-1].subject == first {
			t.Errorf("%d registrations", n)
		}
		if len(s.made("drain")) != 0 || len(s.made("release")) != 0 || len(s.made("confirm-continuation")) != 2 {
			t.Error("it drained a worker that is gone, released a run that it lost or confirmed more than once")
		}
	})
}

func TestAClaimOfADetachedWorkerLeadsToANewOne(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.on("claim", failing(1, 410, "JOB_WORKER_GONE"))
		id := s.add()
		s.work(nothing)
		time.Sleep(time.Second)
		if done := s.completed(); len(s.made("workers")) != 2 || len(done) != 1 || done[0].RunID != id {
			t.Errorf("%d registrations, results %v", len(s.made("workers")), done)
		}
	})
}

// TestAWorkerOverANetwork uses the default client.
func TestAWorkerOverANetwork(t *testing.T) {
	t.Parallel()
	s := newSkald(t)
	server := httptest.NewServer(s)
	defer server.Close()
	s.add()
	written := make(chan struct{})
	s.on("complete", func(*call) *reply { close(written); return nil })
	stop := s.work(func(_ context.Context, r *worker.Run) (any, error) {
		_, err := io.WriteString(r.Stdout(), "printed\n")
		return http.StatusText(200), err
	}, func(c *worker.Config) { c.URL, c.Client = server.URL, nil })
	patience.Receive(t, "a result", written)
	stop()
	if done := s.completed(); string(done[0].Result) != `"OK"` || *said[api.LogInput](s, "logs")[0].Chunk != "printed\n" {
		t.Errorf("%+v", done)
	}
}
