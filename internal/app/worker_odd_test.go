package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/worker"
)

// refusing is a connection to a server that refuses some calls.
type refusing struct {
	refuse func(path string, body []byte) int // the status; 0: pass on
	count  atomic.Int64
}

func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if status := r.refuse(req.URL.Path, body); status != 0 {
		r.count.Add(1)
		return &http.Response{StatusCode: status, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader(`{"code":"REQ_TEST","detail":"refused by the test"}`))}, nil
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(req)
}

// TestWhatOneHandlerReportsCostsNoOtherRunItsLease: texts and numbers that cannot be stored are
// made storable, or refused to the handler that reports them.
func TestWhatOneHandlerReportsCostsNoOtherRunItsLease(t *testing.T) {
	t.Parallel()
	y := workerNodeOf(t, "2")
	y.w.Handle("print", func(ctx context.Context, r *worker.Run) (any, error) {
		if string(r.Args) == "1" { // the others only want to keep their leases
			for _, bad := range []any{"a\x00b", make(chan int), math.NaN(), map[string]any{"k\x00": 1},
				strings.Repeat("x", 5<<20), jsonText(`"\ud800"`), jsonText(`{"a":1,"a":2}`), jsonText("1e400"),
				jsonText(strings.Repeat("[", 100) + strings.Repeat("]", 100))} {
				if err := r.Checkpoint(bad); err == nil {
					t.Errorf("the checkpoint %.20v is accepted", bad)
				}
			}
			if err := r.Checkpoint(map[string]int{"row": 7}); err != nil {
				t.Error(err)
			}
		}
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 100.0000001, 1e300, math.Copysign(0, -1)}
		texts := []string{"a\x00b", "\xff", "\xed\xa0\x80", strings.Repeat("💥", 2000), "\u202e"}
		for n := 0; n < 15 && ctx.Err() == nil; n++ { // longer than two leases
			for i, p := range odd {
				r.Progress(p, texts[i%len(texts)])
				time.Sleep(50 * time.Millisecond)
			}
		}
		r.Progress(math.NaN(), "a\x00b")
		return "done", ctx.Err()
	})
	y.work()
	first, second := y.run("1"), y.run("2")
	for _, id := range []string{first, second} {
		if doc := y.becomes(id, "SUCCEEDED"); doc["attempt"] != float64(1) || doc["losses_used"] != float64(0) {
			t.Errorf("the run was repeated: %v", doc)
		}
	}
}

// jsonText is JSON that is sent unchanged.
type jsonText string

func (j jsonText) MarshalJSON() ([]byte, error) { return []byte(j), nil }

func TestARefusedHeartbeatIsSentAgainWithoutWhatItTells(t *testing.T) {
	t.Parallel()
	way := &refusing{refuse: func(path string, body []byte) int {
		tells := bytes.Contains(body, []byte(`"progress"`)) || bytes.Contains(body, []byte(`"checkpoint"`))
		if tells && strings.HasSuffix(path, "/heartbeat") {
			return http.StatusUnprocessableEntity
		}
		return 0
	}}
	y := workerNodeOf(t, "2", func(c *worker.Config) { c.Client = &http.Client{Transport: way} })
	y.w.Handle("print", func(ctx context.Context, r *worker.Run) (any, error) {
		for n := 0; n < 250 && ctx.Err() == nil; n++ { // longer than two leases
			r.Progress(50, "half")
			if err := r.Checkpoint(1); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		return nil, ctx.Err()
	})
	y.work()
	if doc := y.becomes(y.run("1"), "SUCCEEDED"); doc["attempt"] != float64(1) || way.count.Load() == 0 {
		t.Errorf("%d heartbeats were refused: %v", way.count.Load(), doc)
	}
}

// TestARunWhoseLeaseIsAlwaysLostEnds: a worker that cannot renew its leases gives its runs back
// when they end. That counts as a loss, or the same run would be claimed forever.
func TestARunWhoseLeaseIsAlwaysLostEnds(t *testing.T) {
	t.Parallel()
	way := &refusing{refuse: func(path string, _ []byte) int {
		if strings.HasSuffix(path, "/heartbeat") {
			return http.StatusForbidden
		}
		return 0
	}}
	y := leadingNode(t, "2", func(c *worker.Config) { c.Client = &http.Client{Transport: way} })
	y.w.Handle("print", func(ctx context.Context, _ *worker.Run) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	y.work()
	doc := y.becomes(y.run("1"), "FAILED")
	e, _ := doc["error"].(map[string]any)
	if e["code"] != "LOST" || doc["losses_used"] != float64(5) || doc["attempt"] != float64(5) {
		t.Errorf("%v", doc)
	}
}

// TestARefusedFailureStaysTheSameFailure checks that a refused failure keeps its retries, and that
// only its text is replaced.
func TestARefusedFailureStaysTheSameFailure(t *testing.T) {
	t.Parallel()
	way := &refusing{refuse: func(path string, body []byte) int {
		reports := strings.HasSuffix(path, "/exchange") || strings.HasSuffix(path, "/complete")
		if reports && bytes.Contains(body, []byte("secret")) {
			return http.StatusBadRequest
		}
		return 0
	}}
	y := newWorkerNode(t, func(c *worker.Config) { c.Client = &http.Client{Transport: way} })
	y.w.Handle("print", func(_ context.Context, r *worker.Run) (any, error) {
		if string(r.Args) == "1" {
			return nil, &worker.Failure{Code: "ODD", Message: "secret", ExitCode: new(3221225477)}
		}
		return nil, errors.New("a\x00b\xff" + strings.Repeat("é", 10_000))
	})
	y.work()
	doc := y.becomes(y.run("1"), "FAILED")
	e, _ := doc["error"].(map[string]any)
	if text, _ := e["message"].(string); e["code"] != "ODD" || e["retryable"] != true ||
		!strings.Contains(text, "refused the text") || doc["exit_code"] != float64(-1073741819) {
		t.Errorf("%v", doc)
	}
	doc = y.becomes(y.run("2"), "FAILED")
	e, _ = doc["error"].(map[string]any)
	if text, _ := e["message"].(string); e["code"] != "ERROR" || e["retryable"] != true || len(text) > 8192 ||
		!strings.HasPrefix(text, "a\uFFFDb\uFFFDéé") {
		t.Errorf("%v", doc)
	}
}
