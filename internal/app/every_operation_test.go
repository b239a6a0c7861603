package app_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// walker calls operations of the contract and checks what each one records.
type walker struct {
	t      *testing.T
	url    string
	token  string
	db     *sql.DB
	ops    map[string]string // operationId → method and path
	called map[string]string // operationId → the request's id

	keyed    map[string]bool // operationId: takes an Idempotency-Key
	kept     map[string]bool // operationId: its response is stored with the key
	lossy    bool            // no response is stored: every server stops just before
	repeated map[string]int  // operationId → how often again() repeated it
}

func newWalker(t *testing.T, change ...func(*config.Config)) *walker {
	t.Helper()
	dsn := testdb.DSN(t)
	w := &walker{t: t, token: newToken(t), ops: map[string]string{}, called: map[string]string{},
		keyed: map[string]bool{}, kept: map[string]bool{}, repeated: map[string]int{}}
	w.url = start(t, dsn, "a", append([]func(*config.Config){bootstrapped(w.token)}, change...)...).url
	var err error
	if w.db, err = sql.Open("postgres", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close() })
	res, err := http.Get(w.url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var contract struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.NewDecoder(res.Body).Decode(&contract); err != nil {
		t.Fatal(err)
	}
	for path, methods := range contract.Paths {
		for method, text := range methods {
			var op struct {
				ID string `json:"operationId"`
			}
			if method != "parameters" && method != "get" && json.Unmarshal(text, &op) == nil {
				w.ops[op.ID] = strings.ToUpper(method) + " " + path
				w.keyed[op.ID], w.kept[op.ID] = takes(text, "IdempotencyKey"), takes(text, "/KeptIdempotencyKey")
			}
		}
	}
	if len(w.ops) < 85 {
		t.Fatalf("only %d operations in the contract", len(w.ops))
	}
	return w
}

// send makes one request and returns its status and response.
func (w *walker) send(id, method, path, body string) (int, map[string]any) {
	w.t.Helper()
	res, doc := w.request(id, method, path, body, "")
	return res.StatusCode, doc
}

// request is send with an Idempotency-Key; "" means none.
func (w *walker) request(id, method, path, body, key string) (*http.Response, map[string]any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	switch {
	case strings.HasSuffix(path, "/import"):
		req.Header.Set("Content-Type", "application/x-ndjson")
	case body != "":
		req.Header.Set("Content-Type", "application/json")
	}
	if method == "PUT" || method == "PATCH" {
		req.Header.Set("If-Match", "*")
	}
	req.Header.Set("X-Request-Id", id)
	req.Header.Set("X-API-Key", w.token)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	var doc map[string]any
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil && res.StatusCode != http.StatusNoContent {
		w.t.Fatalf("%s %s: %d, %v", method, path, res.StatusCode, err)
	}
	return res, doc
}

// do calls an operation, which must succeed, with values for the parameters of its path.
func (w *walker) do(op, body string, path ...string) answered {
	w.t.Helper()
	method, at, known := strings.Cut(w.ops[op], " ")
	if !known {
		w.t.Fatalf("the contract has no %s", op)
	}
	query := ""
	for _, p := range path {
		if strings.HasPrefix(p, "?") {
			query = p
			continue
		}
		before, rest, _ := strings.Cut(at, "{")
		_, after, _ := strings.Cut(rest, "}")
		at = before + p + after
	}
	id := op + "-" + uuid.NewString()
	key := ""
	if w.keyed[op] {
		key = "key-" + id
	}
	res, doc := w.request(id, method, at+query, body, key)
	switch {
	case res.StatusCode >= 300:
		w.t.Errorf("%s: %s %s: %d %v", op, method, at, res.StatusCode, doc)
	case key != "":
		w.again(op, method, at+query, body, key, res.StatusCode, doc)
	}
	w.called[op] = id
	return doc
}

// answered is the document of a response.
type answered map[string]any

// text returns a member, "-" when it is not a text: then the request that needs it fails, with
// its own message.
func (a answered) text(name string) string {
	s, ok := a[name].(string)
	if !ok {
		return "-"
	}
	return s
}

func (w *walker) get(path string) map[string]any {
	w.t.Helper()
	_, doc := w.send("look", "GET", path, "")
	return doc
}

func (w *walker) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query, args...); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}
