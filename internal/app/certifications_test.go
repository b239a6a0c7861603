package app_test

import (
	"database/sql"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/stub"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// examined is a participant that follows the rules, except for a fault in all its calls.
func examined(t *testing.T, fault string, before func(*http.Request)) string {
	t.Helper()
	cfg := stub.Config{}
	if fault != "" {
		cfg.Rates = map[string]float64{fault: 1}
	}
	handler, err := stub.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before(r); r.Method == http.MethodPost && r.Header.Get("X-Saga-Certification") != "1" {
			t.Error("a call is not marked")
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// reportsAgree reads one report in its three formats: JUnit has the counts and the cases of the JSON, and the text is
// what the command line prints of it.
func reportsAgree(t *testing.T, at string) {
	t.Helper()
	read := func(format string) []byte {
		t.Helper()
		res, err := http.Get(at + "?format=" + format)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v\n%s", format, res.StatusCode, err, text)
		}
		return text
	}
	var report certification.Report
	if err := json.Unmarshal(read("json"), &report); err != nil || len(report.Findings) == 0 || len(report.Untried) == 0 {
		t.Fatalf("%v: %+v", err, report)
	}
	if text := string(read("text")); text != report.Text() {
		t.Errorf("the text is\n%s\nnot\n%s", text, report.Text())
	}
	type result struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var suite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Cases    []struct {
			Name    string   `xml:"name,attr"`
			Failure []result `xml:"failure"`
			Skipped []result `xml:"skipped"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(read("junit"), &suite); err != nil {
		t.Fatal(err)
	}
	shown, failed, skipped := map[string]certification.Finding{}, 0, 0
	for _, f := range report.Findings {
		for _, v := range f.Vectors {
			shown[v] = f
		}
	}
	for _, c := range suite.Cases {
		f, breach := shown[c.Name]
		skipped += len(c.Skipped)
		if failed += len(c.Failure); breach != (len(c.Failure) == 1) || len(c.Failure) > 1 || breach &&
			(!strings.HasPrefix(c.Failure[0].Message, f.Code+": ") || !strings.Contains(c.Failure[0].Text, f.Curl[0])) {
			t.Errorf("%s: %+v; found was %+v", c.Name, c.Failure, f)
		}
	}
	if suite.Tests != len(report.Played)+len(report.Untried) || suite.Tests != len(suite.Cases) ||
		suite.Failures != len(shown) || suite.Failures != failed || suite.Skipped != len(report.Untried) ||
		suite.Skipped != skipped {
		t.Errorf("JUnit has %d tests, %d failures, %d skipped; the report: %d played, %d shown, %d not tried", suite.Tests,
			suite.Failures, suite.Skipped, len(report.Played), len(shown), len(report.Untried))
	}
}

func TestTheServerExaminesParticipants(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	n := start(t, dsn, "a", func(c *config.Config) {
		c.Participants.SigningSecrets = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
		c.Egress.Deny = []string{"192.0.2.1"}
	})
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	at := n.url + "/api/v1/participants/"
	ended := func(id any) (doc map[string]any) {
		t.Helper()
		patience.Until(t, "the examination ends", func() bool {
			_, doc = call(t, "GET", at+"certifications/"+fmt.Sprint(id), "")
			return doc["ended_at"] != nil
		})
		return doc
	}
	asked := func(url, more string) any {
		t.Helper()
		status, doc := call(t, "POST", at+"certify", `{"url": "`+url+`", "effects_url": "`+url+`/effects"`+more+`}`)
		if status != http.StatusAccepted || doc["state"] != "PENDING" {
			t.Fatalf("%d %v", status, doc)
		}
		return doc["id"]
	}

	// What keeps the rules, and what does not.
	var signed, others atomic.Int64
	right := examined(t, "", func(r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("X-Saga-Signature") != "" {
			signed.Add(1)
		}
		if tenant := r.Header.Get("X-Saga-Tenant"); tenant == "00000000-0000-0000-0000-000000000001" {
			others.Add(1)
		}
	})
	first := asked(right, "")
	doc := ended(first)
	report, _ := doc["report"].(map[string]any)
	if doc["verdict"] != "INCOMPLETE" || doc["findings"] != 0.0 || doc["not_tried"] == 0.0 ||
		doc["played"] != float64(len(report["played"].([]any))) ||
		!strings.Contains(fmt.Sprint(report["not_tried"]), "restart") {
		t.Errorf("%v", doc)
	}
	if signed.Load() == 0 || others.Load() == 0 {
		t.Errorf("%d calls were signed, %d for the tenant", signed.Load(), others.Load())
	}
	broken := examined(t, "forget", func(*http.Request) {})
	second := asked(broken, `, "payload": {"amount": 7}`)
	if doc := ended(second); doc["verdict"] != "BREACHES" || !strings.Contains(fmt.Sprint(doc["report"]), "done_again") {
		t.Errorf("%v", doc)
	}
	reportsAgree(t, at+"certifications/"+fmt.Sprint(second)+"/report")

	// What cannot be reached, and what must not be.
	gone := httptest.NewServer(nil)
	gone.Close()
	if doc := ended(asked(gone.URL, "")); doc["state"] != "FAILED" || doc["error_message"] == nil || doc["report"] != nil {
		t.Errorf("%v", doc)
	}
	for _, url := range []string{"http://192.0.2.1/", "ftp://host.example/", "http://user:word@host.example/", "no url at all"} {
		if status, doc := call(t, "POST", at+"certify", `{"url": "`+url+`"}`); status != 422 || doc["code"] != "CERTIFICATION_INVALID" {
			t.Errorf("%s: %d %v", url, status, doc)
		}
	}

	// One at a time for each host; one that is canceled makes no more calls; one whose node has died begins again.
	arrived, answer := make(chan struct{}, 1000), make(chan struct{})
	slow := examined(t, "", func(*http.Request) { arrived <- struct{}{}; <-answer })
	holding := asked(slow, "")
	waiting := asked(slow, `, "step": "other"`)
	<-arrived
	if _, doc := call(t, "GET", at+"certifications/"+fmt.Sprint(waiting), ""); doc["state"] != "PENDING" {
		t.Errorf("two of one host: %v", doc)
	}
	status, doc := call(t, "POST", at+"certifications/"+fmt.Sprint(holding)+"/cancel", `{"reason": "wrong host"}`)
	if status != 200 || doc["state"] != "CANCELED" {
		t.Errorf("%d %v", status, doc)
	}
	if status, doc := call(t, "POST", at+"certifications/"+fmt.Sprint(holding)+"/cancel", ""); status != 409 {
		t.Errorf("%d %v", status, doc)
	}
	patience.Until(t, "the other one begins", func() bool {
		_, doc = call(t, "GET", at+"certifications/"+fmt.Sprint(waiting), "")
		return doc["state"] == "RUNNING"
	})
	if _, err := db.Exec(`UPDATE saga.certifications SET lease_until = now() - interval '1 s', token = $2 WHERE id = $1`,
		waiting, uuid.New()); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if doc := ended(waiting); doc["state"] != "COMPLETED" || doc["attempt"] != 2.0 {
		t.Errorf("after the death of its node: %v", doc)
	}

	// A report that was made elsewhere, and what is newest of each host.
	text := `{"reason": "build 7", "report": {"url": "` + right + `/x", "version": "1", "certified": false, "played": ["a"],
		"effects_counted": true, "findings": [], "warnings": [], "not_tried": []}}`
	status, doc = call(t, "POST", at+"certifications", text)
	if status != 201 || doc["verdict"] != "CERTIFIED" || doc["attempt"] != nil {
		t.Errorf("%d %v", status, doc)
	}
	_, latest := call(t, "GET", at+"certifications?latest=true&host="+strings.TrimPrefix(right, "http://"), "")
	if all, _ := latest["certifications"].([]any); len(all) != 1 || all[0].(map[string]any)["id"] != doc["id"] {
		t.Errorf("the newest of the host: %v", latest)
	}
	_, page := call(t, "GET", at+"certifications?state=COMPLETED&page_size=2", "")
	if all, _ := page["certifications"].([]any); len(all) != 2 || page["pagination"].(map[string]any)["has_next"] != true {
		t.Errorf("a page: %v", page)
	}
}

// A participant that answers later reports to a node that does not examine it.
func TestTheServerExaminesAnswersThatComeLater(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	entrance := start(t, dsn, "a", func(c *config.Config) { c.Roles = []string{config.RoleAPI} })
	start(t, dsn, "b", func(c *config.Config) {
		c.Roles, c.Server.PublicURL = []string{config.RoleEngine}, entrance.url
	})
	at := entrance.url + "/api/v1/participants/"
	examine := func(fault, more string) (doc map[string]any) {
		t.Helper()
		handler, err := stub.New(stub.Config{Rates: map[string]float64{fault: 1}, After: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		participant := httptest.NewServer(handler)
		t.Cleanup(participant.Close)
		status, doc := call(t, "POST", at+"certify", `{"url": "`+participant.URL+`", "effects_url": "`+participant.URL+`",
			"later": true`+more+`}`)
		if status != http.StatusAccepted || doc["later"] != true {
			t.Fatalf("%d %v", status, doc)
		}
		id := fmt.Sprint(doc["id"])
		patience.Until(t, "the examination ends", func() bool {
			_, doc = call(t, "GET", at+"certifications/"+id, "")
			return doc["ended_at"] != nil
		})
		return doc
	}
	doc := examine("later", `, "later_ms": 60000`)
	report, _ := doc["report"].(map[string]any)
	if doc["verdict"] != "INCOMPLETE" || doc["findings"] != 0.0 || doc["played"] != 3.0 || doc["not_tried"] != 2.0 ||
		doc["planned"] != 5.0 || report["later"] != true || !strings.Contains(fmt.Sprint(report["not_tried"]), "restart") {
		t.Errorf("%v", doc)
	}
	if doc := examine("later-late", `, "later_ms": 2000`); doc["verdict"] != "BREACHES" {
		t.Errorf("%v", doc)
	}
	doc = examine("ok", "")
	if doc["state"] != "FAILED" || !strings.Contains(fmt.Sprint(doc["error_message"]), "expected 202 (answered later)") {
		t.Errorf("%v", doc)
	}
}
