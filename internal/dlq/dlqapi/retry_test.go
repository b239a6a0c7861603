package dlqapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestARetrySucceedsOrReturnsItsError(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"payload":{"n":1.00},"max_retries":2`))
	q.target.answer(422)
	p := q.Send("POST", at(l)+"/retry", `{"reason":"try"}`).Wants(502, "DLQ_PROCESS_FAILED")
	if p.Message == nil {
		t.Fatal("the problem has no message")
	}
	want := *p.Message
	want.ID, want.Status, want.RetryCount, want.Payload = l.ID, client.DeadLetterStatusPENDING, 1, nil
	if diff := cmp.Diff(want, *p.Message); diff != "" {
		t.Fatalf("the problem's message (-want +got):\n%s", diff)
	}
	p = q.Send("POST", at(l)+"/retry", "").Wants(502, "DLQ_PROCESS_FAILED")
	if p.Message.Status != client.DeadLetterStatusDEAD || *p.Message.Resolution != client.DeadLetterResolutionEXHAUSTED ||
		p.Message.RetryCount != 2 {
		t.Fatalf("after the last retry: %+v", p.Message)
	}
	p = q.Send("POST", at(l)+"/retry", "").Wants(409, "DLQ_CONFLICT")
	if p.Current == nil || p.Current.Status != client.DeadLetterStatusDEAD || p.AllowedActions == nil {
		t.Errorf("a DEAD letter: %+v", p)
	}
	for _, body := range []string{`{"force":true}`, `{"force":true,"reason":" "}`} {
		apitest.WantsReason(t, q.Send("POST", at(l)+"/retry", body))
	}
	p = q.Send("POST", at(l)+"/retry", `{"force":true,"reason":"given up too early"}`).Wants(502, "DLQ_PROCESS_FAILED")
	if p.Message.Status != client.DeadLetterStatusDEAD || p.Message.RetryCount != 2 {
		t.Errorf("forced in vain: %+v", p.Message)
	}
	q.target.answer(200)
	ok, err := q.RetryDeadLetterWithResponse(t.Context(), l.ID, nil, client.DeadLetterRetryInput{Force: new(true),
		Reason: new("it is back")})
	if err != nil || ok.JSON200 == nil {
		t.Fatalf("%v %s", err, ok.Body)
	}
	if m := ok.JSON200.Message; m.Status != client.DeadLetterStatusRESOLVED ||
		*m.Resolution != client.DeadLetterResolutionREDRIVEN || string(m.Payload) != `{"n":1.00}` ||
		ok.HTTPResponse.Header.Get("ETag") == "" {
		t.Errorf("%+v", m)
	}
	if got := q.target.last(t); got.body != `{"n":1.00}` || got.header.Get("X-Dlq-Message-Id") != l.ID.String() {
		t.Errorf("sent %+v", got)
	}
	q.Send("POST", at(l)+"/retry", `{"force":true,"reason":"given up too early"}`).Wants(409, "DLQ_CONFLICT")

	attempts, err := q.ListDeadLetterAttemptsWithResponse(t.Context(), l.ID)
	if err != nil || attempts.JSON200 == nil {
		t.Fatalf("%v %s", err, attempts.Body)
	}
	var outcomes []string
	for i, a := range attempts.JSON200.Attempts {
		outcomes = append(outcomes, string(a.Outcome))
		if a.Number != i+1 || a.Actor == nil || a.StatusCode == nil || a.Target.Kind != client.DeadLetterTargetKindHTTP {
			t.Errorf("attempt %+v", a)
		}
	}
	if diff := cmp.Diff([]string{"FAILED", "FAILED", "FAILED", "ACKNOWLEDGED"}, outcomes); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	full := q.Send("GET", at(l)+"?include=attempts&include=lineage&include=payload", "").Letter(200)
	if len(full.Attempts) != 4 || len(full.Lineage) != 1 || full.Lineage[0].ID != l.ID {
		t.Errorf("%+v", full)
	}
}

func TestARetryWithoutItsTargetChangesNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(`{"original_topic":"orders","error_message":"boom"}`)
	r := q.Send("POST", at(l)+"/retry", "")
	if r.Wants(503, "DLQ_NO_KAFKA"); r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if now := q.Send("GET", at(l), "").Letter(200); now.Version != 1 || now.Status != client.DeadLetterStatusPENDING ||
		now.RetryCount != 0 {
		t.Errorf("%+v", now)
	}
	saga := q.store(dlq.Letter{Source: dlq.FromSaga, Target: dlq.Target{Kind: dlq.ToSaga},
		Link: dlq.Link{SagaID: uuid.New(), StepName: "pay", Action: "COMPENSATE"}})
	var accepted client.DeadLetterRetryResult
	r = q.Send("POST", at(saga)+"/retry", "")
	if r.Into(&accepted); r.Status != http.StatusAccepted || accepted.Message.Status != client.DeadLetterStatusRETRYING {
		t.Errorf("accepted: %d %s", r.Status, r.Body)
	}
	p := q.Send("POST", at(saga)+"/retry", "").Wants(409, "DLQ_CONFLICT")
	if p.Current == nil || p.Current.Status != client.DeadLetterStatusRETRYING {
		t.Errorf("while it is retried: %+v", p)
	}
	q.Send("DELETE", at(saga)+"?reason=r", "").Wants(409, "DLQ_CONFLICT")
	for body, code := range map[string]string{
		`{"payload":1}`: "REQ_SCHEMA", `{"target":{"topic":"orders"}}`: "DLQ_TARGET_NOT_ALLOWED",
	} {
		q.Send("POST", at(q.store(dlq.Letter{Source: dlq.FromSaga, Target: dlq.Target{Kind: dlq.ToSaga}}))+"/retry",
			body).Wants(422, code)
	}
}

func TestAnEditIsARevisionAndTheOriginalStays(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"payload":{"n":1.00,"who":"a"},"headers":[{"name":"H","value":"1"},{"name":"H","value":"2"},{"name":"gone","value":"x"}],"max_retries":9`))
	q.target.answer(500)
	retry := func(body string, status int) {
		t.Helper()
		if r := q.Send("POST", at(l)+"/retry", body); r.Status != status {
			t.Fatalf("%s: %d %s", body, r.Status, r.Body)
		}
	}
	retry(`{"payload_patch":[{"op":"replace","path":"/who","value":"b"}],"headers_patch":[{"op":"remove","name":"gone"},{"op":"set","name":"H","value":"3"}],"reason":"wrong customer"}`, 502)
	if got := q.target.last(t); got.body != `{"n":1.00,"who":"b"}` {
		t.Errorf("sent %+v", got)
	}
	retry("", 502) // it has the edited content now
	if got := q.target.last(t); got.body != `{"n":1.00,"who":"b"}` {
		t.Errorf("sent %+v", got)
	}
	retry(`{"payload_patch":[{"op":"add","path":"/more","value":[]}],"key_base64":"aw=="}`, 502)
	if got := q.target.last(t); got.body != `{"n":1.00,"who":"b","more":[]}` {
		t.Errorf("an edit of an edit sent %+v", got)
	}
	q.target.answer(200)
	retry(`{"payload_base64":"AP8="}`, 200)
	if got := q.target.last(t); got.body != "\x00\xff" {
		t.Errorf("sent %+v", got)
	}
	now := q.Send("GET", at(l), "").Letter(200)
	if string(now.Payload) != `{"n":1.00,"who":"a"}` || len(now.Headers) != 3 || now.Revision != 3 {
		t.Errorf("the original: %+v", now)
	}
	r, err := q.ListDeadLetterRevisionsWithResponse(t.Context(), l.ID)
	if err != nil || r.JSON200 == nil || len(r.JSON200.Revisions) != 3 {
		t.Fatalf("%v %s", err, r.Body)
	}
	want := slices.Clone(r.JSON200.Revisions)
	want[0].Payload, want[0].Reason, want[0].KeyBase64 = client.AnyJSON(`{"n":1.00,"who":"b"}`), new("wrong customer"), nil
	want[1].KeyBase64 = new("aw==")
	want[2].PayloadBase64 = new("AP8=")
	if diff := cmp.Diff(want, r.JSON200.Revisions); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if first := r.JSON200.Revisions[0]; first.Author == "" || !strings.Contains(string(first.PayloadPatch), `"/who"`) {
		t.Errorf("the first revision, by %q, has the patch %s", first.Author, first.PayloadPatch)
	}
	for _, edited := range r.JSON200.Revisions {
		if len(edited.Headers) != 1 || edited.Headers[0].Name != "H" || *edited.Headers[0].Value != "3" {
			t.Errorf("headers of revision %d: %+v", edited.Number, edited.Headers)
		}
	}
}

func TestInvalidEditsAndTargetsAreRefused(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.policy.AllowedTargets = []string{"orders.retry", q.target.URL + "/allowed/*"}
	l := q.push(q.toTarget(`"payload":{"n":1}`))
	for name, tt := range map[string]struct {
		body    string
		code    string
		pointer string
	}{
		"two payloads":             {`{"payload":1,"payload_base64":"AA=="}`, "REQ_SCHEMA", "/payload"},
		"no base64":                {`{"payload_base64":"?"}`, "REQ_SCHEMA", "/payload_base64"},
		"two keys":                 {`{"key_base64":"AA==","target":{"key_base64":"AA=="}}`, "REQ_SCHEMA", "/target/key_base64"},
		"a patch that fails":       {`{"payload_patch":[{"op":"remove","path":"/nope"}]}`, "DLQ_INVALID", "/payload_patch/0"},
		"a patch that is none":     {`{"payload_patch":[{"op":"grow","path":"/n"}]}`, "DLQ_INVALID", "/payload_patch/0"},
		"a value for a removal":    {`{"headers_patch":[{"op":"remove","name":"a","value":"b"}]}`, "REQ_SCHEMA", "/headers_patch/0/value"},
		"another verb":             {`{"headers_patch":[{"op":"grow","name":"a"}]}`, "REQ_SCHEMA", "/headers_patch/0/op"},
		"a topic and a URL":        {`{"target":{"topic":"orders","url":"` + q.target.URL + `"}}`, "REQ_SCHEMA", "/target/url"},
		"a topic nobody allows":    {`{"target":{"topic":"stranger"}}`, "DLQ_TARGET_NOT_ALLOWED", "/target/topic"},
		"no topic":                 {`{"target":{"topic":"my orders"}}`, "DLQ_INVALID", "/target/topic"},
		"no URL":                   {`{"target":{"url":"orders"}}`, "DLQ_INVALID", "/target/url"},
		"a dead-letter topic":      {`{"target":{"topic":"orders.dlq"}}`, "DLQ_TARGET_NOT_ALLOWED", "/target/topic"},
		"a URL nobody allows":      {`{"target":{"url":"http://127.0.0.1:9/"}}`, "DLQ_TARGET_NOT_ALLOWED", "/target/url"},
		"a method that is none":    {`{"target":{"method":"GET"}}`, "REQ_SCHEMA", "/target/method"},
		"a header of ours":         {`{"headers_patch":[{"op":"set","name":"X-Dlq-Attempt","value":"1"}]}`, "REQ_SCHEMA", "/headers_patch/0/name"},
		"a header not sent":        {`{"headers_patch":[{"op":"set","name":"x-exception-message","value":"1"}]}`, "REQ_SCHEMA", "/headers_patch/0/name"},
		"headers beyond a request": {`{"headers_patch":[{"op":"set","name":"a","value":"` + strings.Repeat("x", 33_000) + `"}]}`, "DLQ_INVALID", "/headers_patch"},
		"an unknown member":        {`{"colour":1}`, "REQ_SCHEMA", "/colour"},
		"a reason that is a novel": {`{"reason":"` + strings.Repeat("x", 501) + `"}`, "REQ_SCHEMA", "/reason"},
	} {
		p := q.Send("POST", at(l)+"/retry", tt.body).Wants(422, tt.code)
		if len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Pointer, tt.pointer) {
			t.Errorf("%s: errors %+v, want %s", name, p.Errors, tt.pointer)
		}
	}
	if now := q.Send("GET", at(l), "").Letter(200); now.Version != 1 || now.Revision != 0 {
		t.Errorf("after refusals: %+v", now)
	}
	q.Send("POST", at(l)+"/retry", "", "If-Match", `"7"`).Wants(412, "DLQ_VERSION_CONFLICT")
	q.Send("POST", at(l)+"/retry", `{"target":{"topic":"orders.retry"}}`).Wants(503, "DLQ_NO_KAFKA")
	if r := q.Send("POST", at(l)+"/retry", `{"target":{"url":"`+q.target.URL+`/allowed/x","method":"PUT"}}`, "If-Match",
		`"1"`); r.Status != 200 {
		t.Errorf("an allowed URL: %d %s", r.Status, r.Body)
	}
	own := q.store(dlq.Letter{Source: dlq.FromKafka, OriginalTopic: "orders.dlq"})
	q.Send("POST", at(own)+"/retry", "").Wants(422, "DLQ_TARGET_NOT_ALLOWED")
	q.policy.AllowedTargets = []string{"http://169.254.1.1/*"}
	q.Send("POST", at(own)+"/retry", `{"target":{"url":"http://169.254.1.1/x"}}`).Wants(422, "DLQ_TARGET_NOT_ALLOWED")
}
