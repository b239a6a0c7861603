// Package stub is a participant without business logic. It follows the rules, in memory, and
// misbehaves on request, so that authors of workflows can see how Skald reacts.
//
// Files, each on top of those before it: paths, later, stub.
package stub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// Header requests a fault for one call. A workflow sets it in the headers of an action.
const Header = "X-Stub"

// Faults are the supported ways to misbehave.
var Faults = []string{
	"ok",      // no fault
	"refuse",  // 409, nothing done
	"error",   // 500, nothing done
	"busy",    // 429 with Retry-After, nothing done
	"timeout", // nothing done, and no answer until the caller gives up
	"lose",    // done, and the connection is closed without an answer
	"twice",   // done, with two effects but only one answer
	"forget",  // done, as if the key had never been seen
	// Answered with 202, and reported to X-Saga-Callback after Config.After:
	"later",           // done
	"later-refuse",    // refused, nothing done
	"later-never",     // no report: the work never ends
	"later-twice",     // done, with two reports
	"later-late",      // done; reported to the callback of an attempt that is over, once the call is repeated or undone
	"later-heartbeat", // a heartbeat immediately, then done
}

// Script lists, for a step and action such as charge/compensate, the faults of successive calls.
// The last fault repeats.
type Script map[string][]string

// Config says how often the stub misbehaves.
type Config struct {
	Rates  map[string]float64 // fraction of calls with a fault, by fault
	Script Script             // takes precedence over Rates; Header takes precedence over both
	After  time.Duration      // how long the work of a deferred call takes
}

type stub struct {
	Config
	paths   paths
	mu      sync.Mutex
	calls   map[string]int      // by step and action
	answers map[string]string   // by key
	refused map[string]bool     // by key; such keys have no answer
	waiting map[string]*promise // by key
	effects map[string]int      // by key
	done    map[string]bool     // by tenant, saga, step and run
	undone  map[string]bool
	fences  map[string]int64 // by tenant and saga
	// afterFunc is time.AfterFunc, except in tests that decide when work is done.
	afterFunc func(time.Duration, func()) *time.Timer
}

// New returns the participant. GET with ?key= returns the number of effects of a key. GET of a path
// returns the record of its calls. PUT of a status without an Idempotency-Key sets the path's
// answer from then on. Every other request is a call; a call that does not belong to a saga is only
// recorded.
func New(cfg Config) (http.Handler, error) {
	sum := 0.0
	for fault, rate := range cfg.Rates {
		if sum += rate; !slices.Contains(Faults, fault) || !(rate >= 0 && rate <= 1) || sum > 1 {
			return nil, fmt.Errorf("rate %s=%g: the fault must be one of %s, and the rates must add up to at most 1",
				fault, rate, strings.Join(Faults, ", "))
		}
	}
	for step, list := range cfg.Script {
		for _, fault := range list {
			if !slices.Contains(Faults, fault) {
				return nil, fmt.Errorf("script: %s: %q must be one of %s", step, fault, strings.Join(Faults, ", "))
			}
		}
	}
	return &stub{
		Config: cfg, paths: paths{known: map[string]*path{}},
		calls: map[string]int{}, answers: map[string]string{}, effects: map[string]int{},
		refused: map[string]bool{}, waiting: map[string]*promise{},
		done: map[string]bool{}, undone: map[string]bool{}, fences: map[string]int64{},
		afterFunc: time.AfterFunc,
	}, nil
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	key, ofSaga := r.Header.Get("Idempotency-Key"), r.Header.Get("X-Saga-Step") != ""
	if r.Method == http.MethodGet {
		s.get(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		answer(w, http.StatusBadRequest, `{"error":"the body did not arrive"}`)
		return
	}
	if r.Method == http.MethodPut && key == "" && !ofSaga {
		if !s.paths.configure(r.URL.Path, body) {
			answer(w, http.StatusBadRequest, `{"error":"the body must be a status from 200 to 599"}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	status, text := s.paths.called(r, body), `{"ok":true}`
	switch {
	case status > 299:
		text = `{"error":"told to answer ` + strconv.Itoa(status) + `"}`
	case ofSaga && key == "":
		status, text = http.StatusBadRequest, `{"error":"the call has no Idempotency-Key"}`
	case ofSaga:
		var done int
		if done, text = s.answerOf(w, r); done != http.StatusOK {
			status = done
		}
	}
	if status == 0 {
		return // the caller has given up
	}
	s.paths.answered(r.URL.Path, status)
	answer(w, status, text)
}

func (s *stub) get(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("key") {
		_, _ = w.Write(s.paths.show(r.URL.Path))
		return
	}
	s.mu.Lock()
	n := s.effects[r.URL.Query().Get("key")]
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]int{"effects": n})
}

// answerOf answers the call of a step. Status 0 means no answer.
func (s *stub) answerOf(w http.ResponseWriter, r *http.Request) (status int, body string) {
	fault := s.fault(r.Header)
	switch fault {
	case "refuse":
		return http.StatusConflict, `{"error":"refused on request"}`
	case "error":
		return http.StatusInternalServerError, `{"error":"failed on request"}`
	case "busy":
		w.Header().Set("Retry-After", "1")
		return http.StatusTooManyRequests, `{"error":"busy on request"}`
	case "timeout":
		<-r.Context().Done()
		return 0, ""
	}
	if !slices.Contains(Faults, fault) {
		return http.StatusBadRequest, `{"error":"` + Header + ` must be one of ` + strings.Join(Faults, ", ") + `"}`
	}
	status, body = s.call(r.Header, fault)
	if fault == "lose" {
		panic(http.ErrAbortHandler) // net/http closes the connection without an answer
	}
	return status, body
}

func answer(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// fault counts the call and returns its fault.
func (s *stub) fault(h http.Header) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := h.Get("X-Saga-Step") + "/" + h.Get("X-Saga-Action")
	n := s.calls[step]
	s.calls[step]++
	if asked := h.Get(Header); asked != "" {
		return asked
	}
	if list := s.Script[step]; len(list) > 0 {
		return list[min(n, len(list)-1)]
	}
	chance := loop.Chance()
	for _, fault := range Faults {
		if chance < s.Rates[fault] {
			return fault
		}
		chance -= s.Rates[fault]
	}
	return "ok"
}

// call executes a call by the rules of docs/participants.md.
func (s *stub) call(h http.Header, fault string) (int, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, saga := h.Get("Idempotency-Key"), h.Get("X-Saga-Tenant")+"/"+h.Get("X-Saga-Id")
	_, run, _ := strings.Cut(key, "#")
	step, undo := saga+"/"+h.Get("X-Saga-Step")+"#"+run, h.Get("X-Saga-Action") == "compensate"
	if fence, err := strconv.ParseInt(h.Get("X-Saga-Fence"), 10, 64); err == nil {
		if fence < s.fences[saga] {
			return http.StatusConflict, `{"error":"another node has taken over the saga"}`
		}
		s.fences[saga] = fence
	}
	if p := s.waiting[key]; p != nil {
		return s.again(p, key, h.Get("X-Saga-Callback"))
	}
	if s.refused[key] {
		return http.StatusConflict, `{"error":"refused on request"}`
	}
	if kept, known := s.answers[key]; known && fault != "forget" {
		if fault == "twice" && s.effects[key] > 0 {
			s.effects[key]++
		}
		return http.StatusOK, kept
	}
	if !undo && s.undone[step] {
		return http.StatusConflict, `{"error":"the step was compensated before"}`
	}
	if undo {
		s.undone[step] = true
		s.giveUp(step)
	}
	if _, waits := later[fault]; waits {
		return s.promise(key, &promise{fault, h.Get("X-Saga-Callback"), step, undo})
	}
	s.perform(key, step, undo)
	if fault == "twice" && s.effects[key] > 0 {
		s.effects[key]++
	}
	s.answers[key] = `{"ok":true}`
	if n := s.effects[key]; fault != "twice" && n > 1 {
		s.answers[key] = fmt.Sprintf(`{"ok":true,"effects":%d}`, n)
	}
	return http.StatusOK, s.answers[key]
}

// perform applies the effect of a call.
func (s *stub) perform(key, step string, undo bool) {
	if !undo || s.done[step] {
		s.effects[key]++
	}
	s.done[step] = s.done[step] || !undo
}

// promise answers a call later, and schedules its work.
func (s *stub) promise(key string, p *promise) (int, string) {
	if p.callback == "" {
		return http.StatusBadRequest, `{"error":"answered later on request, but without X-Saga-Callback"}`
	}
	s.waiting[key] = p
	if p.fault == "later-heartbeat" {
		go send(p.callback, heartbeat)
	}
	if p.report() != "" {
		s.afterFunc(s.After, func() { s.finish(key, p) })
	}
	return http.StatusAccepted, `{"later":true}`
}

// again answers a repeat of a pending call. The report goes to the newest callback.
func (s *stub) again(p *promise, key, callback string) (int, string) {
	if p.fault == "later-late" && callback != "" && callback != p.callback {
		go send(p.callback, p.success())
		delete(s.waiting, key)
		s.perform(key, p.step, p.undo)
		s.answers[key] = `{"ok":true}`
		return http.StatusOK, s.answers[key]
	}
	if callback == "" { // Skald would take 202 for a success
		return http.StatusServiceUnavailable, `{"error":"the work goes on, but there is no X-Saga-Callback"}`
	}
	p.callback = callback
	return http.StatusAccepted, `{"later":true}`
}

// giveUp abandons the work for a step that is compensated.
func (s *stub) giveUp(step string) {
	for key, p := range s.waiting {
		if p.step == step && !p.undo {
			delete(s.waiting, key)
			if p.fault == "later-late" {
				go send(p.callback, p.success())
			}
		}
	}
}

// finish completes the work of a call unless it was abandoned.
func (s *stub) finish(key string, p *promise) {
	s.mu.Lock()
	if s.waiting[key] != p {
		s.mu.Unlock()
		return
	}
	delete(s.waiting, key)
	if p.fault == "later-refuse" {
		s.refused[key] = !p.undo // a refused compensation is not final
	} else {
		s.perform(key, p.step, p.undo)
		s.answers[key] = `{"ok":true}`
	}
	to := p.callback
	s.mu.Unlock()
	send(to, p.report())
	if p.fault == "later-twice" {
		send(to, p.report())
	}
}
