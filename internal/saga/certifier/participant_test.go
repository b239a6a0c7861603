package certifier

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

// broken is one way not to keep the rules; "" keeps them.
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
)

// participant keeps the rules, except for one.
type participant struct {
	way broken

	mu      sync.Mutex
	answers map[string]string // by key, "409" for a refusal
	undone  map[string]bool   // by step and run
	done    map[string]bool
	fences  map[string]int
	failed  map[string]bool
	effects map[string]int // on the disk, as it were
	asked   map[string]int
	marked  int // calls with X-Saga-Certification
	calls   int
}

func newParticipant(way broken) *participant {
	p := &participant{way: way, effects: map[string]int{}, asked: map[string]int{}, failed: map[string]bool{}}
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
}

func (p *participant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		p.count(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	status, text := p.call(r.Header, body)
	w.WriteHeader(status)
	io.WriteString(w, text)
}

func (p *participant) count(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.URL.Query().Get("key")
	n := p.effects[key]
	if p.asked[key]++; p.way == answersEarly && p.asked[key] == 1 {
		n = 0 // it is committed after the first question
	}
	json.NewEncoder(w).Encode(map[string]int{"effects": n})
}

func (p *participant) call(h http.Header, body []byte) (int, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if h.Get("X-Saga-Certification") == "1" {
		p.marked++
	}
	key := h.Get("Idempotency-Key")
	saga := h.Get("X-Saga-Tenant") + "/" + h.Get("X-Saga-Id")
	_, run, _ := strings.Cut(key, "#")
	step := saga + "/" + h.Get("X-Saga-Step") + "#" + run
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
		time.Sleep(20 * time.Millisecond) // others look for the key, too
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

// serve returns what an examination of the participant needs.
func (p *participant) serve(t *testing.T) Config {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return Config{
		URL: server.URL + "/{step}", Effects: server.URL + "/effects", Version: "test",
		Restart: func(context.Context) error { p.restart(); return nil },
	}
}
