package player

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// broken is a way of breaking the rules; "" keeps them.
type broken string

const (
	right             broken = ""
	forgetsAtRestart  broken = "forgets after restart"
	forgetsInARace    broken = "forgets under race"
	noTombstone       broken = "no tombstone"
	tombstoneInMemory broken = "tombstone only in memory"
	answersEarly      broken = "answers before commit"
	effectsTwice      broken = "effects twice behind equal answers"
	ignoresFences     broken = "fence ignored"
	errorAppliesAgain broken = "500 after applying, and the repeat applies again"
	errorOnly         broken = "500 after applying, and the repeat has the answer"
	newAnswer         broken = "new answer for an old key"
	undoFailsLater    broken = "undo that fails the second time"
	doneAfterUndo     broken = "do accepted after undo"
	refusesApplied    broken = "refused although applied"

	// Calls that run concurrently with others and whose callers have disconnected: see
	// running_test.go.
	waitsForRunning  broken = "right, and slow"
	waiterFrees      broken = "a repeat that gives up waiting frees the key"
	outlivesUndo     broken = "undo does not wait for a call whose caller has left"
	stoppedAndForgot broken = "undo stops a call whose caller has left, without a tombstone"
	staysBusy        broken = "right, and not now as long as a call runs whose caller has left"
)

// participant keeps all rules except one.
type participant struct {
	way broken

	mu      sync.Mutex
	answers map[string]string // answers by key; "409" stands for a refusal
	undone  map[string]bool   // by step and run
	done    map[string]bool
	fences  map[string]int
	failed  map[string]bool
	effects map[string]int // stands for the data on disk
	asked   map[string]int
	marked  int // calls with X-Saga-Certification
	calls   int

	changed *sync.Cond          // signals a change of any of these fields; uses mu
	leaving map[string]*leaving // calls whose callers will disconnect, by key and attempt
	running map[string]*running // executes, by key
	freed   map[string]*running // executes by key that have lost their key to another call
	over    bool                // the test is over
}

func newParticipant(way broken) *participant {
	p := &participant{way: way, effects: map[string]int{}, asked: map[string]int{}, failed: map[string]bool{},
		leaving: map[string]*leaving{}, running: map[string]*running{}, freed: map[string]*running{}}
	p.changed = sync.NewCond(&p.mu)
	p.forget()
	return p
}

func (p *participant) forget() {
	p.answers, p.fences = map[string]string{}, map[string]int{}
	p.undone, p.done = map[string]bool{}, map[string]bool{}
}

func (p *participant) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.way {
	case forgetsAtRestart:
		p.forget()
	case tombstoneInMemory:
		p.undone = map[string]bool{}
	}
	for key, r := range p.running { // it ends with the process
		r.stopped = true
		delete(p.running, key)
	}
	p.changed.Broadcast()
}

func (p *participant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		p.count(w, r)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	if p.slow() {
		p.run(w, r)
		return
	}
	l := p.leavingOf(r.Header)
	status, text := p.call(r.Header)
	if l != nil { // the call is done, and its caller disconnects without the answer
		close(l.begun)
		<-r.Context().Done()
		return
	}
	w.WriteHeader(status)
	io.WriteString(w, text)
}

func (p *participant) count(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.URL.Query().Get("key")
	n := p.effects[key]
	if p.asked[key]++; p.way == answersEarly && p.asked[key] == 1 {
		n = 0 // it is committed after the first query
	}
	json.NewEncoder(w).Encode(map[string]int{"effects": n})
}

func (p *participant) call(h http.Header) (int, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.locked(h)
}

// stepOfKey returns the saga, step and run of a call.
func stepOfKey(h http.Header) string {
	_, run, _ := strings.Cut(h.Get("Idempotency-Key"), "#")
	return h.Get("X-Saga-Tenant") + "/" + h.Get("X-Saga-Id") + "/" + h.Get("X-Saga-Step") + "#" + run
}

// locked executes a call while the lock is held.
func (p *participant) locked(h http.Header) (int, string) {
	p.calls++
	if h.Get("X-Saga-Certification") == "1" {
		p.marked++
	}
	key := h.Get("Idempotency-Key")
	saga := h.Get("X-Saga-Tenant") + "/" + h.Get("X-Saga-Id")
	step := stepOfKey(h)
	undo := h.Get("X-Saga-Action") == "compensate"

	if fence, _ := strconv.Atoi(h.Get("X-Saga-Fence")); p.way != ignoresFences {
		if fence < p.fences[saga] {
			return 409, `{"error":"an older fence"}`
		}
		p.fences[saga] = fence
	}
	answer, known := p.answers[key]
	if p.way == forgetsInARace && !known {
		p.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // others check the key as well
		p.mu.Lock()
	}
	switch {
	case known && p.way == effectsTwice && p.effects[key] > 0:
		p.effects[key]++
	case known && p.way == newAnswer && answer != "409":
		answer = fmt.Sprintf(`{"calls":%d}`, p.calls)
	case known && p.way == undoFailsLater && undo:
		return 404, `{"error":"there is no such charge"}`
	}
	if known && answer == "409" {
		return 409, `{"error":"refused"}`
	}
	if known {
		return 200, answer
	}
	return p.fresh(key, step, undo)
}

func (p *participant) fresh(key, step string, undo bool) (int, string) {
	if !undo && p.undone[step] {
		return 409, `{"error":"it was undone"}`
	}
	if !undo || p.done[step] {
		p.effects[key]++
	}
	p.undone[step] = p.undone[step] || undo && p.way != noTombstone
	if undo && p.done[step] && p.way == doneAfterUndo {
		p.undone[step] = false
		delete(p.answers, strings.Replace(key, "/compensate", "/execute", 1))
	}
	if !undo && p.way == refusesApplied {
		p.done[step], p.answers[key] = true, "409"
		return 409, `{"error":"refused"}`
	}
	p.done[step] = p.done[step] || !undo
	answer := fmt.Sprintf(`{"calls":%d}`, p.calls)
	if first := !p.failed[key]; first && (p.way == errorAppliesAgain || p.way == errorOnly) {
		if p.failed[key] = true; p.way == errorOnly {
			p.answers[key] = answer
		}
		return 500, ""
	}
	p.answers[key] = answer
	return 200, answer
}

// serve returns the configuration for testing the participant.
func (p *participant) serve(t *testing.T) Config {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(p.end)
	return Config{
		URL: server.URL + "/{step}", Effects: server.URL + "/effects", Version: "test",
		Restart: func(context.Context) error { p.restart(); return nil },
		Timeout: time.Minute, // tests end by events, not by timeouts
		leaves:  p.leaves,
	}
}
