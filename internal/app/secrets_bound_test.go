package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
)

// bound is a node in memory that gives the secret key of a file to the participant card, and one of a file that is
// missing, under the base URL of a server that keeps what it gets.
type bound struct {
	*node
	t    *testing.T
	base string
	file string
	got  chan string
}

func newBound(t *testing.T) *bound {
	t.Helper()
	b := &bound{t: t, file: filepath.Join(t.TempDir(), "key"), got: make(chan string, 100)}
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.got <- r.Header.Get("X-Key") + string(body)
	}))
	t.Cleanup(service.Close)
	b.base = service.URL + "/card"
	b.write("value-one-1\n")
	_, b.node = inMemory(t, func(c *config.Config) {
		sources := []config.SecretSource{{Name: "gone", File: b.file + "-none"}, {Name: "key", File: b.file}}
		c.ParticipantSecrets = config.ParticipantSecrets{
			{Participant: "card", BaseURL: b.base, Secrets: sources},
			{Tenant: uuid.MustParse("0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"), Participant: "other", BaseURL: b.base, Secrets: sources},
		}
	})
	return b
}

func (b *bound) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.file+".new", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.file+".new", b.file); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bound) put(name, base, header string) (int, map[string]any) {
	b.t.Helper()
	return call(b.t, "PUT", b.url+"/api/v1/participants/"+name,
		`{"base_url": "`+base+`", "headers": {"X-Key": "`+header+`"}}`)
}

// text reads a page.
func (b *bound) text(path string) string {
	b.t.Helper()
	res, err := http.Get(b.url + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// A secret is refused where a workflow or a participant may not use it. The error names the place
// and says what to write instead.
func TestASecretGoesToItsParticipantOnly(t *testing.T) {
	t.Parallel()
	b := newBound(t)
	refused := func(status int, doc map[string]any, code, pointer, sentence string) {
		t.Helper()
		errors, _ := doc["errors"].([]any)
		if status != 422 || doc["code"] != code || len(errors) == 0 {
			t.Fatalf("%d %v; want %s at %s", status, doc, code, pointer)
		}
		first := errors[0].(map[string]any)
		if first["pointer"] != pointer || first["code"] != code || !strings.Contains(first["message"].(string), sentence) {
			t.Errorf("%v; want %s at %s: %s", first, code, pointer, sentence)
		}
	}
	const notForIt = "SAGA_PARTICIPANT_SECRET_NOT_ALLOWED"
	elsewhere := strings.Replace(b.base, "/card", "/elsewhere", 1)
	for _, p := range [][3]string{
		{"shop", elsewhere, "no secret is bound to participant \"shop\""}, {"card", elsewhere, "are only for " + b.base + " and below"},
		{"other", elsewhere, "no secret is bound"}, // it is of another tenant
	} {
		status, doc := b.put(p[0], p[1], "${secrets.key}")
		refused(status, doc, notForIt, "/headers/X-Key", p[2])
	}
	status, doc := b.put("card", b.base, "${secrets.pin}")
	refused(status, doc, notForIt, "/headers/X-Key", "(bound: gone, key): use one of these")
	if status, doc := b.put("card", b.base+"/v1", "k ${secrets.key}"); status != 200 {
		t.Fatalf("%d %v", status, doc)
	}
	if status, doc := b.put("shop", elsewhere, "1"); status != 200 {
		t.Fatalf("%d %v", status, doc)
	}
	step := func(http string) string {
		return `{"steps": [{"name": "b", "depends_on": ["a"], "action": {"http": ` + http + `}, "compensation": "none"},
			{"name": "a", "action": {"http": {"participant": "card"}}, "compensation": "none"}]}`
	}
	const header = `"headers": {"X-K": "${secrets.key}"}`
	for _, w := range [][3]string{
		{`{"participant": "shop", ` + header + `}`, "headers/X-K", "no secret is bound"},
		{`{"participant": "card", "body": {"k": ["${secrets.pin}"]}}`, "body/k/0", "use one of these"},
		{`{"url": "` + elsewhere + `/x", ` + header + `}`, "headers/X-K", "no secret is bound to participant \"shop\""},
		{`{"url": "` + strings.Replace(b.base, "/card", "/nowhere", 1) + `/x", "form": {"k": "${secrets.key}"}}`, "form/k", "PUT /participants/NAME"},
	} {
		status, doc := call(t, "POST", b.url+"/api/v1/sagas", step(w[0]))
		refused(status, doc, "WORKFLOW_SECRET_NOT_ALLOWED", "/steps/0/action/http/"+w[1], w[2])
	}
	for _, good := range []string{`{"participant": "card", ` + header + `}`, `{"url": "` + b.base + `/v1/x", ` + header + `}`} {
		if status, doc := call(t, "POST", b.url+"/api/v1/sagas", step(good)); status != 201 {
			t.Errorf("%s: %d %v", good, status, doc)
		}
	}
}

func TestASecretIsReadAgainAndItsPageSaysSo(t *testing.T) {
	t.Parallel()
	b := newBound(t)
	if status, doc := b.put("card", b.base, "k ${secrets.key}"); status != 200 {
		t.Fatalf("%d %v", status, doc)
	}
	run := func(secret string) map[string]any {
		_, doc := call(t, "POST", b.url+"/api/v1/sagas?wait=4m", `{"steps": [{"name": "a", "compensation": "none",
			"retry": {"max_attempts": 2, "initial_interval_ms": 1}, "action": {"http": {"participant": "card", "body": "${secrets.`+secret+`}"}}}]}`)
		return doc
	}
	if doc := run("key"); doc["state"] != "completed" {
		t.Fatal(doc)
	}
	if got := <-b.got; got != `k value-one-1"value-one-1"` {
		t.Errorf("the participant got %s", got)
	}
	b.write("value-two-2")
	patience.Until(t, "the new value is used", func() bool {
		run("key")
		return <-b.got == `k value-two-2"value-two-2"`
	})
	doc := run("gone")
	failure, _ := doc["error"].(map[string]any)
	if doc["state"] != "compensated" || failure["code"] != "secret_unavailable" || len(b.got) > 0 ||
		!strings.Contains(failure["message"].(string), `nothing was sent: secret "gone" of participant "card" cannot be read: no such file`) {
		t.Errorf("without its secret: %v, %d calls", doc, len(b.got))
	}
	_, doc = call(t, "GET", b.url+"/api/v1/participants/card", "")
	all, _ := doc["secrets"].([]any)
	if len(all) != 2 || doc["headers"].(map[string]any)["X-Key"] != "k ${secrets.key}" {
		t.Fatalf("the participant: %v", doc)
	}
	gone, key := all[0].(map[string]any), all[1].(map[string]any)
	if gone["readable"] != false || gone["read_at"] != nil || gone["why"] != "cannot be read: no such file or directory" ||
		key["readable"] != true || key["read_at"] == nil || key["source"] != "file" {
		t.Errorf("secrets: %v", all)
	}
	page, metrics := b.text("/ui/participants/card"), b.text("/metrics")
	for _, want := range []string{"<code>key</code>", "<code>gone</code>", "cannot be read: no such file or directory", "readable"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page+metrics+b.logs.String(), b.file) || !strings.Contains(metrics, "skald_participant_secrets_unreadable 2") ||
		!strings.Contains(metrics, `skald_participant_secret_read_failures_total{participant="card"} `) {
		t.Error("a page, the metrics or the log name a file, or no metric says that secrets cannot be read")
	}
}
