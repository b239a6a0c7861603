package workflowpages_test

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

// silent is a participant that does not respond.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String() + "/"
}

// TestAWorkflowShowsWhetherItsParticipantsAreCertified checks a workflow before and after a
// certification, and the pages of certifications.
func TestAWorkflowShowsWhetherItsParticipantsAreCertified(t *testing.T) {
	s := uitest.Start(t)
	get := func(path string, texts ...string) string {
		t.Helper()
		status, page := s.Get(t, path)
		has(t, status, page, 200, texts...)
		return page
	}
	call := func(url string) map[string]any { return map[string]any{"http": map[string]any{"url": url}} }
	s.Must(t, "POST", "/workflows", map[string]any{"name": "order", "steps": []any{
		map[string]any{"name": "reserve", "action": call(s.Participant + "/ok/a"),
			"compensation": call(s.Participant + "/ok/b")},
		map[string]any{"name": "charge", "action": call(strings.ToUpper(s.Participant[:4]) + s.Participant[4:] + "/ok/c"),
			"compensation": "none"},
		map[string]any{"name": "mail", "action": call("http://Mail.example:80/send"), "compensation": "none"},
	}})
	host := strings.TrimPrefix(s.Participant, "http://")
	get("/ui/workflows/order", host, "mail.example", "reserve, charge", "never certified", "/docs/certification",
		"/ui/certify?"+url.Values{"url": {s.Participant + "/ok/a"}}.Encode())

	finding := map[string]any{
		"code": "done_again", "rule": "1", "title": "A repeated call is applied again.", "why": "It charges twice.",
		"vector": "repeat", "vectors": []string{"repeat", "race"}, "seen": "call 2 was answered 200 " + hostile,
		"curl": []string{"curl -sS '" + s.Participant + "'"},
	}
	report := func(findings ...any) map[string]any {
		return map[string]any{"report": map[string]any{
			"url": s.Participant + "/{step}", "version": "1.4.0", "certified": true, "played": []string{"repeat"},
			"effects_counted": true, "findings": append([]any{}, findings...),
			"warnings":  []any{map[string]any{"code": "gzip_asked_for", "text": "It fails."}},
			"not_tried": []any{map[string]any{"vector": "pairs", "reason": "it has one step", "inapplicable": true}},
		}}
	}
	broken := s.Must(t, "POST", "/participants/certifications", report(finding))["id"].(string)
	get("/ui/workflows/order", "breaches found", `<span class="bad">1</span>`, "1.4.0", "/ui/certifications/"+broken,
		"never certified")
	get("/ui/certifications/"+broken, "breaches found", "A repeated call is applied again.", "It charges twice.", "rule 1",
		"Also shown by race", "curl -sS &#39;"+s.Participant, "It fails.", "it has one step", "pairs", "reported", "1.4.0")
	for format, text := range map[string]string{"text": "BREACH done_again", "json": `"code": "done_again"`, "junit": "<testsuite "} {
		at := "/api/v1/participants/certifications/" + broken + "/report?format=" + format
		get("/ui/certifications/"+broken, `href="`+at+`"`, `download="certification-`+broken)
		if status, report := s.Get(t, at); status != 200 || !strings.Contains(report, text) {
			t.Errorf("%s: %d\n%s", at, status, report)
		}
	}
	right := s.Must(t, "POST", "/participants/certifications", report())["id"].(string)
	if page := get("/ui/workflows/order", "certified", "/ui/certifications/"+right); strings.Contains(page, broken) {
		t.Error("an older certification is shown")
	}
	later := report()
	later["report"].(map[string]any)["not_tried"] = []any{
		map[string]any{"vector": "restart", "reason": "it was not restarted", "inapplicable": false},
	}
	incomplete := s.Must(t, "POST", "/participants/certifications", later)["id"].(string)
	get("/ui/workflows/order", "certified", "/ui/certifications/"+right, "a later one is incomplete",
		"/ui/certifications/"+incomplete)
	get("/ui/certify?url=http%3A%2F%2Fa.example", `name="later" value="true">`)
	s.Must(t, "POST", "/workflows", map[string]any{"name": "slow", "steps": []any{map[string]any{
		"name": "pack", "action": call("http://packing.example/p"), "compensation": "none",
		"answer": map[string]any{"later": "status == 202"},
	}}})
	asked := "/ui/certify?" + url.Values{"url": {"http://packing.example/p"}, "later": {"true"}}.Encode()
	get("/ui/workflows/slow", strings.ReplaceAll(asked, "&", "&amp;"))
	get(asked, `name="later" value="true" checked>`)
	finding["rule"] = "later"
	ofLater := report(finding)
	ofLater["report"].(map[string]any)["later"] = true
	apart := s.Must(t, "POST", "/participants/certifications", ofLater)["id"].(string)
	get("/ui/workflows/order", "/ui/certifications/"+right, "answers later:", "/ui/certifications/"+apart)
	get("/ui/certifications/"+apart, "only how it", "answers later", "the rule about later answers of")
	s.Must(t, "PUT", "/participants/card", map[string]any{"base_url": s.Participant + "/ok"})
	named := map[string]any{"http": map[string]any{"participant": "card", "path": "/charges"}}
	s.Must(t, "POST", "/workflows", map[string]any{"name": "by-name", "steps": []any{
		map[string]any{"name": "charge", "action": named, "compensation": named},
	}})
	get("/ui/workflows/by-name", "<code>"+host+"</code>", "charge", "/ui/certifications/"+right)
	get("/ui/workflows/order?tab=definition", "YAML")

	// A running certification is canceled through its form.
	asked = "/ui/certify?" + url.Values{"url": {silent(t)}}.Encode()
	begun := uitest.Form(get(asked, "X-Saga-Certification"))
	begun.Set("reason", "is it right?")
	status, text, path := s.Post(t, asked, begun)
	if status != 303 || !strings.HasPrefix(path, "/ui/certifications/") {
		t.Fatalf("answered %d, %s:\n%s", status, path, text)
	}
	page := get(path, "vectors played", path+"/cancel")
	if strings.Contains(page, "/report") {
		t.Error("a report is offered before there is one")
	}
	_, form := s.Get(t, path+"/cancel")
	filled := uitest.Form(form)
	filled.Set("reason", "the wrong host")
	if status, answer, to := s.Post(t, path+"/cancel", filled); status != 303 || to != path {
		t.Errorf("answered %d, %s:\n%s\n%s", status, to, answer, page)
	}
	get(path, "canceled")
	get("/ui/audit", "certification")
	begun = uitest.Form(get(asked, "later answers"))
	begun.Set("reason", "does it report?")
	begun.Set("later", "true")
	begun.Set("later_ms", "5 s")
	if status, text, path := s.Post(t, asked, begun); !strings.HasPrefix(path, "/ui/certifications/") {
		t.Errorf("later answers are not examined: %d %s", status, text)
	} else {
		get(path, "only how it", "with reports within 5 s")
	}
	if status, _ := s.Get(t, "/ui/certifications/00000000-0000-4000-8000-000000000000"); status != 404 {
		t.Errorf("answered %d", status)
	}
}
