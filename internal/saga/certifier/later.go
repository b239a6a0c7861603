package certifier

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/certify"
)

// callbacks is the place where reports arrive.
type callbacks struct {
	url    string
	server *http.Server
	mu     sync.Mutex
	got    map[string][]arrived // by the word at the end of the URL; guarded by mu
	asked  map[string]bool      // words whose first report is not taken; guarded by mu
}

// arrived is a report, without heartbeats.
type arrived struct {
	Result string          `json:"result"`
	Output json.RawMessage `json:"output"`
	wrong  string          // what is wrong with it
}

// listen serves callbacks at an address; base is how the participant reaches it, "" if as it is.
func listen(ctx context.Context, address, base string) (*callbacks, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("no place for reports: %w", err)
	}
	if base == "" {
		base = "http://" + listener.Addr().String()
	}
	b := &callbacks{url: strings.TrimSuffix(base, "/"), got: map[string][]arrived{}, asked: map[string]bool{}}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = b.server.Serve(listener) }()
	return b, nil
}

func (b *callbacks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return
	}
	var a arrived
	switch err := json.Unmarshal(body, &a); {
	case err != nil || r.Method != http.MethodPost:
		a.wrong = r.Method + " " + string(body)
	case a.Result == "heartbeat":
		_, _ = io.WriteString(w, `{"result":"heartbeat"}`)
		return
	case a.Result != "done" && a.Result != "refused" && a.Result != "not_applied" && a.Result != "unknown":
		a.wrong = string(body)
	}
	word := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	b.mu.Lock()
	defer b.mu.Unlock()
	if first := b.asked[word]; first {
		b.asked[word] = false
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.got[word] = append(b.got[word], a)
	if a.wrong != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	_, _ = fmt.Fprintf(w, `{"result":%q,"repeated":%t}`, a.Result, len(b.got[word]) > 1)
}

// of returns the first report to one of the words, and which it was.
func (b *callbacks) of(words ...string) (a arrived, word string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, word := range words {
		if len(b.got[word]) > 0 {
			return b.got[word][0], word
		}
	}
	return a, ""
}

// await waits for a report to one of the words.
func (b *callbacks) await(ctx context.Context, d time.Duration, words ...string) (a arrived, word string) {
	for end := time.Now().Add(d); ; {
		if a, word := b.of(words...); word != "" || time.Now().After(end) || !loop.Sleep(ctx, pause) {
			return a, word
		}
	}
}

// story is an examination of one thing about answers that come later.
type story struct {
	*play
	*callbacks
	found   []certify.Shown
	took    *time.Duration // until the first report of the examination
	untried string         // why it proves nothing
}

// reply makes call n of the story, and again while it is not answered with a result.
func (s *story) reply(ctx context.Context, n int) certify.Reply {
	s.send(ctx, n-1, 0)
	r := s.Seen[n-1].Replies[0]
	if r.Status == http.StatusAccepted { // a promise is no output
		delete(s.output, stepOf(s.Vector.Calls[n-1]))
	}
	return r
}

// breach records what call n shows.
func (s *story) breach(code string, n int, format string, args ...any) {
	b := certify.Breach{Code: code, Call: n, Seen: fmt.Sprintf("call %d ", n) + fmt.Sprintf(format, args...)}
	s.found = append(s.found, certify.Shown{Vector: s.Vector.Name, Breach: b, Curl: s.curl(n)})
}

// stories are played at a participant that answers later, in this order.
var stories = []struct {
	name  string
	calls []string // of the action, or "compensate"
	play  func(context.Context, *story)
}{
	{"later-and-finished", []string{"execute", "execute"}, finishedLater},
	{"later-and-repeated", []string{"execute", "execute", "execute"}, repeatedWhileLater},
	{"later-and-undone", []string{"execute", "compensate", "execute"}, undoneWhileLater},
}

// answersLater examines how the participant answers later. report gets what is found.
func (c *certifier) answersLater(ctx context.Context, report *certify.Report) ([]certify.Shown, error) {
	at, err := listen(ctx, c.CallbackListen, c.CallbackURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = at.server.Close() }()
	var shown []certify.Shown
	var took time.Duration
	for _, told := range stories {
		v := c.plain()
		v.Name = told.name
		first := v.Calls[0]
		v.Calls = nil
		attempts := map[string]int{}
		for n, action := range told.calls {
			call := first
			attempts[action]++
			call.Action, call.Attempt = action, attempts[action]
			call.Headers = map[string]string{"X-Saga-Callback": fmt.Sprintf("%s/%s-%d", at.url, told.name, n+1)}
			v.Calls = append(v.Calls, call)
		}
		s := &story{play: c.begin(v), callbacks: at, took: &took}
		for n := range s.Seen {
			s.Seen[n].Replies = make([]certify.Reply, 1)
		}
		told.play(ctx, s)
		shown = append(shown, s.found...)
		if s.untried != "" {
			report.Untried = append(report.Untried, certify.Untried{Vector: told.name, Reason: s.untried})
			continue
		}
		report.Played = append(report.Played, told.name)
	}
	return shown, ctx.Err()
}

// promised makes the first call, and reports whether it was answered later.
func (s *story) promised(ctx context.Context) bool {
	r := s.reply(ctx, 1)
	if r.Status != http.StatusAccepted {
		s.untried = fmt.Sprintf("a call with X-Saga-Callback is not answered later, with 202, but with %d %s", r.Status, r.Error)
	}
	return r.Status == http.StatusAccepted
}

// word is the end of the callback of call n.
func (s *story) word(n int) string { return fmt.Sprintf("%s-%d", s.Vector.Name, n) }

// outcome waits for the report of one of the calls; it is 0 if none came, or a wrong one.
func (s *story) outcome(ctx context.Context, last int, calls ...int) (a arrived, call int) {
	var words []string
	for _, n := range calls {
		words = append(words, s.word(n))
	}
	began := time.Now()
	a, word := s.await(ctx, s.LaterFor, words...)
	*s.took = max(*s.took, time.Since(began))
	switch {
	case word == "":
		s.breach("later_never_reported", last, "was answered later, and no report came within %s", s.LaterFor)
		return a, 0
	case a.wrong != "":
		s.breach("later_report_invalid", last, "was answered later, and the report was %.200q", a.wrong)
		return a, 0
	}
	for i, w := range words {
		if w == word {
			call = calls[i]
		}
	}
	return a, call
}

// final makes call n, which repeats what was reported.
func (s *story) final(ctx context.Context, n int, a arrived) {
	r := s.reply(ctx, n)
	refused := r.Status >= 400 && r.Status < 500
	switch {
	case a.Result == "not_applied", a.Result == "unknown": // it may begin again
	case r.Status == http.StatusAccepted:
		s.breach("later_repeat_not_final", n, "was answered later again, after %s was reported", a.Result)
	case (a.Result == "done") != (r.Status == http.StatusOK || r.Status == http.StatusNoContent),
		(a.Result == "refused") != refused:
		s.breach("later_answer_changed", n, "was answered %d, after %s was reported", r.Status, a.Result)
	case a.Result == "done" && !same(a.Output, []byte(r.Body)):
		s.breach("later_answer_changed", n, "was answered %.100s, after the output %.100s was reported", r.Body, a.Output)
	}
	s.counted(ctx, n, a)
}

// counted compares the number of effects with what was reported.
func (s *story) counted(ctx context.Context, n int, a arrived) {
	if s.counter() == "" || a.Result != "done" {
		return
	}
	switch effects, err := s.effectsOf(ctx, s.keyOf(s.Vector.Calls[0])); {
	case err != nil:
		s.untried = err.Error()
	case effects > 1:
		s.breach("later_done_again", n, "had %d effects under its key at the end; right is 1", effects)
	case effects == 0:
		s.breach("later_done_without_effect", n, "had no effect, although done was reported")
	}
}

// same reports whether two outputs are equal as JSON; no output is null.
func same(a, b []byte) bool {
	var one, other bytes.Buffer
	if len(a) == 0 {
		a = []byte("null")
	}
	if len(b) == 0 {
		b = []byte("null")
	}
	return json.Compact(&one, a) == nil && json.Compact(&other, b) == nil && one.String() == other.String()
}

// finishedLater: the report comes, also if the first one is not taken, and the repeat gets the same.
func finishedLater(ctx context.Context, s *story) {
	s.mark(s.word(1))
	if !s.promised(ctx) {
		return
	}
	if a, call := s.outcome(ctx, 1, 1); call > 0 {
		s.final(ctx, 2, a)
	}
}

// mark has the first report to a word not taken.
func (b *callbacks) mark(word string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[word] = true
}

// repeatedWhileLater: a repeat begins nothing, and the report goes to the newest callback.
func repeatedWhileLater(ctx context.Context, s *story) {
	if !s.promised(ctx) {
		return
	}
	r := s.reply(ctx, 2)
	if _, early := s.of(s.word(1)); early != "" {
		s.untried = "the work was done before the call could be repeated"
		return
	}
	if r.Status != http.StatusAccepted && r.Status != http.StatusOK && r.Status != http.StatusNoContent {
		s.breach("later_repeat_refused", 2, "was answered %d %s while the work went on; right is 202 again", r.Status, r.Error)
		return
	}
	if r.Status != http.StatusAccepted {
		s.untried = "the work was done before the call could be repeated"
		return
	}
	a, call := s.outcome(ctx, 2, 2, 1)
	if call == 1 {
		if _, newest := s.await(ctx, settle*pause, s.word(2)); newest == "" {
			s.breach("later_old_callback", 2, "was answered later again, and the report went to the callback of call 1")
		}
	}
	if call > 0 {
		s.final(ctx, 3, a)
	}
}

// undoneWhileLater: what is undone while the work goes on does not take effect afterwards.
func undoneWhileLater(ctx context.Context, s *story) {
	if !s.promised(ctx) {
		return
	}
	r := s.reply(ctx, 2)
	if r.Status == http.StatusAccepted {
		if a, call := s.outcome(ctx, 2, 2); call == 0 || a.Result != "done" {
			return
		}
	} else if r.Status/100 != 2 {
		s.breach("later_undo_refused", 2, "was answered %d %s while the work went on; right is 2xx", r.Status, r.Error)
		return
	}
	_, early := s.of(s.word(1)) // the work was quicker
	// By now it would have come, as the reports of the stories before did.
	quiet := min(s.LaterFor, 2**s.took+settle*pause)
	if a, late := s.await(ctx, quiet, s.word(1)); early == "" && late != "" && a.Result == "done" {
		s.breach("later_done_after_undo", 2, "was answered %d, and then the action was reported as done", r.Status)
		return
	}
	if s.counter() != "" {
		done, err := s.effectsOf(ctx, s.keyOf(s.Vector.Calls[0]))
		undone, err2 := s.effectsOf(ctx, s.keyOf(s.Vector.Calls[1]))
		switch {
		case err != nil || err2 != nil:
			s.untried = "the effects were not counted"
			return
		case done > undone:
			s.breach("later_done_after_undo", 2, "was answered %d, and an effect of the action remained", r.Status)
			return
		}
	}
	if r := s.reply(ctx, 3); r.Status/100 == 2 && early == "" {
		s.breach("late_do_accepted", 3, "was answered %d after its compensation; right is a refusal (409)", r.Status)
	}
}
