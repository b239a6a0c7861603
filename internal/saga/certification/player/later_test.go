package player

import (
	"context"
	"database/sql"
	"errors"
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

// work is a participant that uses the library, together with its worker.
type work struct {
	t       *testing.T
	handler *library.Handler
	way     string        // how it breaks the rules; "" means it keeps them
	up      chan struct{} // closed after the restart
	over    chan struct{} // closed when the work in progress at the restart is done

	once sync.Once // closes over

	mu      sync.Mutex
	lives   int            // number of starts; guarded by mu
	effects map[string]int // guarded by mu
	ended   map[string]bool
	lost    map[string]bool // keys whose outcome it has forgotten
	first   map[string]string
}

// ServeHTTP calls the library, except where the participant breaks the rules.
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
	ended, lost, undo := p.ended[key], p.lost[key], strings.HasSuffix(key, "compensate")
	p.mu.Unlock()
	switch {
	case p.way == "at once", p.way == "another answer" && ended:
		_, _ = io.WriteString(w, `{}`)
		return
	case lost:
		w.WriteHeader(http.StatusAccepted)
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

// soon does the work after a call that follows the first has had time to arrive.
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
		if res, err := http.Post(to, "application/json", strings.NewReader(body)); err == nil { //nolint:gosec // test URL
			_ = res.Body.Close()
			if res.StatusCode != http.StatusServiceUnavailable {
				return
			}
		}
	}
}

// start makes the participant ready. What a correct participant stores is durable.
func (p *work) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	switch {
	case p.lives == 1:
	case p.way == "all in memory":
		p.ended, p.first = map[string]bool{}, map[string]string{}
	case p.way == "ends in memory":
		p.lost, p.ended = p.ended, map[string]bool{}
		return nil
	default:
		return nil
	}
	handler, err := library.New(library.Config{
		Store: library.Memory(), Execute: p.execute, Compensate: func(
			_ context.Context, _ *sql.Tx, c *library.Call,
		) (any, error) {
			c.AfterCommit(func() { p.mu.Lock(); defer p.mu.Unlock(); p.effects[c.Key]++ })
			return nil, nil
		},
	})
	p.handler = handler
	return err
}

// dead reports whether a process of the participant has ended, and with it everything it had in
// memory.
func (p *work) dead(life int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lives != life && (p.way == "all in memory" || p.way == "work in memory")
}

func (p *work) restart(context.Context) error {
	if p.way == "restart fails" {
		return errors.New("no such unit")
	}
	err := p.start()
	close(p.up)
	if p.way == "dies before the report" {
		<-p.over
	}
	return err
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
	p.mu.Lock()
	life := p.lives
	p.mu.Unlock()
	c.AfterCommit(func() {
		time.AfterFunc(200*time.Millisecond, func() {
			if strings.Contains(c.Callback, "/later-over-restart-") {
				<-p.up
				defer p.once.Do(func() { close(p.over) })
			}
			if p.dead(life) {
				return
			}
			p.end(c.Key)
		})
	})
	return library.Later, nil
}

// end completes the work of a call and reports it.
func (p *work) end(key string) {
	report, err := p.handler.Finish(context.Background(), nil, key, map[string]bool{"packed": true}, nil)
	if err != nil {
		return // the step was compensated
	}
	p.mu.Lock()
	p.ended[key] = true
	switch p.way {
	case "twice":
		p.effects[key] += 2
	case "no effect":
	default:
		p.effects[key]++
	}
	first, lives := p.first[key], p.lives
	p.mu.Unlock()
	switch {
	case p.way == "newest callback in memory" && lives > 1:
		p.post(first, `{"result":"done","output":{"packed":true}}`)
	case p.way == "dies before the report" && lives > 1:
	default:
		_ = report.Send(context.Background())
	}
}

func TestAnswersThatComeLater(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]string{
		"": "", "at once": "untried", "never": "later_never_reported", "no report": "later_report_invalid",
		"refuses repeats": "later_repeat_refused", "old callback": "later_old_callback", "twice": "later_done_again",
		"never final": "later_old_callback later_repeat_not_final later_done_after_undo", "refuses undo": "later_undo_refused",
		"forgets undo": "later_done_after_undo", "another answer": "later_answer_changed",
		"no effect":      "later_done_without_effect",
		"work in memory": "later_never_reported_after_restart", "all in memory": "later_never_reported_after_restart",
		"newest callback in memory": "later_old_callback", "restart fails": "untried",
		"ends in memory": "done_again_after_restart", "dies before the report": "",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := &work{t: t, way: way, up: make(chan struct{}), over: make(chan struct{}),
				effects: map[string]int{}, ended: map[string]bool{}, first: map[string]string{}}
			if err := p.start(); err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			cfg := Config{URL: server.URL, Effects: server.URL, Later: true, LaterFor: patience.Limit,
				Restart: p.restart}
			switch way {
			case "never":
				cfg.LaterFor = 100 * time.Millisecond
			case "work in memory", "all in memory", "dies before the report":
				cfg.forgets = 300 * time.Millisecond
			}
			report, err := Run(patience.Context(t), cfg)
			if want == "untried" {
				if err == nil || way == "at once" && len(report.Untried) != len(tales) {
					t.Errorf("%v\n%s", err, report.Text())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(codes(report), " "); got != want {
				t.Errorf("found %q; want %q\n%s", got, want, report.Text())
			}
			if want == "" && (!report.Certified || len(report.Played) != len(tales)) {
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
