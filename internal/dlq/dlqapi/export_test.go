package dlqapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

const (
	export = "/api/v1/dlq/export"
	imprt  = "/api/v1/dlq/import"
)

// exported returns the lines with letters, and the last line.
func (q *queue) exported(query string, header ...string) (lines []string, end map[string]any) {
	q.T.Helper()
	r := q.Send("GET", export+query, "", header...)
	if r.Status != 200 || r.Header.Get("Content-Type") != "application/x-ndjson" {
		q.T.Fatalf("export: %d %s %s", r.Status, r.Header.Get("Content-Type"), r.Body)
	}
	lines = strings.Split(strings.TrimSuffix(string(r.Body), "\n"), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil || end["end"] == nil {
		q.T.Fatalf("the last line is %q: %v", lines[len(lines)-1], err)
	}
	return lines[:len(lines)-1], end
}

func (q *queue) imported(lines string, header ...string) client.DeadLetterImportResult {
	q.T.Helper()
	req, err := http.NewRequestWithContext(q.T.Context(), "POST", q.URL+imprt, strings.NewReader(lines))
	if err != nil {
		q.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	r := q.Do(req)
	if r.Status == 422 { // as curl -f treats it
		p := r.Wants(422, "DLQ_IMPORT_INCOMPLETE")
		if p.Import == nil || p.Import.Failed == 0 {
			q.T.Fatalf("import: %s", r.Body)
		}
		return *p.Import
	}
	if r.Status != 200 {
		q.T.Fatalf("import: %d %s", r.Status, r.Body)
	}
	var out client.DeadLetterImportResult
	r.Into(&out)
	if out.Failed > 0 {
		q.T.Fatalf("200 with %s", r.Body)
	}
	return out
}

func TestAnExportIsImportedElsewhereAndImportingItTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.target.answer(500)
	pending := q.push(q.toTarget(`"payload":{ "n" : 1.00 },"max_retries":9,"labels":["x"],"dedupe_key":"d","error_stack":"at x"`))
	q.Send("POST", at(pending)+"/retry", "").Wants(502, "DLQ_PROCESS_FAILED")
	q.Send("PATCH", at(pending), `{"note":"n","assignee":"ann"}`).Letter(200)
	binary := q.push(`{"original_topic":"orders","error_message":"boom","payload_base64":"AP8=","key_base64":"","headers":[{"name":"h","value_base64":"/w=="},{"name":"none"}],"max_retries":0}`)
	resolved := q.push(q.toTarget(""))
	q.Send("POST", at(resolved)+"/resolve", "").Letter(200)
	for range 12 { // more than an export reads at once
		q.push(q.toTarget(""))
	}
	lines, end := q.exported("")
	if len(lines) != 15 || end["end"] != true || end["exported"] != 15.0 {
		t.Fatalf("%d lines, end %v", len(lines), end)
	}
	all := strings.Join(lines, "\n") + "\n" + `{"end":true,"exported":15}` + "\n"
	if got := q.imported(all); got.Duplicates != 15 || got.Imported+got.Failed != 0 {
		t.Errorf("into itself: %+v", got)
	}
	other := newQueue(t)
	if got := other.imported(all); got.Imported != 15 || got.Duplicates+got.Failed != 0 {
		t.Errorf("elsewhere: %+v", got)
	}
	if got := other.imported(all); got.Duplicates != 15 || got.Imported != 0 {
		t.Errorf("elsewhere again: %+v", got)
	}
	for _, l := range []client.DeadLetter{pending, binary, resolved} {
		was, is := q.Send("GET", at(l)+"?include=raw", "").Letter(200),
			other.Send("GET", at(l)+"?include=raw", "").Letter(200)
		if diff := cmp.Diff(was, is, cmpopts.IgnoreFields(client.DeadLetter{}, "Version", "UpdatedAt", "Target", "LastError",
			"LastErrorAt")); diff != "" {
			t.Errorf("(-exported +imported):\n%s", diff)
		}
	}
	again, _ := other.exported("")
	for i := range lines {
		if diff := cmp.Diff(withoutCursor(t, lines[i]), withoutCursor(t, again[i])); diff != "" {
			t.Errorf("exported again (-first +second):\n%s", diff)
		}
	}
}

func withoutCursor(t *testing.T, line string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "cursor")
	return m
}

func TestAnInterruptedExportIsContinued(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for range 5 {
		q.push(q.toTarget(""))
	}
	q.push(`{"original_topic":"other","error_message":"boom"}`)
	all, _ := q.exported("?topic=orders")
	first, end := q.exported("?topic=orders&limit=2")
	if len(first) != 2 || end["end"] != false {
		t.Fatalf("%d lines, end %v", len(first), end)
	}
	rest, end := q.exported("?topic=orders&cursor=" + end["next_cursor"].(string))
	if end["end"] != true || !cmp.Equal(all, append(first, rest...)) {
		t.Errorf("cut at 2, the rest is %d lines, end %v", len(rest), end)
	}
	var third struct{ Cursor string }
	if err := json.Unmarshal([]byte(all[2]), &third); err != nil {
		t.Fatal(err)
	}
	if rest, _ := q.exported("?topic=orders&cursor=" + third.Cursor); !cmp.Equal(all[3:], rest) {
		t.Errorf("after the third line: %d lines", len(rest))
	}
	if lines, end := q.exported("?topic=nothing"); len(lines) != 0 || end["end"] != true {
		t.Errorf("nothing: %d lines, end %v", len(lines), end)
	}
	q.Send("GET", export+"?cursor="+third.Cursor, "").Wants(400, "REQ_INVALID_PARAMETER")
	q.Send("GET", export+"?limit=0", "").Wants(400, "REQ_INVALID_PARAMETER")
	if r := q.Send("HEAD", export, ""); r.Status != 200 || len(r.Body) > 0 {
		t.Errorf("HEAD: %d %s", r.Status, r.Body)
	}
}

func TestAnExportThatItsServerEndsHasACursorToContinueWith(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	q := newQueue(t, func(c *httpapi.Config) { c.Stopping = stopping })
	for range 12 {
		q.push(q.toTarget(""))
	}
	all, _ := q.exported("")
	close(stopping)
	first, end := q.exported("")
	if len(first) != 10 || end["end"] != false {
		t.Fatalf("%d lines, end %v", len(first), end)
	}
	rest, end := q.exported("?cursor=" + end["next_cursor"].(string))
	if end["end"] != true || !cmp.Equal(all, append(first, rest...)) {
		t.Errorf("%d lines more, end %v", len(rest), end)
	}
}

func TestALineThatCannotBeReadDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	id := func(n string) string {
		return `"id":"01234567-89ab-7def-8123-45678900000` + n + `","original_topic":"t","error_message":"e"`
	}
	out := q.imported(strings.Join([]string{
		`{` + id("1") + `}`, ``, `no JSON`, `{"original_topic":"t","error_message":"e"}`, `{` + id("2") + `,"colour":1}`, `{` + id("3") + `,"status":"OPEN"}`,
		`{` + id("4") + `,"status":"RETRYING","retry_count":3,"max_retries":3}`, `{` + id("5") + `,"status":"DEAD","resolution":"MANUAL"}`, `[]`, `{` + id("6") + `,"payload_base64":"?"}`,
		`{` + id("7") + `,"retry_count":"3"}`, `{` + id("8") + `,"target":{"kind":"moon"}}`, `{` + id("9") + `,"target":{"kind":"http","url":"http://169.254.1.1/"}}`,
		`{` + id("0") + `,"status":"RESOLVED"}`, `{` + id("a") + `,"created_at":"0001-01-01T00:00:00Z"}`, `{"id":"` + strings.Repeat("x", 10) + `"}`, `null`,
	}, "\r\n"))
	if out.Imported != 3 || out.Failed != 13 || len(out.Errors) != 13 || out.Errors[0].Line != 3 {
		t.Errorf("%+v", out)
	}
	for _, e := range out.Errors {
		if e.Problem.Code == "" || e.Problem.Detail == "" {
			t.Errorf("line %d: %+v", e.Line, e.Problem)
		}
		if strings.Contains(e.Problem.Detail, "json:") {
			t.Errorf("line %d: the words of the decoder: %s", e.Line, e.Problem.Detail)
		}
	}
	if f := out.Errors[2].Problem.Errors; len(f) != 1 || f[0].Pointer != "/colour" || f[0].Code != "unknown" {
		t.Errorf("an unknown member: %+v", f)
	}
	four := q.Send("GET", letters+"/01234567-89ab-7def-8123-456789000004", "").Letter(200)
	if four.Status != client.DeadLetterStatusPENDING || four.MaxRetries != 4 || four.LeaseUntil != nil {
		t.Errorf("one that was being retried: %+v", four)
	}
	if empty := q.imported("\n\n"); empty.Imported+empty.Failed+empty.Duplicates != 0 || empty.Errors == nil {
		t.Errorf("nothing: %+v", empty)
	}
	q.Send("POST", imprt, `{}`).Wants(415, "REQ_UNSUPPORTED_MEDIA_TYPE")
	long := q.imported("x\n{\"id\":\"" + strings.Repeat("x", 33<<20) + "\"}\n{" + id("b") + "}\n")
	if long.Imported != 1 || long.Failed != 2 || long.Errors[1].Line != 2 ||
		long.Errors[1].Problem.Code != "REQ_TOO_LARGE" {
		t.Errorf("a line that is too long: %+v", long)
	}
}

func TestAnIDOfAnotherTenantIsNotTaken(t *testing.T) {
	t.Parallel()
	q := newQueue(t, apitest.Guarded)
	l := q.push(q.toTarget(`"payload":"secret"`), apitest.As("admin")...)
	line := `{"id":"` + l.ID.String() + `","original_topic":"mine","error_message":"e"}`
	none := []client.DeadLetterImportDuplicate{}
	for n, want := range []client.DeadLetterImportResult{{Imported: 1, Known: none,
		Errors: []client.DeadLetterImportError{}}, {Duplicates: 1, Known: none, Errors: []client.DeadLetterImportError{}}} {
		if got := q.imported(line, apitest.As("foreign")...); !cmp.Equal(got, want) {
			t.Errorf("import %d: %+v", n+1, got)
		}
	}
	list := q.Send("GET", letters, "", apitest.As("foreign")...).Messages()
	if len(list.Messages) != 1 || list.Messages[0].ID == l.ID || list.Messages[0].OriginalTopic != "mine" ||
		list.Messages[0].RootID != list.Messages[0].ID {
		t.Errorf("%+v", list.Messages)
	}
	if kept, err := q.letters.Get(t.Context(), apitest.Tenant.ID, l.ID); err != nil || kept.OriginalTopic != "orders" ||
		kept.Status != dlq.Pending {
		t.Errorf("%+v %v", kept, err)
	}
}
