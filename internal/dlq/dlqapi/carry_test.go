package dlqapi_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// record is the part of a letter that came from its record.
const record = `"payload":{"n":1},"key":"c-17","headers":[{"name":"x-tenant","value":"acme"},{"name":"correlation_id","value":"7 é"},
	{"name":"x-bytes","value_base64":"/wA="},{"name":"Authorization","value":"Bearer x"}]`

func TestALetterOverHTTPKeepsItsKeyAndHeaders(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(record))
	retry := func(body string) http.Header {
		t.Helper()
		if r := q.Send("POST", at(l)+"/retry", body); r.Status != 200 && r.Status != 502 {
			t.Fatalf("%s: %d %s", body, r.Status, r.Body)
		}
		return q.target.last(t).header
	}
	expect := func(h http.Header, want http.Header) {
		t.Helper()
		got := http.Header{}
		for name := range want {
			got[name] = h[name]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	q.target.answer(422)
	plain := l.ID.String() + "/0"
	expect(retry(""), http.Header{
		"X-Tenant": {"acme"}, "X-Dlq-Key": {"c-17"}, "X-Dlq-Header": {"correlation_id=7%20%C3%A9", "x-bytes=%FF%00"}, "Authorization": {"Bearer x"},
		"Idempotency-Key": {plain}, "X-Dlq-Revision": {"0"},
	})
	edited := retry(`{"headers_patch":[{"op":"set","name":"x-corrected","value":"1"},{"op":"remove","name":"x-bytes"}],"key_base64":"Yy0xOA=="}`)
	expect(edited, http.Header{
		"X-Tenant": {"acme"}, "X-Corrected": {"1"}, "X-Dlq-Key": {"c-18"}, "X-Dlq-Header": {"correlation_id=7%20%C3%A9"}, "X-Dlq-Revision": {"1"},
	})
	key := edited.Get("Idempotency-Key")
	if len(key) != len(plain)+17 || key[:len(plain)] != plain {
		t.Errorf("an edited letter went out under %q", key)
	}
	q.target.answer(200)
	expect(retry(`{"force":true,"reason":"r"}`), http.Header{"Idempotency-Key": {key}, "X-Dlq-Revision": {"1"},
		"X-Corrected": {"1"}})
}

func TestAnEditMayLeaveNoHeader(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"headers":[{"name":"x-wrong","value":"1"}]`))
	if r := q.Send("POST", at(l)+"/retry", `{"headers_patch":[{"op":"remove","name":"x-wrong"}]}`); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if h := q.target.last(t).header; h.Get("X-Wrong") != "" || h.Get("X-Dlq-Revision") != "1" {
		t.Errorf("sent %v", h)
	}
}

func TestCredentialsOfARecordStayOnItsHost(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	elsewhere := newReceiver(t)
	q.policy.AllowedTargets = []string{elsewhere.URL + "/*"}
	l := q.push(q.toTarget(record))
	there := `"target":{"url":"` + elsewhere.URL + `/in"}`
	q.Send("POST", at(l)+"/retry", `{"headers_patch":[{"op":"set","name":"Authorization","value":"Bearer y"}],`+there+`}`).Wants(422, "REQ_SCHEMA")
	if r := q.Send("POST", at(l)+"/retry", `{`+there+`}`); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if h := elsewhere.last(t).header; h.Get("Authorization") != "" || h.Get("X-Dlq-Withheld") != "Authorization" ||
		h.Get("X-Tenant") != "acme" {
		t.Errorf("sent to another host: %v", h)
	}
}

func TestAJobHasNeitherKeyNorHeaders(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	job := q.store(dlq.Letter{Source: dlq.FromREST, Target: dlq.Target{Kind: dlq.ToJobRun, Job: uuid.NewString()}})
	for _, body := range []string{`{"headers_patch":[{"op":"set","name":"a","value":"1"}]}`, `{"key_base64":"YQ=="}`} {
		q.Send("POST", at(job)+"/retry", body).Wants(422, "REQ_SCHEMA")
	}
}
