package certifier

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	library "github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/patience"
)

// work is a participant with the library, and its worker.
type work struct {
	t       *testing.T
	handler *library.Handler
	way     string // how it is wrong; "" is right

	mu      sync.Mutex
	effects map[string]int // guarded by mu
	ended   map[string]bool
	first   map[string]string
}

// ServeHTTP is the library, except where the participant is wrong.
func (p *work) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, callback := r.Header.Get("Idempotency-Key"), r.Header.Get("X-Saga-Callback")
	if r.Method == http.MethodGet {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = io.WriteString(w, `{"effects":`+string(rune('0'+p.effects[r.URL.Query().Get("key")]))+`}`)
		return
	}
	p.mu.Lock()
	before := p.first[key]
	if before == "" {
		p.first[key] = callback
	}
	ended, undo := p.ended[key], strings.HasSuffix(key, "compensate")
	p.mu.Unlock()
	switch {
	case p.way == "at once", p.way == "another answer" && ended:
		_, _ = io.WriteString(w, `{}`)
		return
	case p.way == "refuses repeats" && before != "", p.way == "refuses undo" && undo:
		w.WriteHeader(http.StatusConflict)
		return
	case p.way == "never final" && !undo:
		w.WriteHeader(http.StatusAccepted)
		if before == "" {
			p.soon(func() { p.post(callback, `{"result":"done","output":{"packed":true}}`) }, key)
		}
		return
	case p.way == "old callback" && before != "":
		r.Header.Set("X-Saga-Callback", before)
	case p.way == "forgets undo" && undo:
		_, _ = io.WriteString(w, `{}`)
		return
	}
	p.handler.ServeHTTP(w, r)
}

// soon does the work when a call after the first had time to come.
func (p *work) soon(do func(), key string) {
	time.AfterFunc(200*time.Millisecond, func() {
		p.mu.Lock()
		p.effects[key]++
		p.mu.Unlock()
		do()
	})
}

func (p *work) post(to, body string) {
	for range 3 {
		if res, err := http.Post(to, "application/json", strings.NewReader(body)); err == nil { //nolint:gosec // a test's
			_ = res.Body.Close()
			if res.StatusCode != http.StatusServiceUnavailable {
				return
			}
		}
	}
}

func (p *work) execute(_ context.Context, _ *sql.Tx, c *library.Call) (any, error) {
	if p.way == "never" {
		return library.Later, nil
	}
	if p.way == "no report" {
		callback := c.Callback
		c.AfterCommit(func() { time.AfterFunc(50*time.Millisecond, func() { p.post(callback, `{"result":"ok"}`) }) })
		return library.Later, nil
	}
	c.AfterCommit(func() {
		time.AfterFunc(200*time.Millisecond, func() {
			report, err := p.handler.Finish(context.Background(), nil, c.Key, map[string]bool{"packed": true}, nil)
			if err != nil {
				return // it was compensated
			}
			p.mu.Lock()
			p.ended[c.Key] = true
			switch p.way {
			case "twice":
				p.effects[c.Key] += 2
			case "no effect":
			default:
				p.effects[c.Key]++
			}
			p.mu.Unlock()
			_ = report.Send(context.Background())
		})
	})
	return library.Later, nil
}

func TestAnswersThatComeLater(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]string{
		"": "", "at once": "untried", "never": "later_never_reported", "no report": "later_report_invalid",
		"refuses repeats": "later_repeat_refused", "old callback": "later_old_callback", "twice": "later_done_again",
		"never final": "later_repeat_not_final", "refuses undo": "later_undo_refused",
		"forgets undo": "later_done_after_undo", "another answer": "later_answer_changed",
		"no effect": "later_done_without_effect",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := &work{t: t, way: way, effects: map[string]int{}, ended: map[string]bool{}, first: map[string]string{}}
			var err error
			p.handler, err = library.New(library.Config{
				Store: library.Memory(), Execute: p.execute, Compensate: func(
					_ context.Context, _ *sql.Tx, c *library.Call,
				) (any, error) {
					c.AfterCommit(func() { p.mu.Lock(); defer p.mu.Unlock(); p.effects[c.Key]++ })
					return nil, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			cfg := Config{URL: server.URL, Effects: server.URL, Later: true, LaterFor: patience.Limit}
			if way == "never" {
				cfg.LaterFor = 100 * time.Millisecond
			}
			report, err := Run(patience.Context(t), cfg)
			if want == "untried" {
				if err == nil || len(report.Untried) != len(stories) {
					t.Errorf("%v\n%s", err, report.Text())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(codes(report), " ")
			if (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("found %q; want %q\n%s", got, want, report.Text())
			}
			if want == "" && (!report.Certified || len(report.Played) != len(stories)) {
				t.Error(report.Text())
			}
			for _, f := range report.Findings {
				if f.Vector == "" || f.Seen == "" || len(f.Curl) == 0 || f.Why == "" {
					t.Errorf("the finding does not show what was found: %+v", f)
				}
			}
		})
	}
}
