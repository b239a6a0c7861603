package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	xhtml "golang.org/x/net/html"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/test/patience"
)

// secretValues are the secrets of the participant of the test, by name. Nothing else has these texts.
var secretValues = map[string]string{
	"api_key": `sk-7f3a/"canary\x+9&é`,
	"token":   "tok_canary_4242424242",
	"login":   "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:pw-canary-993311")),
}

// secretLooks are how the values can look in a text: as they are, and as what JSON, HTML, URLs, base64, hex, and
// PostgreSQL, which shows bytes in hex, make of them.
func secretLooks() map[string]string {
	looks := map[string]string{
		"password of login": "pw-canary-993311", "password in hex": hex.EncodeToString([]byte("pw-canary-993311")),
	}
	for name, v := range secretValues {
		quoted, _ := json.Marshal(v)
		twice, _ := json.Marshal(string(quoted))
		for way, look := range map[string]string{
			"": v, "in JSON": string(quoted[1 : len(quoted)-1]), "in JSON in JSON": string(twice[3 : len(twice)-3]),
			"in HTML": html.EscapeString(v), "in a URL": url.QueryEscape(v), "in a path": url.PathEscape(v),
			"in base64": base64.RawStdEncoding.EncodeToString([]byte(v)), "in hex": hex.EncodeToString([]byte(v)),
			"its JSON in hex": hex.EncodeToString(quoted[1 : len(quoted)-1]),
		} {
			looks[name+" "+way] = look
		}
	}
	return looks
}

// echoing is a participant that returns the request that it received in every way, and keeps it for
// the test.
type echoing struct {
	mu   sync.Mutex
	seen []string // headers and bodies, by path
}

func (e *echoing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	all := fmt.Sprint(r.URL.Path, " ", r.Header.Get("X-Key"), " ", r.Header.Get("X-Token"), " ",
		r.Header.Get("Authorization"),
		" ", string(body))
	e.mu.Lock()
	e.seen = append(e.seen, all)
	e.mu.Unlock()
	headers := map[string]string{}
	for name := range r.Header {
		headers[name] = r.Header.Get(name)
	}
	inHTML := html.EscapeString(all)
	repeated := map[string]any{
		"headers": headers, "body": string(body), "hex": hex.EncodeToString([]byte(r.Header.Get("X-Key"))), "html": inHTML,
		"base64": base64.StdEncoding.EncodeToString([]byte(all)), "url": url.QueryEscape(all), "message": "I got " + all,
		"error": "bad key " + r.Header.Get("X-Key"), "code": r.Header.Get("X-Token"), "stack_trace": "at " + all,
		"cause":                 map[string]any{"message": "it was " + r.Header.Get("Authorization"), "code": r.Header.Get("X-Token")},
		r.Header.Get("X-Token"): 1,
		"password":              "pw-canary-993311",
		"json":                  json.RawMessage(`null`),
		"«secret:api_key»":      "written by the participant",
	}
	if json.Valid(body) {
		repeated["json"] = json.RawMessage(body)
	}
	answer, _ := json.Marshal(repeated)
	w.Header().Set("X-Echo", r.Header.Get("X-Token")+" "+url.QueryEscape(r.Header.Get("X-Key")))
	switch {
	case strings.HasSuffix(r.URL.Path, "/never"):
		<-r.Context().Done()
		return
	case strings.HasSuffix(r.URL.Path, "/refuse"):
		w.WriteHeader(http.StatusConflict)
	case strings.HasSuffix(r.URL.Path, "/fail"):
		w.WriteHeader(http.StatusInternalServerError)
	case strings.HasSuffix(r.URL.Path, "/text"):
		w.WriteHeader(http.StatusBadRequest)
		answer = []byte(all + inHTML)
	case strings.HasSuffix(r.URL.Path, "/cut"):
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer = answer[:len(answer)-20]
	case strings.HasSuffix(r.URL.Path, "/broken"): // a success that cannot be stored
		answer = append(answer, all...)
	}
	_, _ = w.Write(answer)
}

// Invariant I24: the secrets that a participant receives are in no row, log, event, metric,
// response or page, whatever the participant does with them.
func TestNoSecretIsStoredLoggedOrShown(t *testing.T) {
	t.Parallel()
	dir, e := t.TempDir(), &echoing{}
	a := newCanaryNode(t, nil, func(a *canaryNode, c *config.Config) {
		a.echo = e.ServeHTTP
		of := config.ParticipantBinding{
			Tenant: uuid.MustParse(a.tenant), Participant: "echo", BaseURL: a.participants.URL + "/echo",
		}
		for _, name := range []string{"api_key", "login", "token"} {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte(secretValues[name]+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			of.Secrets = append(of.Secrets, config.SecretSource{Name: name, File: file})
		}
		c.ParticipantSecrets = config.ParticipantSecrets{of}
	})
	operations := a.learn(contractOf(t, a.url))
	a.writeAll()
	a.does("createWebhook", `{"url":"@/heard","description":"#","from":"beginning"}`)
	sagas := a.writeSecrets()
	e.received(t)

	looks, read := secretLooks(), map[string]int{}
	check := func(kind, where, text string) {
		read[kind]++
		for look, value := range looks {
			if strings.Contains(text, value) {
				t.Errorf("%s %s has the secret %s", kind, where, look)
			}
		}
	}
	placeholder := expression.Placeholder("api_key")
	for _, id := range sagas {
		if text := a.looks("sagas/" + id + "/step-logs"); !strings.Contains(text, placeholder) {
			t.Errorf("the step log of saga %s has no placeholder: %s", id, text)
		}
	}
	for _, op := range operations {
		if op.method != "GET" || strings.HasSuffix(op.path, "/stream") {
			continue
		}
		for _, of := range a.paths(op.path) {
			path := op.path
			for p, id := range of {
				path = strings.ReplaceAll(path, "{"+p+"}", url.PathEscape(id))
			}
			_, text := a.send(a.owner, "GET", path, "")
			check("answer", path, text)
		}
	}
	for _, op := range []string{"retrySaga", "resumeCompensation", "compensateSaga", "completeStep", "updateSaga"} {
		for _, id := range sagas {
			path := strings.NewReplacer("{saga_id}", id, "{step}", "one").Replace(a.ops[op].path) + "?dry_run=true"
			_, text := a.send(a.owner, a.ops[op].method, path, `{"reason":"why"}`, "If-Match", "*")
			check("dry run", op, text)
		}
	}
	p := newCrawl(a, a.url, 12)
	for _, pattern := range patterns(t) {
		for _, path := range p.pathsOf(pattern) {
			p.look(path)
		}
	}
	p.readAll(func(string) string { return a.owner }, func(f *fetched) {
		check("page", f.path, f.text)
		if doc, err := xhtml.Parse(strings.NewReader(f.text)); err == nil {
			p.follow(f.path, doc)
		}
	})
	a.dump(func(table, row string) { check("row", table, row) })
	patience.Until(t, "the webhook has heard of the sagas", func() bool { return strings.Contains(a.heard.String(), sagas[len(sagas)-1]) })
	check("delivery", "", a.heard.String())
	_, metrics := a.send("", "GET", "/metrics", "")
	check("metric", "", metrics)
	if !strings.Contains(metrics, `skald_participant_secret_echoes_total{participant="echo"}`) {
		t.Error("no metric says that the participant repeats its secrets")
	}
	check("log", "", a.logs.String())
	for kind, least := range map[string]int{"answer": 100, "dry run": 20, "page": 150, "row": 1000} {
		if read[kind] < least {
			t.Errorf("only %d of kind %s were looked at", read[kind], kind)
		}
	}
}

// writeSecrets runs sagas whose calls have secrets, and returns their ids.
func (a *canaryNode) writeSecrets() (ids []string) {
	a.t.Helper()
	a.does("putParticipant", `{"base_url":"@/echo","headers":{"Authorization":"${secrets.login}"},"timeout_ms":300}`, "name:echo")
	a.keeps("participant", "echo")
	const (
		headers = `"headers":{"X-Key":"${secrets.api_key}","X-Token":"${secrets.token}"}`
		body    = `"body":{"key":"${secrets.api_key}","text":"key=${secrets.api_key}; «secret:token»","of":"${payload}"}`
		form    = `"form":{"key":"${secrets.api_key}","token":"t ${secrets.token}"}`
		once    = `"retry":{"max_attempts":1},"compensation_retry":{"max_attempts":1}`
	)
	run := func(name, state, steps string) {
		definition := `{"name":"` + name + `","steps":[` + steps + `]}`
		text := a.does("simulateWorkflow", `{"payload":{"n":1},"definition":`+definition+`}`)
		if !strings.Contains(text, expression.Placeholder("api_key")) {
			a.t.Errorf("the simulation of %s has no placeholder: %s", name, text)
		}
		a.does("registerWorkflow", definition)
		id := field(a.does("createSaga", `{"workflow_name":"`+name+`","payload":{"n":1}}`), "saga_id")
		patience.Until(a.t, "the saga "+name+" ends", func() bool {
			return strings.Contains(a.looks("sagas/"+id), `"state":"`+state+`"`)
		})
		a.keeps("saga_id", id)
		a.keeps("name", name)
		ids = append(ids, id)
	}
	step := func(name, action, undo string) string {
		if undo != `"none"` {
			undo = `{"http":{"participant":"echo","path":"/` + undo + `",` + headers + `,` + form + `}}`
		}
		return `{"name":"` + name + `","action":{"http":{` + action + `,` + headers + `,` + body + `}},"compensation":` + undo + `,` + once + `}`
	}
	named := func(path string) string { return `"participant":"echo","path":"/` + path + `"` }
	run("sec-ok", "completed", step("one", named("ok"), "ok")+`,{"name":"two","answer":{"output":"${body}","done":"headers['x-echo'] != ''"},
		"action":{"http":{"url":"@/echo/two",`+headers+`,"body":{"before":"${steps.one}"}}},"compensation":"none"}`)
	run("sec-refuse", "compensated", step("one", named("ok"), "ok")+`,`+step("two", named("refuse"), `"none"`))
	run("sec-fail", "failed", step("one", `"url":"@/echo/ok"`, "fail")+`,`+step("two", named("fail"), "fail"))
	run("sec-never", "failed", step("one", named("ok"), "refuse")+`,`+step("two", named("never"), "text"))
	run("sec-text", "compensated", step("one", named("ok"), "ok")+`,`+step("two", named("text"), `"none"`))
	run("sec-cut", "compensated", step("one", named("ok"), "ok")+`,`+step("two", named("cut"), `"none"`))
	run("sec-broken", "compensated", step("one", named("ok"), "ok")+`,`+step("two", named("broken"), "ok"))
	return ids
}

// received fails the test unless the participant has got what its calls name, as they name it.
func (e *echoing) received(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	key, _ := json.Marshal("key=" + secretValues["api_key"] + "; «secret:token»")
	all := strings.Join(e.seen, "\n")
	for what, part := range map[string]string{
		"headers": "/echo/ok " + secretValues["api_key"] + " " + secretValues["token"] + " " + secretValues["login"] + " ",
		"body":    strings.NewReplacer(`\u0026`, "&").Replace(string(key)),
		"form": "key=" + string(expression.PercentEncoded(nil, secretValues["api_key"])) +
			"&token=t%20" + secretValues["token"],
	} {
		if !strings.Contains(all, part) {
			t.Errorf("the participant got no %s with %s, but\n%s", what, part, all)
		}
	}
}

// dump calls row with every row of the database, as text.
func (a *canaryNode) dump(row func(table, text string)) {
	a.t.Helper()
	tables, err := a.db.QueryContext(a.t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		a.t.Fatal(err)
	}
	defer tables.Close()
	var names []string
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			a.t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := tables.Err(); err != nil || len(names) < 30 {
		a.t.Fatalf("%d tables, %v", len(names), err)
	}
	for _, name := range names {
		rows, err := a.db.QueryContext(a.t.Context(), "SELECT t::text FROM "+name+" t")
		if err != nil {
			a.t.Fatal(err)
		}
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				a.t.Fatal(err)
			}
			row(name, text)
		}
		if err := rows.Err(); err != nil {
			a.t.Fatal(err)
		}
		rows.Close()
	}
}
