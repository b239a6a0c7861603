package letterpages_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

const hostile = `<script>alert(1)</script>`

// target is an HTTP service that stores the bodies it receives.
type target struct {
	URL    string
	mu     sync.Mutex
	status int
	bodies []string
	heads  []http.Header
}

func newTarget(t *testing.T) *target {
	s := &target{status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bodies, s.heads = append(s.bodies, string(body)), append(s.heads, r.Header)
		w.WriteHeader(s.status)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// answer sets the status of all further responses.
func (s *target) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

func (s *target) last() (string, http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) == 0 {
		return "", nil
	}
	return s.bodies[len(s.bodies)-1], s.heads[len(s.heads)-1]
}

// site is a server with pages, whose letters are retried only manually.
type site struct {
	*uitest.Server
	target *target
}

func start(t *testing.T) site {
	return site{uitest.Start(t), newTarget(t)}
}

// push stores a letter and returns its id.
func (s site) push(t *testing.T, letter map[string]any) string {
	t.Helper()
	for name, value := range map[string]any{
		"original_topic": "orders", "error_message": "refused " + hostile, "payload": map[string]any{"text": hostile},
		"target": map[string]any{"kind": "http", "url": s.target.URL},
	} {
		if _, given := letter[name]; !given && (name != "payload" || letter["payload_base64"] == nil) {
			letter[name] = value
		}
	}
	status, doc := s.Call(t, "POST", "/dlq/messages", letter)
	if status != http.StatusCreated {
		t.Fatalf("push: %d %v", status, doc)
	}
	return doc["id"].(string)
}

// page returns a page that must contain all of words, and must not contain text from clients as
// markup.
func (s site) page(t *testing.T, path string, words ...string) string {
	t.Helper()
	status, page := s.Get(t, path)
	if status != http.StatusOK || !strings.Contains(page, "</html>") {
		t.Errorf("%s: %d\n%s", path, status, page)
	}
	if strings.Contains(page, hostile) || strings.Contains(page, " style=") {
		t.Errorf("%s contains text of a client as markup, or an inline style", path)
	}
	for _, w := range words {
		if !strings.Contains(page, w) {
			t.Errorf("%s does not say %q:\n%s", path, w, page)
		}
	}
	return page
}

// act opens the form for an action, fills it in, and returns where it leads.
func (s site) act(t *testing.T, path string, fields ...string) string {
	t.Helper()
	form := uitest.Form(s.page(t, path))
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	form.Set("do", "act")
	status, page, to := s.Post(t, path, form)
	if status != http.StatusSeeOther {
		t.Fatalf("%s: %d\n%s", path, status, page)
	}
	return to
}

func TestGroupsAndLettersAreFoundAndAnswered(t *testing.T) {
	s := start(t)
	id := s.push(t, map[string]any{
		"key": hostile, "headers": []any{
			map[string]any{"name": "x-a", "value": hostile}, map[string]any{"name": "x-a", "value": "second"},
			map[string]any{"name": "raw", "value_base64": "AP8="},
		},
		"error_type": hostile, "error_stack": hostile, "labels": []any{hostile}, "consumer_group": hostile,
	})
	_, doc := s.Call(t, "GET", "/dlq/messages/"+id, nil)
	group := "/ui/dlq/groups/" + doc["fingerprint"].(string)
	letter := "/ui/dlq/letters/" + id

	s.page(t, "/ui/dlq", "1 group", "Acknowledge", group)
	edits := "/actions/edit\" title=\"Change what is sent"
	s.page(t, group, edits)
	s.page(t, "/ui/dlq?state=NEW&state=REGRESSED", "1 group")
	s.page(t, "/ui/dlq?state=RESOLVED", "No groups match")
	if to := s.act(t, group+"/acknowledge?from=list", "assignee", "ann"); to != "/ui/dlq" {
		t.Errorf("from the list, one goes to %s", to)
	}
	s.act(t, group+"/resolve", "note", hostile)
	s.page(t, group, "resolved", "ann", "The cause is fixed")
	s.push(t, map[string]any{"error_type": hostile, "error_stack": hostile, "consumer_group": hostile})
	if page := s.page(t, group, "regressed", "This error was resolved, but has come back"); strings.Contains(page, edits) {
		t.Error("one of several letters of a group is edited from its page")
	}

	s.page(t, "/ui/dlq/letters", "2 letters", letter)
	s.page(t, "/ui/dlq/letters?status=PENDING&error_contains=refused", "2 letters", "Error contains: <strong>refused</strong>",
		"filter.error_contains=refused")
	s.page(t, "/ui/dlq/letters?header=x-a%3Dsecond", "1 letter")
	s.page(t, "/ui/dlq/archive", "The archive is empty")
	if status, page := s.Get(t, "/ui/dlq/letters?no_such=1"); status != 400 || !strings.Contains(page, "no_such") {
		t.Errorf("an unknown filter: %d\n%s", status, page)
	}

	s.page(t, letter, "waits for an operator or a redrive", "second", "00 ff", "Stack trace", "Edit and retry")
	for _, query := range []string{
		"view=text", "view=hex", "tab=attempts", "tab=revisions", "tab=lineage", "tab=json",
	} {
		s.page(t, letter+"?"+query)
	}
	for _, none := range []string{letter + "?rev=7", "/ui/dlq/letters/none", group + "/none"} {
		if status, _ := s.Get(t, none); status != http.StatusNotFound {
			t.Errorf("%s: %d", none, status)
		}
	}
	s.act(t, letter+"/actions/update", "assignee", "bob", "labels", "a\nb")
	s.page(t, letter, "bob", "a, b")
	s.act(t, letter+"/actions/update", "assignee", "", "labels", "")
	if page := s.page(t, letter); strings.Contains(page, "bob") {
		t.Error("a field that was emptied keeps its value")
	}
	s.page(t, letter+"/actions/discard", "The status changes from <code>", "to <code>dead</code>.")
	s.act(t, letter+"/actions/discard", "reason", "test")
	s.page(t, letter, "discarded by an operator", "Requeue")
	s.act(t, letter+"/actions/requeue", "reason", "test", "reset_retry_count", "true")
	s.act(t, letter+"/actions/resolve", "reason", "by hand")
	s.page(t, letter, "was handled elsewhere")
	s.act(t, letter+"/actions/delete", "reason", "test", "confirm", id[len(id)-6:])
	if status, _ := s.Get(t, letter); status != http.StatusNotFound {
		t.Errorf("a deleted letter: %d", status)
	}
}

// TestWhatHelpsALetterStandsOut checks that the first button is the prominent one.
func TestWhatHelpsALetterStandsOut(t *testing.T) {
	s := start(t)
	const bad, good = "unlikely to succeed", "A retry may succeed"
	for _, tt := range []struct{ class, says, first string }{
		{"PERMANENT", bad, "Edit and retry"}, {"TRANSIENT", good, "Retry"},
	} {
		letter := "/ui/dlq/letters/" + s.push(t, map[string]any{"error_class": tt.class})
		is := s.page(t, letter, tt.says)
		_, text, found := strings.Cut(is, `class="button first"`)
		if _, text, _ = strings.Cut(text, ">"); !found || !strings.HasPrefix(text, tt.first+"…") {
			t.Errorf("the first action on a letter that is %s is not %q", tt.class, tt.first)
		}
		s.act(t, letter+"/actions/resolve", "reason", "by hand")
		if page := s.page(t, letter); strings.Contains(page, good) || strings.Contains(page, bad) {
			t.Errorf("a resolved letter says whether a retry would succeed")
		}
	}
}

// TestALetterIsEditedAndRetried covers journey 4: 64-bit numbers reach the target with all digits,
// and the original is kept.
func TestALetterIsEditedAndRetried(t *testing.T) {
	s := start(t)
	s.target.answer(http.StatusServiceUnavailable)
	id := s.push(t, map[string]any{
		"payload": map[string]any{"id": uint64(9007199254740993), "customer": "c-17", "text": hostile},
		"headers": []any{
			map[string]any{"name": "traceparent", "value": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			map[string]any{"name": "x-tenant", "value": "acme"},
			map[string]any{"name": "x-tag", "value": "red"}, map[string]any{"name": "x-tag", "value": "green"},
		},
	})
	letter := "/ui/dlq/letters/" + id
	if to := s.act(t, letter+"/actions/retry"); to != letter+"?accepted=failed" {
		t.Errorf("a retry that failed leads to %s", to)
	}
	s.page(t, letter+"?accepted=failed", "The retry failed", "answered 503")
	s.page(t, letter+"?tab=attempts", "it was definitely not accepted", "503")

	s.target.answer(http.StatusOK)
	edit := letter + "/actions/edit"
	opened := s.page(t, edit, "9007199254740993", "Leave out tracing: traceparent", "4 headers: change them, or add others")
	if strings.Contains(opened, "What it would do") || strings.Contains(opened, "You have not changed anything") {
		t.Errorf("a form in which nothing was changed yet has a preview:\n%s", opened)
	}
	form := uitest.Form(opened)
	form.Set("payload_json", `{"id": 9007199254740993, "customer": "c-17", "text": "`+hostile+`"}`)
	form.Set("reason", "wrong customer")
	form.Set("do", "act")
	if status, page, _ := s.Post(t, edit, form); status != 422 || !strings.Contains(page, "You have not changed anything yet") {
		t.Errorf("an edit that changes nothing: %d\n%s", status, page)
	}
	form.Set("payload_json", `{"id": 9007199254740993, "customer": `)
	form.Set("reason", "wrong customer")
	form.Set("do", "preview")
	// Above the form and next to the field.
	if _, page, _ := s.Post(t, edit, form); strings.Count(page, "This is not valid JSON") != 2 {
		t.Errorf("what is not JSON is accepted, or told more than twice:\n%s", page)
	}
	form.Set("payload_json", `{"id": 9007199254740995, "customer": "c-18", "text": "`+hostile+`"}`)
	form.Set("without_trace", "true")
	form.Set("h1_op", "set")
	form.Set("h1_name", "x-tenant")
	form.Set("h1_value", "acme-eu")
	form.Set("h3_op", "set") // of two headers of one name, each has a row
	form.Set("h3_value", "blue")
	_, page, _ := s.Post(t, edit, form)
	for _, w := range []string{"/customer", "9007199254740995", "is removed.", "payload_patch",
		"<code>customer</code>: <code>&#34;c-17&#34;</code> → <code>&#34;c-18&#34;</code>",
		"<code>id</code>: <code>9007199254740993</code> → <code>9007199254740995</code>"} {
		if !strings.Contains(page, w) {
			t.Errorf("the preview does not say %q:\n%s", w, page)
		}
	}
	form.Set("do", "act")
	if status, page, to := s.Post(t, edit, form); status != 303 || to != letter+"?accepted=retry" {
		t.Fatalf("the retry: %d %s\n%s", status, to, page)
	}
	body, heads := s.target.last()
	if !strings.Contains(body, "9007199254740995") || !strings.Contains(body, "c-18") ||
		heads.Get("X-Tenant") != "acme-eu" || !slices.Equal(heads.Values("X-Tag"), []string{"red", "blue"}) ||
		heads.Get("Traceparent") != "" {
		t.Errorf("the target got %s %v", body, heads)
	}
	sent := s.page(t, letter+"?accepted=retry", "The target answered <code>200</code> at <code>", "Nothing more needs to be done")
	if strings.Contains(sent, `class="button first"`) {
		t.Errorf("a letter that has arrived has an action that stands out:\n%s", sent)
	}
	if strings.Index(sent, "The target answered") > strings.Index(sent, "The error was") {
		t.Error("a letter that has arrived begins with its old error")
	}
	if strings.Contains(sent, `Lineage <span`) {
		t.Error("a letter that has not come back counts itself as its lineage")
	}
	if status, page := s.Get(t, edit); status != 409 || !strings.Contains(page, "The letter is resolved, so it cannot be retried") {
		t.Errorf("a letter that has arrived can be edited: %d\n%s", status, page)
	}
	s.page(t, letter+"?tab=lineage", "It has not come back as another letter")
	s.page(t, letter+"?tab=revisions", "wrong customer", "/customer", "without traceparent", "with x-tenant: acme-eu",
		"without x-tag: green", "with x-tag: blue")
	s.page(t, letter+"?rev=0", "9007199254740993")
	s.page(t, letter+"?rev=1", "9007199254740995")
	if _, original := s.Get(t, letter+"/content?rev=0"); !strings.Contains(original, "9007199254740993") ||
		!strings.Contains(original, hostile) {
		t.Errorf("the download is %s", original)
	}
}

func TestBytesAreShownAndKept(t *testing.T) {
	s := start(t)
	raw := append([]byte{0, 0, 0, 0, 42}, make([]byte, 70_000)...)
	id := s.push(t, map[string]any{"payload_base64": base64.StdEncoding.EncodeToString(raw), "key_base64": "//4="})
	letter := "/ui/dlq/letters/" + id
	s.page(t, letter, "schema id 42", "00 00 00 00 2a", "ff fe", "from=65536")
	s.page(t, letter+"?view=hex&from=65536", "00010000", "Earlier bytes")
	if _, got := s.Get(t, letter+"/content"); got != string(raw) {
		t.Errorf("the download has %d bytes, want %d", len(got), len(raw))
	}
}

func TestALetterOfASagaSaysWhatItsActionsMean(t *testing.T) {
	s := start(t)
	status, doc := s.Call(t, "POST", "/workflows", map[string]any{
		"name": "order", "compensation_retry": map[string]any{"max_attempts": 1}, "steps": []any{
			map[string]any{
				"name": "reserve", "action": map[string]any{"http": map[string]any{"url": s.Participant + "/ok"}},
				"compensation": map[string]any{"http": map[string]any{"url": s.Participant + "/503/undo"}},
			},
			map[string]any{
				"name": "charge", "action": map[string]any{"http": map[string]any{"url": s.Participant + "/409/charge"}},
				"compensation": "none",
			},
		},
	})
	if status != http.StatusCreated {
		t.Fatalf("workflow: %d %v", status, doc)
	}
	_, doc = s.Call(t, "POST", "/sagas", map[string]any{"workflow_name": "order", "payload": map[string]any{}})
	saga := doc["saga_id"].(string)
	patience.Until(t, "the compensation gives up", func() bool {
		_, doc = s.Call(t, "GET", "/sagas/"+saga, nil)
		return doc["dead_letter_id"] != nil
	})
	letter := "/ui/dlq/letters/" + doc["dead_letter_id"].(string)
	page := s.page(t, letter, "/ui/sagas/"+saga, "was compensated manually", "gave up",
		`aria-label="Steps of the saga"`, `aria-current="step"`)
	if strings.Contains(page, "Edit and retry") || strings.Contains(page, "Discard") {
		t.Error("it offers what a letter of a saga does not allow")
	}
	s.act(t, letter+"/actions/resolve", "reason", "released by hand")
	_, doc = s.Call(t, "GET", "/sagas/"+saga+"?wait=30s", nil)
	if doc["clean"] != true {
		t.Errorf("the saga did not go on: %v", doc)
	}
}
