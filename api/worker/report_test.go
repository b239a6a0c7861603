package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

func TestAResultIsRepeatedUntilItIsAnswered(t *testing.T) {
	for name, fault := range map[string]reply{
		"broken connections": {}, "503": {status: 503}, "429": {status: 429, code: "REQ_RATE_LIMITED"},
		"fewer answers than results": {status: 200, body: api.RunResults{Results: []api.RunResult{}}},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				const ms = time.Millisecond
				s.add()
				s.on("complete", func(*call) *reply {
					if len(s.made("complete")) <= 6 {
						r := fault
						return &r
					}
					return nil
				})
				s.work(func(context.Context, *worker.Run) (any, error) { return 42, nil })
				time.Sleep(time.Minute)
				wantSteps(t, s.made("complete"), 100*ms, 200*ms, 400*ms, 800*ms, 1600*ms, 3200*ms)
				for _, r := range s.completed() {
					if string(r.Result) != "42" || r.Error != nil {
						t.Errorf("repeated as %+v", r)
					}
				}
				if n := len(s.completed()); n != 7 || len(s.made("fail")) != 0 {
					t.Errorf("%d reports", n)
				}
			})
		})
	}
}

// TestAReportIsGivenUpSomeTimeAfterTheLease: until then it is repeated, and its run keeps its slot.
func TestAReportIsGivenUpSomeTimeAfterTheLease(t *testing.T) {
	for name, tt := range map[string]struct {
		verb string
		err  error
	}{"a result": {"complete", nil}, "a release": {"release", errors.New("stopped")}} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				s.add()
				s.on("heartbeat", failing(10_000, 503, ""))
				s.on(tt.verb, failing(10_000, 503, ""))
				s.work(func(ctx context.Context, _ *worker.Run) (any, error) {
					<-ctx.Done()
					return nil, tt.err
				}, func(c *worker.Config) { c.Concurrency, c.ReportFor = 1, 5*time.Minute })
				time.Sleep(lease + 4*time.Minute)
				if n := len(s.made("claim")); n != 1 {
					t.Errorf("%d claims while a result is to be reported", n)
				}
				time.Sleep(2 * time.Minute)
				calls := s.made(tt.verb)
				if last := calls[len(calls)-1].at.Sub(calls[0].at); last < 5*time.Minute-5*time.Second ||
					last > 5*time.Minute+5*time.Second || len(s.made("claim")) < 2 {
					t.Errorf("it was repeated for %s", last)
				}
			})
		})
	}
}

// TestARefusedResultEndsTheRunWithLess: the run must end, and the text of a failure must not cost
// it its retries.
func TestARefusedResultEndsTheRunWithLess(t *testing.T) {
	for _, tt := range []struct {
		name      string
		err       error
		whole     bool // the whole call is refused, not just the item
		code      string
		text      string
		retryable bool
		exit      any
	}{
		{"an item", nil, false, "RESULT_REFUSED", "the server refused the result: 422 REQ_TEST: of the test", false, nil},
		{"a call", nil, true, "RESULT_REFUSED", "the server refused the result: 422 REQ_TEST: of the test", false, nil},
		{"a failure", &worker.Failure{Code: "ODD", Message: "secret", ExitCode: new(3)}, false, "ODD",
			"the server refused the text of the error: 422 REQ_TEST: of the test", true, int32(3)},
		{"a failure for good", &worker.Failure{Message: "secret", Permanent: true}, true, "ERROR",
			"the server refused the text of the error: 422 REQ_TEST: of the test", false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				s.on("complete", func(c *call) *reply {
					if tt.whole {
						return &reply{status: 422, code: "REQ_TEST"}
					}
					id := c.body.(*completes).Runs[0].RunID
					return &reply{status: 200, body: api.RunResults{Results: []api.RunResult{
						{RunID: &id, Status: 422, Problem: &api.ItemProblem{Code: "REQ_TEST", Detail: "of the test"}},
					}}}
				})
				id := s.add()
				s.work(func(context.Context, *worker.Run) (any, error) { return 42, tt.err })
				synctest.Wait()
				fails := said[api.FailInput](s, "fail")
				if len(fails) != 1 || s.made("fail")[0].subject != id.String() {
					t.Fatalf("%d failures", len(fails))
				}
				if f := fails[0]; f.Error.Code != tt.code || *f.Error.Message != tt.text ||
					*f.Error.Retryable != tt.retryable || deref(f.ExitCode) != tt.exit {
					t.Errorf("%s, %s, retryable %t, exit %v", f.Error.Code, *f.Error.Message, *f.Error.Retryable, deref(f.ExitCode))
				}
			})
		})
	}
}

func TestAResultThatComesTooLateIsDiscarded(t *testing.T) {
	for _, code := range []string{
		"JOB_FENCE_LOST", "JOB_STALE_EPOCH", "JOB_CANCEL_WINS", "JOB_WORKER_GONE", "JOB_RUN_NOT_FOUND",
	} {
		t.Run(code, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				s.add()
				s.on("complete", func(c *call) *reply {
					id := c.body.(*completes).Runs[0].RunID
					return &reply{status: 200, body: api.RunResults{Results: []api.RunResult{
						{RunID: &id, Status: 409, Problem: &api.ItemProblem{Code: code}},
					}}}
				})
				s.work(nothing)
				time.Sleep(time.Minute)
				if len(s.made("complete")) != 1 || len(s.made("fail")) != 0 {
					t.Errorf("%d results, %d failures", len(s.made("complete")), len(s.made("fail")))
				}
			})
		})
	}
}

// TestOneResultDoesNotHaveTheOthersRefused: the results of a refused call are reported one by one.
func TestOneResultDoesNotHaveTheOthersRefused(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		bad, others := s.add(), []uuid.UUID{s.add(), s.add(), s.add()}
		goOn := make(chan struct{})
		var most int
		s.on("complete", func(c *call) *reply {
			runs := c.body.(*completes).Runs
			most = max(most, len(runs))
			if len(s.made("complete")) == 1 { // the others are collected while it is being sent
				close(goOn)
				time.Sleep(time.Second)
			}
			for _, r := range runs {
				if strings.Contains(string(r.Result), "secret") {
					return &reply{status: 413, code: "REQ_TOO_LARGE"}
				}
			}
			return nil
		})
		first := s.add()
		s.work(func(_ context.Context, r *worker.Run) (any, error) {
			switch r.ID {
			case first.String():
				return nil, nil
			case bad.String():
				<-goOn
				return "secret", nil
			}
			<-goOn
			return "plain", nil
		}, func(c *worker.Config) { c.Concurrency = 5 })
		time.Sleep(time.Minute)
		fails := s.made("fail")
		if len(fails) != 1 || fails[0].subject != bad.String() || most < 2 {
			t.Errorf("%d failures; at most %d results in a call", len(fails), most)
		}
		alone := map[uuid.UUID]bool{}
		for _, c := range said[completes](s, "complete") {
			if len(c.Runs) == 1 {
				alone[c.Runs[0].RunID] = true
			}
		}
		if !alone[bad] {
			t.Error("the refused result was not sent alone")
		}
		sent := map[uuid.UUID]int{}
		for _, r := range s.completed() {
			sent[r.RunID]++
		}
		for _, id := range others {
			if sent[id] == 0 {
				t.Errorf("the result of %s was not sent", id)
			}
		}
	})
}
