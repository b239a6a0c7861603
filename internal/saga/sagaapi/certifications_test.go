package sagaapi_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/certify"
	"github.com/skald-saga/skald/internal/saga/certifydb"
	"github.com/skald-saga/skald/internal/test/testdb"
)

const certificationsPath = "/api/v1/participants/certifications"

func TestCertificationsAreRequestedReportedAndCanceled(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t), CountFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	store := certifydb.New(db)
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
	if err := store.Return(t.Context(), taken, token); err != nil { // the node stops
		t.Fatal(err)
	}
	if held, err := store.Hold(t.Context(), taken, token, time.Minute); err != nil || held {
		t.Errorf("held although it was given back: %v", err)
	}
	if taken, err = store.Take(t.Context(), token, time.Minute); err != nil || taken.Attempt != 1 {
		t.Fatalf("%+v, %v", taken, err)
	}
	taken.Planned = 28
	report := certify.Report{
		URL: "http://127.0.0.1:9001/charges", Version: "1.4.0", Played: []string{"repeat"}, Effects: true,
		Findings: []certify.Finding{{
			Code: "done_again", Rule: "1", Title: "A repeated call is done again.", Vector: "repeat",
			Why:  "Skald repeats a call whose answer it did not get; a participant that does it again charges twice.",
			Seen: "call 2 was done again", Curl: []string{"curl -sS -X POST 'http://127.0.0.1:9001/charges'"}, Vectors: []string{"repeat"},
		}},
		Warnings: []certify.Warning{{Code: "http_1_0", Text: "A call by HTTP/1.0 was answered 505; right is 2xx."}},
		Untried:  []certify.Untried{{Vector: "repeat-after-restart", Reason: "needs a restart of the participant"}},
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
	e.Send("POST", at+"/cancel", `{"reason":"too late"}`).Wants(http.StatusConflict, certify.CodeConflict)

	r = e.Send("POST", certificationsPath, `{"reason":"build 7","report":{"url":"http://127.0.0.1:9001/charges","version":"1.4.0",
		"certified":true,"played":["repeat"],"effects_counted":true,"findings":[],"warnings":[],
		"not_tried":[{"vector":"pairs","reason":"it has one step","inapplicable":true}]}}`)
	if r.Into(&c); r.Status != http.StatusCreated || *c.Verdict != "CERTIFIED" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	e.Send("POST", certificationsPath, `{"report":{"url":"charges.example","version":"1","certified":true,"played":[],"effects_counted":true,
		"findings":[],"warnings":[],"not_tried":[]}}`).Wants(http.StatusUnprocessableEntity, certify.CodeInvalid)
	e.Send("POST", certificationsPath, `{"report":{"url":"http://a.example","version":"1","certified":true,"played":[],
		"effects_counted":true,"findings":[{"code":"a","rule":"1","title":"a","why":"a","vector":"a","seen":"a","curl":5,"vectors":["a"]}],
		"warnings":[],"not_tried":[]}}`).Wants(http.StatusUnprocessableEntity, certify.CodeInvalid)

	canceled := e.Send("POST", "/api/v1/participants/certify", `{"url":"http://127.0.0.1:9001/"}`)
	canceled.Into(&would)
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
	e.Send("GET", certificationsPath+"/"+uuid.NewString(), "").Wants(http.StatusNotFound, certify.CodeNotFound)
}
