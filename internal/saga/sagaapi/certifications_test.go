package sagaapi_test

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/certificationdb"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

const certificationsPath = "/api/v1/participants/certifications"

func TestCertificationsAreRequestedReportedAndCanceled(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	store := certificationdb.New(db)
	e := newBulkEdge(t, func(c *httpapi.Config) { c.Sagas.Certifications = store })

	const ask = `{"url":"http://127.0.0.1:9001/charges","compensation_url":"http://127.0.0.1:9001/charges/refund",
		"effects_url":"http://127.0.0.1:9001/effects","step":"charge","payload":{"amount":5},"race_seconds":10,"reason":"before the release"}`
	var c client.Certification
	r := e.Send("POST", "/api/v1/participants/certify", ask, "Idempotency-Key", "k")
	if r.Into(&c); r.Status != http.StatusAccepted || r.Header.Get("Location") != certificationsPath+"/"+c.ID.String() ||
		c.State != "PENDING" || c.Host != "127.0.0.1:9001" || len(c.AllowedActions) != 1 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	again := e.Send("POST", "/api/v1/participants/certify", ask, "Idempotency-Key", "k")
	if again.Status != http.StatusAccepted || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %d %s", again.Status, again.Body)
	}
	e.Send("POST", "/api/v1/participants/certify", `{"url":"http://127.0.0.1:9001/"}`, "Idempotency-Key", "k").
		Wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")

	at := certificationsPath + "/" + c.ID.String()
	var would client.Certification
	e.Send("POST", at+"/cancel?dry_run=true", `{"reason":"r"}`).Into(&would)
	if would.State != "CANCELED" || would.Changes == nil {
		t.Errorf("it would: %+v", would)
	}
	token, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := store.Take(t.Context(), token, time.Minute)
	if err != nil || taken == nil || string(taken.Payload) != `{"amount":5}` {
		t.Fatalf("%+v, %v", taken, err)
	}
	if second, err := store.Take(t.Context(), uuid.New(), time.Minute); err != nil || second != nil {
		t.Errorf("taken twice: %+v, %v", second, err)
	}
	taken.Played, taken.Planned = 3, 28
	if held, err := store.Hold(t.Context(), taken, token, time.Minute); err != nil || !held {
		t.Errorf("not held: %v", err)
	}
	if err := store.Return(t.Context(), taken, token); err != nil { // the node is stopping
		t.Fatal(err)
	}
	if held, err := store.Hold(t.Context(), taken, token, time.Minute); err != nil || held {
		t.Errorf("held although it was given back: %v", err)
	}
	if taken, err = store.Take(t.Context(), token, time.Minute); err != nil || taken.Attempt != 1 {
		t.Fatalf("%+v, %v", taken, err)
	}
	taken.Planned = 28
	report := certification.Report{
		URL: "http://127.0.0.1:9001/charges", Version: "1.4.0", Played: []string{"repeat"}, Effects: true,
		Findings: []certification.Finding{{
			Code: "done_again", Rule: "1", Title: "A repeated call is applied again.", Vector: "repeat",
			Why:  "Skald repeats a call if it did not get the response; a participant that applies it again charges twice.",
			Seen: "call 2 was done again", Curl: []string{"curl -sS -X POST 'http://127.0.0.1:9001/charges'"}, Vectors: []string{"repeat"},
		}},
		Warnings: []certification.Warning{{Code: "http_1_0", Text: "A call over HTTP/1.0 got 505; expected 2xx."}},
		Untried:  []certification.Untried{{Vector: "repeat-after-restart", Reason: "needs a restart of the participant"}},
	}
	if err := taken.Done(report, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := store.End(t.Context(), taken, uuid.New()); err != nil {
		t.Fatal(err)
	}
	if e.Send("GET", at, "").Into(&c); c.State != "RUNNING" {
		t.Errorf("ended by a node that does not hold it: %+v", c)
	}
	if err := store.End(t.Context(), taken, token); err != nil {
		t.Fatal(err)
	}
	c = client.Certification{}
	if e.Send("GET", at, "").Into(&c); c.State != "COMPLETED" || *c.Verdict != "BREACHES" || c.Findings != 1 ||
		c.Warnings != 1 || c.NotTried != 1 || c.Report == nil || c.Report.Findings[0].Seen != "call 2 was done again" ||
		*c.SkaldVersion != "1.4.0" {
		t.Errorf("%+v", c)
	}
	e.Send("POST", at+"/cancel", `{"reason":"too late"}`).Wants(http.StatusConflict, certification.CodeConflict)
	var same certification.Report
	if e.Send("GET", at+"/report", "").Into(&same); !reflect.DeepEqual(same, report) {
		t.Errorf("the report is %+v", same)
	}

	r = e.Send("POST", certificationsPath, `{"reason":"build 7","report":{"url":"http://127.0.0.1:9001/charges","version":"1.4.0",
		"certified":true,"played":["repeat"],"effects_counted":true,"findings":[],"warnings":[],
		"not_tried":[{"vector":"pairs","reason":"it has one step","inapplicable":true}]}}`)
	if r.Into(&c); r.Status != http.StatusCreated || *c.Verdict != "CERTIFIED" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	e.Send("POST", certificationsPath, `{"report":{"url":"charges.example","version":"1","certified":true,"played":[],"effects_counted":true,
		"findings":[],"warnings":[],"not_tried":[]}}`).Wants(http.StatusUnprocessableEntity, certification.CodeInvalid)
	e.Send("POST", certificationsPath, `{"report":{"url":"http://a.example","version":"1","certified":true,"played":[],
		"effects_counted":true,"findings":[{"code":"a","rule":"1","title":"a","why":"a","vector":"a","seen":"a","curl":5,"vectors":["a"]}],
		"warnings":[],"not_tried":[]}}`).Wants(http.StatusUnprocessableEntity, certification.CodeInvalid)

	canceled := e.Send("POST", "/api/v1/participants/certify", `{"url":"http://127.0.0.1:9001/"}`)
	canceled.Into(&would)
	e.Send("GET", certificationsPath+"/"+would.ID.String()+"/report", "").
		Wants(http.StatusConflict, certification.CodeNoReport)
	e.Send("POST", certificationsPath+"/"+would.ID.String()+"/cancel", `{"reason":"the wrong host"}`)
	if none, err := store.Take(t.Context(), token, time.Minute); err != nil || none != nil {
		t.Errorf("a canceled one is examined: %+v, %v", none, err)
	}
	var list client.CertificationList
	e.Send("GET", certificationsPath+"?page_size=2&page=1", "").Into(&list)
	if len(list.Certifications) != 2 || *list.Pagination.TotalCount != 3 ||
		list.Certifications[0].State != "CANCELED" || list.Certifications[1].Report != nil {
		t.Errorf("listed: %+v", list)
	}
	if e.Send("GET", certificationsPath+"?latest=true", "").Into(&list); len(list.Certifications) != 1 ||
		list.Certifications[0].ID != c.ID {
		t.Errorf("the newest of each host: %+v", list)
	}
	latest := func(want ...string) {
		t.Helper()
		var verdicts []string
		e.Send("GET", certificationsPath+"?latest=true", "").Into(&list)
		for _, c := range list.Certifications {
			verdicts = append(verdicts, string(*c.Verdict))
		}
		if !slices.Equal(verdicts, want) {
			t.Errorf("the newest of the host are %q, not %q", verdicts, want)
		}
	}
	reported := func(findings, untried string) {
		t.Helper()
		r := e.Send("POST", certificationsPath, `{"report":{"url":"http://127.0.0.1:9001/charges","version":"1.5.0","certified":false,
			"played":["repeat"],"effects_counted":true,"findings":[`+findings+`],"warnings":[],"not_tried":[`+untried+`]}}`)
		if r.Status != http.StatusCreated {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	const noRestart = `{"vector":"restart","reason":"it was not restarted","inapplicable":false}`
	reported("", noRestart)
	latest("INCOMPLETE", "CERTIFIED")
	reported("", noRestart)
	latest("INCOMPLETE", "CERTIFIED")
	reported(`{"code":"a","rule":"1","title":"a","why":"a","vector":"repeat","seen":"a","curl":["a"],"vectors":["repeat"]}`, "")
	latest("BREACHES")
	e.Send("GET", certificationsPath+"/"+uuid.NewString(), "").Wants(http.StatusNotFound, certification.CodeNotFound)
	e.Send("GET", certificationsPath+"/"+uuid.NewString()+"/report", "").
		Wants(http.StatusNotFound, certification.CodeNotFound)
}

// Reports of a participant under certification are stored for the node that runs the test, and
// answered like the reports of a step.
func TestReportsOfExaminedParticipants(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	store := certificationdb.New(db)
	callbacks := map[string]certification.Callback{}
	e := newBulkEdge(t, func(c *httpapi.Config) {
		c.Sagas.Certifications, c.Sagas.Callbacks.Inbox, c.Sagas.Callbacks.Served = store, store, true
		c.Sagas.Callbacks.Examined = func(token string) (certification.Callback, bool) {
			c, ok := callbacks[token]
			return c, ok
		}
	})
	var c client.Certification
	const asked = `{"url":"http://127.0.0.1:9001/","later":true,"later_ms":5000}`
	e.Send("POST", "/api/v1/participants/certify", asked).Reads(http.StatusAccepted, &c)
	if c.Later == nil || !*c.Later || c.LaterMS == nil || *c.LaterMS != 5000 {
		t.Errorf("%+v", c)
	}
	for body, pointer := range map[string]string{
		`{"url":"http://127.0.0.1:9001/","later_ms":5000}`:                      "/later_ms",
		`{"url":"http://127.0.0.1:9001/","later":true,"race_seconds":5}`:        "/race_seconds",
		`{"url":"http://127.0.0.1:9001/","later":false,"later_ms":100}`:         "/later_ms",
		`{"url":"ftp://127.0.0.1:9001/","later":true,"effects_url":"http://a"}`: "/url",
	} {
		p := e.Send("POST", "/api/v1/participants/certify", body).
			Wants(http.StatusUnprocessableEntity, certification.CodeInvalid)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	token := uuid.New()
	taken, err := store.Take(t.Context(), token, time.Minute)
	if err != nil || taken == nil || !taken.Later || taken.LaterMS != 5000 {
		t.Fatalf("%+v, %v", taken, err)
	}
	of := certification.Callback{Tenant: taken.TenantID, ID: taken.ID, Token: token}
	for _, name := range []string{"plain", "again", "undo", "other"} {
		of.Call, of.Again, of.Undo, of.Token = name, name == "again", name == "undo", token
		if name == "other" {
			of.Token = uuid.New()
		}
		callbacks[name] = of
	}
	send := func(token, body string) apitest.Reply { return e.Send("POST", "/api/v1/step-callbacks/"+token, body) }
	got := func(token, body string, want string) {
		t.Helper()
		if r := send(token, body); r.Status != http.StatusOK || strings.TrimSpace(string(r.Body)) != want {
			t.Errorf("%s: %d %s, want %s", token, r.Status, r.Body, want)
		}
	}
	got("plain", `{"result":"heartbeat","progress":{"percent":5}}`, `{"result":"heartbeat"}`)
	send("plain", `{"result":"maybe"}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	send("undo", `{"result":"done","output":5}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	got("plain", `{"result":"done","output":{"id":7}}`, `{"repeated":false,"result":"done"}`)
	got("plain", `{"result":"refused"}`, `{"repeated":true,"result":"done"}`)
	early := send("again", `{"result":"done"}`)
	if early.Wants(http.StatusServiceUnavailable, "SAGA_CALLBACK_EARLY"); early.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	got("again", `{"result":"refused"}`, `{"repeated":false,"result":"refused"}`)
	got("undo", `{"result":"done"}`, `{"repeated":false,"result":"done"}`)
	send("other", `{"result":"done"}`).Wants(http.StatusNotFound, "SAGA_CALLBACK_NOT_FOUND")
	send("other", `{"result":"heartbeat"}`).Wants(http.StatusNotFound, "SAGA_CALLBACK_NOT_FOUND")
	mail, err := store.Reports(t.Context(), taken, token)
	if err != nil || len(mail) != 3 || certification.ReadTold(mail["plain"].Report).Result != "done" ||
		string(certification.ReadTold(mail["plain"].Report).Output) != `{"id":7}` ||
		certification.ReadTold(mail["again"].Report).Result != "refused" {
		t.Errorf("%v, %v", mail, err)
	}
	if err := store.Return(t.Context(), taken, token); err != nil {
		t.Fatal(err)
	}
	send("plain", `{"result":"done"}`).Wants(http.StatusNotFound, "SAGA_CALLBACK_NOT_FOUND")
	if taken, err = store.Take(t.Context(), token, time.Minute); err != nil || taken == nil {
		t.Fatalf("%+v, %v", taken, err)
	}
	if mail, err := store.Reports(t.Context(), taken, token); err != nil || len(mail) > 0 {
		t.Errorf("a node begins with what another one was told: %v, %v", mail, err)
	}
	report := certification.Report{URL: "http://127.0.0.1:9001/", Later: true, Played: []string{"a"}, Effects: true}
	report.Finish()
	if err := taken.Done(report, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := store.End(t.Context(), taken, token); err != nil {
		t.Fatal(err)
	}
	send("plain", `{"result":"done"}`).Wants(http.StatusNotFound, "SAGA_CALLBACK_NOT_FOUND")

	// Findings about deferred answers say nothing about other answers.
	e.Send("POST", certificationsPath, `{"report":{"url":"http://127.0.0.1:9001/","version":"1","certified":false,"played":["a"],
		"effects_counted":true,"findings":[],"warnings":[],"not_tried":[]}}`)
	e.Send("POST", certificationsPath, `{"report":{"url":"http://127.0.0.1:9001/","version":"1","certified":false,"played":["a"],
		"effects_counted":false,"later":true,"findings":[],"warnings":[],"not_tried":[]}}`)
	var list client.CertificationList
	e.Send("GET", certificationsPath+"?latest=true", "").Into(&list)
	var kinds []string
	for _, c := range list.Certifications {
		kinds = append(kinds, string(*c.Verdict)+map[bool]string{true: " later"}[c.Later != nil])
	}
	if want := []string{"INCOMPLETE later", "CERTIFIED", "CERTIFIED later"}; !slices.Equal(kinds, want) {
		t.Errorf("the newest are %q, want %q", kinds, want)
	}
}

// The report is in the requested format, and shows the calls and answers only to users who may see
// contents.
func TestReportsOfCertificationsHaveThreeFormats(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	e := newBulkEdge(t, apitest.Guarded, func(c *httpapi.Config) { c.Sagas.Certifications = certificationdb.New(db) })
	r := e.Send("POST", certificationsPath, `{"report":{"url":"http://127.0.0.1:9001/","version":"1.4.0","certified":false,
		"played":["repeat"],"effects_counted":true,"findings":[{"code":"done_again","rule":"1","title":"It is done again.",
		"why":"It charges twice.","vector":"repeat","seen":"call 2 was answered 200 canary","curl":["curl -d canary","curl"],
		"vectors":["repeat"]}],"warnings":[],"not_tried":[]}}`, apitest.As("operator")...)
	if r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	at := r.Header.Get("Location") + "/report"
	for _, tt := range []struct{ query, accept, media, want string }{
		{"", "", "application/json", `"code": "done_again"`},
		{"", "application/json, text/plain, */*", "application/json", `"code": "done_again"`},
		{"", "image/png", "application/json", `"code": "done_again"`},
		{"", "text/plain", "text/plain", "BREACH done_again (rule 1)"},
		{"?format=text", "application/xml", "text/plain", "BREACH done_again (rule 1)"},
		{"", "application/xml", "application/xml", `<testsuite name="skald participant certify http://127.0.0.1:9001/"`},
		{"?format=junit", "", "application/xml", `<failure message="done_again: It is done again."`},
		{"?format=json", "text/plain", "application/json", `"code": "done_again"`},
	} {
		as := func(who string) []string { return append(apitest.As(who), "Accept", tt.accept) }
		open, veiled := e.Send("GET", at+tt.query, "", as("operator")...), e.Send("GET", at+tt.query, "", as("auditor")...)
		for _, r := range []apitest.Reply{open, veiled} {
			if media := r.Header.Get("Content-Type"); r.Status != http.StatusOK ||
				media != tt.media+"; charset=utf-8" || !strings.Contains(string(r.Body), tt.want) {
				t.Errorf("%s, Accept %s: %d %s\n%s", tt.query, tt.accept, r.Status, media, r.Body)
			}
		}
		if strings.Count(string(open.Body), "canary") != 2 || strings.Count(string(veiled.Body), "***") != 2 ||
			strings.Contains(string(veiled.Body), "canary") {
			t.Errorf("%s shows an operator\n%s\nand an auditor\n%s", tt.query, open.Body, veiled.Body)
		}
	}
	e.Send("GET", at+"?format=yaml", "", apitest.As("operator")...).Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
}
