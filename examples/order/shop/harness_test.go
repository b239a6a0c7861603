package shop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// counter is a Shop served on a real listener.
type counter struct {
	*Shop
	url  string
	path string
}

// open serves a shop whose ledger is at cfg.Ledger, or in a new directory. edit changes the shop
// before it starts serving.
func open(t *testing.T, cfg Config, edit ...func(*Shop)) counter {
	t.Helper()
	if cfg.Ledger == "" {
		cfg.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	for _, f := range edit {
		f(s)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		_ = s.book.Close() // a test may already have closed the shop
	})
	return counter{s, server.URL, cfg.Ledger}
}

// entries reads the ledger file, not what is in memory.
func (c counter) entries(t *testing.T) []ledger.Entry {
	t.Helper()
	got, err := ledger.Read(c.path)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// request is a call as an orchestrator sends it. do and undo fill in its zero fields.
type request struct {
	path, saga, step, action, key, payload string
	attempt                                int
	header                                 http.Header // set last; empty values delete the header
}

func do(path, step, payload string) request {
	return request{path: path, saga: "s1", step: step, action: "execute", payload: payload, attempt: 1}
}

func undo(path, step, payload string) request {
	return request{path: path, saga: "s1", step: step, action: "compensate", payload: payload, attempt: 1}
}

func (r request) again() request { r.attempt++; return r }

// build returns the request without GetBody. Otherwise net/http would repeat it when a kept-alive
// connection is closed, because it has an Idempotency-Key.
func (r request) build(t *testing.T, base string) *http.Request {
	t.Helper()
	body := fmt.Sprintf(`{"saga_id":%q,"workflow_name":"order","step":%q,"action":%q,"payload":%s}`,
		r.saga, r.step, r.action, r.payload)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+r.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = nil
	if r.key == "" {
		r.key = r.saga + "/" + r.step + "/" + r.action
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", r.key)
	req.Header.Set("X-Saga-Id", r.saga)
	req.Header.Set("X-Saga-Step", r.step)
	req.Header.Set("X-Saga-Action", r.action)
	req.Header.Set("X-Saga-Attempt", fmt.Sprint(r.attempt))
	req.Header.Set("X-Saga-Fence", "1")
	for name, values := range r.header {
		req.Header.Set(name, values[0])
		if values[0] == "" {
			req.Header.Del(name)
		}
	}
	return req
}

// reply is the response; status 0 means that there was none.
type reply struct {
	status int
	body   string
	header http.Header
	code   string
}

func (c counter) send(t *testing.T, r request) reply {
	t.Helper()
	res, err := http.DefaultClient.Do(r.build(t, c.url))
	if err != nil {
		return reply{}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	got := reply{status: res.StatusCode, body: string(body), header: res.Header}
	var p struct{ Code string }
	if json.Unmarshal(body, &p) == nil {
		got.code = p.Code
	}
	return got
}

// expect sends r and checks the status, the error code and the effect in the ledger.
func (c counter) expect(t *testing.T, r request, status int, code string, effect ledger.Effect) reply {
	t.Helper()
	got := c.send(t, r)
	if got.status != status || got.code != code {
		t.Errorf("%s %s: answered %d %s; want %d %q", r.action, r.step, got.status, got.body, status, code)
	}
	if got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s: content type %q", r.action, r.step, got.header.Get("Content-Type"))
	}
	all := c.entries(t)
	if len(all) == 0 {
		t.Fatalf("%s %s: answered, but not in the ledger", r.action, r.step)
	}
	step := r.build(t, c.url).Header.Get("X-Saga-Step")
	if last := all[len(all)-1]; last.Effect != effect || last.Status != status || last.Step != step {
		t.Errorf("%s %s: ledger says %s %d of %q; want %s %d", r.action, r.step,
			last.Effect, last.Status, last.Step, effect, status)
	}
	return got
}
