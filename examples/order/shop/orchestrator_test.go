package shop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/internal/test/patience"
)

// orchestrator is a minimal in-memory orchestrator that keeps all promises unless it is configured
// to break one. It calls a shop with random faults to show that both halves of this package agree:
// a correct orchestrator has no violations, and every defect is detected.
type orchestrator struct {
	url      string
	client   *http.Client
	steps    []string
	attempts int                  // per execute; compensations are tried until they succeed
	paused   <-chan time.Duration // a receive abandons the call in flight; nil means to wait
	defect   defect
}

// defect is the promise that the orchestrator breaks.
type defect string

const (
	noDefect          defect = "none"
	newKeys           defect = "a new key for every attempt"
	newBodies         defect = "another body for every attempt"
	sameAttempt       defect = "attempts are not counted"
	unknownIsFailure  defect = "an unknown outcome is treated as a failure"
	unknownIsSuccess  defect = "an unknown outcome is treated as success"
	forwardUndo       defect = "steps are undone in forward order"
	unawaitedUndo     defect = "an undo is not waited for"
	undoRefused       defect = "refused steps are undone, too"
	refusalSettles    defect = "a refusal settles an earlier doubt"
	executeAfterUndo  defect = "a step is executed again after its undo"
	firstNotUndone    defect = "the first step is never undone"
	undoAfterComplete defect = "a completed saga is undone"
)

type result int

const (
	unknown result = iota
	done
	refusedForGood
)

// call makes one call and classifies the response.
func (c orchestrator) call(saga, step string, action ledger.Action, attempt int, payload string) result {
	path := "/steps/" + step
	if action == ledger.Compensate {
		path += "/undo"
	}
	key := fmt.Sprintf("%s/%s/%s", saga, step, action)
	body := fmt.Sprintf(`{"saga_id":%q,"step":%q,"action":%q,"payload":%s}`, saga, step, action, payload)
	switch c.defect {
	case newKeys:
		key += fmt.Sprint(attempt)
	case newBodies:
		body += strings.Repeat(" ", attempt)
	case sameAttempt:
		attempt = 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	go func() {
		select {
		case <-c.paused:
			cancel()
		case <-ctx.Done():
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(body))
	if err != nil {
		return unknown
	}
	req.GetBody = nil // or else net/http might send it twice unnoticed
	for name, value := range map[string]string{"Idempotency-Key": key, "X-Saga-Id": saga, "X-Saga-Step": step,
		"X-Saga-Action": string(action), "X-Saga-Attempt": fmt.Sprint(attempt), "X-Saga-Fence": "1"} {
		req.Header.Set(name, value)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return unknown
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil || res.StatusCode >= 500 || !json.Valid(answer):
		return unknown
	case res.StatusCode >= 400:
		return refusedForGood
	}
	return done
}

// execute tries a step until its outcome is definite or its attempts are exhausted. A refusal after
// an unknown outcome is not definite, because it says nothing about the previous call.
func (c orchestrator) execute(saga, step, payload string) result {
	for attempt := 1; attempt <= c.attempts; attempt++ {
		switch r := c.call(saga, step, ledger.Execute, attempt, payload); {
		case r == refusedForGood && attempt > 1 && c.defect != refusalSettles:
			return unknown
		case r != unknown:
			return r
		}
	}
	return unknown
}

func (c orchestrator) undo(saga, step, payload string) {
	for attempt := 1; attempt <= 20; attempt++ {
		if c.call(saga, step, ledger.Compensate, attempt, payload) == done || c.defect == unawaitedUndo {
			return
		}
	}
}

// run runs one saga to its end.
func (c orchestrator) run(saga, payload string) ledger.SagaEnd {
	var undo []string // steps that were or may have been done
	failed := false
	for _, step := range c.steps {
		r := c.execute(saga, step, payload)
		if r == unknown && c.defect == unknownIsSuccess {
			r = done
		}
		if r == done || r == unknown && c.defect != unknownIsFailure || c.defect == undoRefused {
			undo = append(undo, step)
		}
		if failed = r != done; failed {
			break
		}
	}
	end := ledger.SagaEnd{Outcome: ledger.Completed, Steps: c.steps}
	if !failed && c.defect != undoAfterComplete {
		return end
	}
	if failed {
		end.Outcome = ledger.Compensated
	}
	if c.defect != forwardUndo {
		slices.Reverse(undo)
	}
	for _, step := range undo {
		if c.defect == firstNotUndone && step == c.steps[0] {
			continue
		}
		c.undo(saga, step, payload)
		if c.defect == executeAfterUndo {
			c.call(saga, step, ledger.Execute, c.attempts+1, payload)
		}
	}
	return end
}

// faultyConfig makes about half of the sagas fail, without delays.
var faultyConfig = Config{
	Faults:     Faults{Failure: 0.05, Unavailable: 0.05, DropRequest: 0.05, DropReply: 0.1, Garbage: 0.05, Refuse: 0.1},
	UndoFaults: Faults{Failure: 0.1, DropReply: 0.1, Garbage: 0.1},
	Seed:       7,
}

// slowConfig delays many calls, some of them before they are processed.
var slowConfig = Config{
	Faults:     Faults{Slow: 0.3, Late: 0.3, Refuse: 0.05, MaxDelay: 10 * time.Millisecond},
	UndoFaults: Faults{Slow: 0.2, Late: 0.2, MaxDelay: 10 * time.Millisecond},
	Seed:       7,
}

// play runs many sagas against a shop with faults and checks its ledger. With a slow shop, it runs
// them one at a time and abandons a call as soon as the shop delays it, regardless of the speed of
// the machine; otherwise it runs several at once.
func play(t *testing.T, shop Config, s defect, sagas int, checker ledger.Checker) (
	ends map[ledger.Outcome]int, found []ledger.Violation) {
	t.Helper()
	workers, paused := 16, make(chan time.Duration)
	if shop.Faults.MaxDelay > 0 {
		workers = 1
	}
	c := open(t, shop, func(s *Shop) {
		s.after = func(d time.Duration) <-chan time.Time {
			paused <- d
			return time.NewTimer(d).C
		}
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	cond := orchestrator{url: c.url, client: &http.Client{Transport: transport}, steps: []string{"a", "b", "c", "d"},
		attempts: 2, paused: paused, defect: s}

	var mu sync.Mutex
	want := map[string]ledger.SagaEnd{}
	var wg sync.WaitGroup
	ids := make(chan string)
	for range workers {
		wg.Go(func() {
			for id := range ids {
				end := cond.run(id, `{"amount":1}`)
				mu.Lock()
				want[id] = end
				mu.Unlock()
			}
		})
	}
	for i := range sagas {
		ids <- fmt.Sprintf("saga-%04d", i)
	}
	close(ids)
	wg.Wait()
	ends = map[ledger.Outcome]int{}
	for _, end := range want {
		ends[end.Outcome]++
	}
	return ends, checker.Check(c.entries(t), want)
}

func TestACorrectOrchestratorHasNoViolations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		shop    Config
		checker ledger.Checker
	}{
		{"with a faulty shop", faultyConfig, ledger.Checker{Calm: true, MaxExecutes: 2}},
		{"with a slow shop", slowConfig, ledger.Checker{MaxExecutes: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ends, found := play(t, tt.shop, noDefect, 150, tt.checker)
			for _, v := range found {
				t.Errorf("unjust: %s", v)
			}
			if ends[ledger.Completed] == 0 || ends[ledger.Compensated] == 0 {
				t.Errorf("ends = %v, want both kinds", ends)
			}
		})
	}
}

func TestEachViolationIsFound(t *testing.T) {
	calm := ledger.Checker{Calm: true}
	for _, tt := range []struct {
		defect  defect
		checker ledger.Checker
		want    []string // all invariants that are reported as broken
	}{
		{newKeys, ledger.Checker{}, []string{"I2", "I7"}}, // a new key is a new charge
		{newBodies, ledger.Checker{}, []string{"I7", "contract"}},
		{sameAttempt, ledger.Checker{}, []string{"I7"}},
		{unknownIsFailure, ledger.Checker{}, []string{"I2", "I4"}},
		{unknownIsSuccess, ledger.Checker{}, []string{"I2", "I3"}},
		{forwardUndo, ledger.Checker{}, []string{"I4"}},
		{unawaitedUndo, ledger.Checker{}, []string{"I2", "I4"}},
		{undoRefused, calm, []string{"I4"}},
		{refusalSettles, calm, []string{"I4"}},
		{executeAfterUndo, ledger.Checker{}, []string{"I5"}},
		{firstNotUndone, ledger.Checker{}, []string{"I2", "I4"}},
		{undoAfterComplete, ledger.Checker{}, []string{"I2", "I4"}},
	} {
		t.Run(string(tt.defect), func(t *testing.T) {
			_, found := play(t, faultyConfig, tt.defect, 60, tt.checker)
			kinds := map[string]int{}
			for _, v := range found {
				kinds[v.Invariant]++
			}
			for _, want := range tt.want {
				if kinds[want] == 0 {
					t.Errorf("violations by kind = %v, want some %s", kinds, want)
				}
			}
		})
	}
}
