package app_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// canary is in every string that the tenant of canaryNode sends, and nowhere else.
const canary = "zqcanary"

// canaryNode is a node with two tenants: the owner, who puts the canary into every text, and a
// stranger, whose responses must not contain it.
type canaryNode struct {
	*node
	t                     *testing.T
	root, owner, stranger string // credentials of administrators; root's is for all tenants
	tenant                string // the owner's
	dsn                   string
	db                    *sql.DB
	heard                 *syncBuffer
	participants          *httptest.Server
	ops                   map[string]apiOperation // by operationId
	said                  map[string]*written     // by operationId
	ids                   map[string]string       // path parameter → the owner's
	more                  map[string][]string     // path parameter → further values of the owner's
	hostile               *hostile                // nil: the owner says the canary and no more
	callbacks             chan string             // URLs of calls that are answered later
	echo                  http.HandlerFunc        // answers below /echo; nil: nothing does
}

func newCanaryNode(t *testing.T, h *hostile, change ...func(*canaryNode, *config.Config)) *canaryNode {
	t.Helper()
	dsn := testdb.DSN(t)
	a := &canaryNode{t: t, dsn: dsn, root: newToken(t), heard: &syncBuffer{}, ops: map[string]apiOperation{},
		said: map[string]*written{}, ids: map[string]string{}, more: map[string][]string{}, hostile: h,
		callbacks: make(chan string, 10),
		tenant:    uuid.NewString()}
	a.participants = httptest.NewServer(http.HandlerFunc(a.participate))
	t.Cleanup(a.participants.Close)
	a.node = start(t, dsn, "a", bootstrapped(a.root), quickRetries, func(c *config.Config) {
		c.Webhooks.MaxAttempts, c.DLQ.MaxRetries = 2, 5
		c.UI.Links = []string{"Traces=https://traces.example/{trace_id}", "Logs=https://logs.example/?q={correlation_id}"}
		for _, f := range change {
			f(a, c)
		}
	})
	var err error
	if a.db, err = sql.Open("postgres", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.db.Close() })
	key := func(name, tenant string) string {
		body := fmt.Sprintf(`{"name":%q,"role":"admin","tenant_id":%q}`, name, tenant)
		status, text := a.send(a.root, "POST", "/api/v1/api-keys", body)
		if status != 201 {
			t.Fatalf("key: %d %s", status, text)
		}
		return field(text, "key")
	}
	a.owner, a.stranger = key(canary, a.tenant), key("stranger", uuid.NewString())
	return a
}

// participate handles the calls of the owner's workflows, and the webhooks of both tenants.
func (a *canaryNode) participate(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	path := r.URL.Path
	switch {
	case a.echo != nil && strings.HasPrefix(path, "/echo"):
		r.Body = io.NopCloser(strings.NewReader(string(text)))
		a.echo(w, r)
	case strings.Contains(path, "heard"): // the stranger's webhook
		_, _ = fmt.Fprintln(a.heard, r.URL, r.Header, string(text))
	case strings.HasSuffix(path, "refuse"):
		say := func(name string) string { return encoded(a.hostile.text(name, canary)) }
		http.Error(w, `{"code":`+say("code")+`,"message":`+say("message")+`,"`+canary+`-why":`+say("why")+`}`,
			http.StatusConflict)
	case strings.HasSuffix(path, "promised"):
		a.callbacks <- r.Header.Get("X-Saga-Callback")
		w.WriteHeader(http.StatusAccepted)
	case strings.HasSuffix(path, "later"):
		http.Error(w, `{"error":`+encoded(a.hostile.text("error", canary))+`}`, http.StatusServiceUnavailable)
	default:
		w.Header().Set("X-"+canary, a.hostile.text("answer header", canary))
		_, _ = fmt.Fprintf(w, `{"%s-answer":%s}`, canary, encoded(a.hostile.text("answer", canary)))
	}
}

// send makes a request and returns the response with its headers.
func (a *canaryNode) send(credential, method, path, body string, header ...string) (int, string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", credential)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, string(text) + fmt.Sprint("\n", res.Header)
}

// field finds the first string member with a name, at any depth.
func field(text, name string) string {
	_, rest, _ := strings.Cut(text, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Invariant I14, traps T1 and X16: no byte of one tenant is in a response to another.
func TestNoContentOfATenantReachesAnother(t *testing.T) {
	t.Parallel()
	a := newCanaryNode(t, nil)
	stream := a.listen()
	a.quiet(a.send(a.stranger, "POST", "/api/v1/webhooks", `{"url":"`+a.participants.URL+`/heard","from":"beginning"}`))
	contract := contractOf(t, a.url)
	operations := a.learn(contract)
	a.writeAll()
	a.everyFieldIsWritten(contract)
	if status, text := a.send(a.owner, "GET", "/api/v1/sagas/"+a.ids["saga_id"], ""); status != 200 ||
		strings.Count(text, canary) < 8 {
		t.Fatalf("the owner itself sees %d %s", status, text) // otherwise the test would prove nothing
	}
	if _, text := a.send(a.root, "GET", "/api/v1/settings/history", ""); !strings.Contains(text, `"reason":"`+canary) {
		t.Errorf("whoever is of no tenant is not told why settings were changed: %s", text)
	}
	named := 0
	for i, op := range operations {
		if strings.HasSuffix(op.path, "/stream") { // liveStream covers it
			continue
		}
		if op.id == "reportStep" { // anyone who has the token may report: it is the credential, and names the tenant
			continue
		}
		for _, theirs := range a.paths(op.path) {
			named += a.probe(fmt.Sprintf("stranger-%d", i), op, theirs)
		}
	}
	if named < 150 {
		t.Errorf("only %d requests name something", named)
	}
	a.takesTheSameNames()
	a.searchesForCanary()
	stream.quiet()
	patience.Until(t, "the stranger's webhook hears of its sagas", func() bool { return strings.Contains(a.heard.String(), "saga.") })
	a.quiet(200, a.heard.String())
	for line := range strings.SplitSeq(a.logs.String(), "\n") {
		if strings.Contains(line, "stranger") {
			a.quiet(200, line)
		}
	}
	status, metrics := a.send("", "GET", "/metrics", "")
	a.quiet(status, metrics)
}

// learn returns the operations of the contract, and keeps those that change something.
func (a *canaryNode) learn(contract apiDoc) []apiOperation {
	a.t.Helper()
	operations := contract.operations()
	if len(operations) < 140 {
		a.t.Fatalf("only %d operations", len(operations))
	}
	for _, op := range operations {
		if op.method != "GET" {
			a.ops[op.id] = op
		}
	}
	return operations
}

// probe makes the stranger request something of the owner's, given by the parameters of the
// path, and the same for ids that do not exist: the responses must be identical. It returns how
// many of the two differ in the ids that they contain, 0 or 1.
func (a *canaryNode) probe(id string, op apiOperation, params map[string]string) int {
	a.t.Helper()
	theirs, nobodys, said := op.path, op.path, []string(nil)
	for p, of := range params {
		theirs = strings.ReplaceAll(theirs, "{"+p+"}", of)
		nobodys = strings.ReplaceAll(nobodys, "{"+p+"}", unknown(of))
		if strings.Contains(op.path, "{"+p+"}") { // what the stranger itself has sent may be returned
			said = append(said, of, "")
		}
	}
	if strings.Contains(theirs, "{") {
		a.t.Errorf("%s %s: a path parameter that this test does not know", op.method, op.path)
		return 0
	}
	status, text := a.send(a.stranger, op.method, theirs, encoded(op.body), "X-Request-Id", id)
	a.quiet(status, strings.NewReplacer(said...).Replace(text))
	if theirs == nobodys {
		return 0
	}
	none, same := a.send(a.stranger, op.method, nobodys, encoded(op.body), "X-Request-Id", id)
	if none != status || status >= 300 && a.plain(text, params) != a.plain(same, params) {
		a.t.Errorf(
			"%s %s: somebody's is\n%d %s\nand nobody's is\n%d %s",
			op.method,
			op.path,
			status,
			a.plain(text, params),
			none,
			a.plain(same, params),
		)
	}
	return 1
}

// paths returns the parameters for the owner's resources in a path: one set, and more where the
// owner has several kinds, such as an archived saga.
func (a *canaryNode) paths(path string) []map[string]string {
	all := []map[string]string{a.ids}
	for p, others := range a.more {
		if strings.Contains(path, "{"+p+"}") {
			for _, other := range others {
				these := maps.Clone(a.ids)
				these[p] = other
				all = append(all, these)
			}
		}
	}
	return all
}

// unknown returns an id or a name that does not exist, of the form of the given one.
func unknown(of string) string {
	if id, err := uuid.Parse(of); err == nil && len(of) == 36 {
		id[15] ^= 0x55
		id[14] ^= 0xaa
		return id.String()
	}
	if strings.HasPrefix(of, canary) {
		return "nobody" + strings.TrimPrefix(of, canary)
	}
	if len(of) > 20 { // a fingerprint
		return of[:len(of)-2] + map[bool]string{true: "00", false: "11"}[of[len(of)-2:] != "00"]
	}
	return of
}

// plain is a response without what must differ: requested ids, and times.
func (a *canaryNode) plain(text string, params map[string]string) string {
	var pairs []string
	longestFirst := func(x, y string) int { return len(y) - len(x) }
	for _, of := range slices.SortedFunc(maps.Values(params), longestFirst) {
		if u := unknown(of); u != of {
			pairs = append(pairs, of, "ID", u, "ID")
		}
	}
	body, _, _ := strings.Cut(strings.NewReplacer(pairs...).Replace(text), "\nmap[")
	return strings.NewReplacer(canary, "NAME", "nobody", "NAME").Replace(body)
}

// quiet fails if a response to the stranger contains the canary.
func (a *canaryNode) quiet(status int, text string) {
	a.t.Helper()
	at := findCanary(text)
	if at >= 0 || status >= 500 && !strings.Contains(text, "UNAVAILABLE") {
		a.t.Errorf("%d: …%s…", status, text[max(0, at-300):min(len(text), max(at, 0)+200)])
	}
}

// takesTheSameNames makes the stranger use the names that the owner has chosen, which must be
// free for it and remain separate.
func (a *canaryNode) takesTheSameNames() {
	mine := fmt.Sprintf(
		`{"name":"plain","steps":[{"name":"s","action":{"http":{"url":"%s/plain"}},"compensation":"none"}]}`,
		a.participants.URL,
	)
	if status, text := a.send(a.stranger, "POST", "/api/v1/workflows", mine); status != 201 {
		a.t.Fatalf("%d %s", status, text)
	}
	for _, id := range append([]string{a.ids["saga_id"]}, a.more["saga_id"][max(0, len(a.more["saga_id"])-4):]...) {
		status, text := a.send(a.stranger, "POST", "/api/v1/sagas", `{"saga_id":"`+id+`","workflow_name":"plain"}`)
		if status != 201 || field(text, "saga_id") != id {
			a.t.Errorf("the owner's id: %d %s", status, text)
		}
		patience.Until(a.t, "the stranger's saga is completed", func() bool {
			status, text = a.send(a.stranger, "GET", "/api/v1/sagas/"+id+"?include=running", "")
			return field(text, "status") == "COMPLETED"
		})
		own := strings.ReplaceAll(text, canary+"-answer", "") // the participant's answer, now the stranger's
		a.quiet(status, strings.ReplaceAll(own, canary, ""))
		if n := strings.Count(text, `"step_name"`); n != 1 {
			a.t.Errorf("the stranger's saga has %d step logs, want its own one", n)
		}
		for _, more := range []string{"/step-logs", "/steps", "/events", "/explain", "/result"} {
			status, text := a.send(a.stranger, "GET", "/api/v1/sagas/"+id+more, "")
			if status != 200 || strings.Contains(text, canary+"-one") || strings.Contains(text, canary+"-good") ||
				strings.Contains(text, canary+"-bad") {
				a.t.Errorf("%s: %d %s", more, status, text)
			}
		}
		if status, text := a.send(a.owner, "GET", "/api/v1/sagas/"+id, ""); status != 200 ||
			!strings.Contains(text, canary+"-") ||
			strings.Contains(text, `"plain"`) {
			a.t.Errorf("the owner's saga is now %d %s", status, text)
		}
	}
}

// searchesForCanary makes the stranger search for the owner's texts.
func (a *canaryNode) searchesForCanary() {
	for _, path := range []string{
		"/api/v1/sagas?view=full&correlation_id=", "/api/v1/sagas?business_key=", "/api/v1/sagas?workflow_name=", "/api/v1/saga-events?workflow_name=",
		"/api/v1/timeline?correlation_id=", "/api/v1/dlq/messages?view=full&topic=", "/api/v1/job-runs?label=" + canary + "%3D",
		"/api/v1/events?event_type=", "/api/v1/audit?subject=",
	} {
		status, text := a.send(a.stranger, "GET", path+canary, "")
		a.quiet(status, strings.ReplaceAll(text, path+canary, ""))
	}
}

// liveStream is the output of the stranger's live stream of events.
type liveStream struct {
	a    *canaryNode
	text *syncBuffer
	stop context.CancelFunc
	done chan struct{}
}

func (a *canaryNode) listen() *liveStream {
	ctx, cancel := context.WithCancel(a.t.Context())
	c := &liveStream{a, &syncBuffer{}, cancel, make(chan struct{})}
	req, err := http.NewRequestWithContext(ctx, "GET", a.url+"/api/v1/saga-events/stream", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", a.stranger)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 200 {
		a.t.Fatalf("stream: %v, %v", res, err)
	}
	go func() {
		defer close(c.done)
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			_, _ = c.text.Write(append(lines.Bytes(), '\n'))
		}
	}()
	return c
}

// quiet waits for the stranger's own sagas in the stream, and closes it.
func (c *liveStream) quiet() {
	patience.Until(c.a.t, "the stream has the stranger's saga", func() bool { return strings.Contains(c.text.String(), "saga.completed") })
	c.stop()
	<-c.done
	c.a.quiet(200, c.text.String())
}
