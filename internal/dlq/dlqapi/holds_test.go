package dlqapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestATopicIsHeldByOneField(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	topic, common := "/api/v1/dlq/topics/orders/policy", "/api/v1/dlq/policy"
	var before, p client.DeadLetterPolicy
	e.Send("GET", topic, "").Into(&before)
	e.Send("PATCH", topic, `{"auto_retry":false}`, "If-Match", `"3"`).Wants(http.StatusPreconditionFailed,
		"DLQ_VERSION_CONFLICT")
	r := e.Send("PATCH", topic, `{"auto_retry":false,"reason":"the billing database is down"}`, "If-Match", `"0"`)
	r.Reads(http.StatusOK, &p)
	want := p
	want.AutoRetry, want.Version, want.Inherited = false, 1, false
	if diff := cmp.Diff(want, p); diff != "" {
		t.Fatalf("held (-want +got):\n%s", diff)
	}
	if r.Header.Get("ETag") != `"1"` {
		t.Errorf("ETag %s", r.Header.Get("ETag"))
	}
	if p.MaxRetries != before.MaxRetries || p.RetentionDays != before.RetentionDays || p.Backoff != before.Backoff ||
		p.HoldAll != nil {
		t.Errorf("the rest of the policy changed: %s", r.Body)
	}
	p = client.DeadLetterPolicy{}
	r = e.Send("PATCH", topic, `{"backoff":{"jitter":0.25},"alert":{"count":9},"redact":["card"]}`)
	r.Into(&p)
	want = p
	want.Version, want.AutoRetry, want.Backoff.Jitter, want.Backoff.Multiplier = 2, false, 0.25, before.Backoff.Multiplier
	want.Alert.Count, want.Redact = new(int64(9)), []string{"card"}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("changed again (-want +got):\n%s", diff)
	}
	p = client.DeadLetterPolicy{}
	r = e.Send("PATCH", topic, `{"redact":[]}`)
	if r.Into(&p); len(p.Redact) != 0 || p.Backoff.Jitter != 0.25 {
		t.Errorf("%s", r.Body)
	}
	e.Send("PATCH", topic, `{"hold_all":true}`).Wants(http.StatusUnprocessableEntity, "DLQ_INVALID")
	e.Send("PATCH", topic, `{"max_retries":null}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.Send("PATCH", topic, `{}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.Send("PATCH", topic, `{"backoff":{"max_interval_ms":1}}`).Wants(http.StatusUnprocessableEntity, "DLQ_INVALID")
	p = client.DeadLetterPolicy{}
	r = e.Send("PATCH", common, `{"hold_all":true}`)
	if r.Into(&p); r.Status != http.StatusOK || p.HoldAll == nil || !*p.HoldAll {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	var actions client.ActionList
	if e.Send("GET", "/api/v1/audit?kind=topic_policy&subject=orders", "").Into(&actions); len(actions.Actions) != 3 {
		t.Errorf("%d actions", len(actions.Actions))
	}
}

// A held letter shows that it is held, and what holds it.
func TestAHeldLetterSaysWhatHoldsIt(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.policy.AutoRetry = true
	id := q.Pushed("orders", q.target.URL, `{"n":%d}`, 1)[0]
	tag := ""
	show := func() client.DeadLetter {
		t.Helper()
		var l client.DeadLetter
		r := q.Send("GET", letters+"/"+id.String(), "", "If-None-Match", tag)
		if r.Status != http.StatusOK {
			t.Fatalf("who polls sees %d with %s", r.Status, tag)
		}
		r.Into(&l)
		tag = r.Header.Get("ETag")
		if again := q.Send("GET", letters+"/"+id.String(), "", "If-None-Match", tag); again.Status != http.StatusNotModified {
			t.Errorf("the same again: %d", again.Status)
		}
		return l
	}
	tag = `"0"`
	if l := show(); l.NextRetryAt == nil || l.HeldBy != nil {
		t.Fatalf("next %v, held by %v", l.NextRetryAt, l.HeldBy)
	}
	q.policy.AutoRetry, q.policy.Held = false, "topic_policy"
	if l := show(); l.NextRetryAt == nil || l.HeldBy == nil || *l.HeldBy != "topic_policy" {
		t.Errorf("next %v, held by %v", l.NextRetryAt, l.HeldBy)
	}
	var list client.DeadLetterList
	if q.Send("GET", letters, "").Into(&list); len(list.Messages) != 1 || list.Messages[0].HeldBy == nil {
		t.Errorf("%+v", list.Messages)
	}
	held := tag
	q.policy.AutoRetry, q.policy.Held = true, ""
	if l := show(); l.HeldBy != nil || tag != `"1"` {
		t.Errorf("released: %s, held by %v", tag, l.HeldBy)
	}
	q.policy.AutoRetry, q.policy.Held = false, "hold_all"
	if l := show(); l.HeldBy == nil || *l.HeldBy != "hold_all" || tag == held {
		t.Errorf("%s, held by %v", tag, l.HeldBy)
	}
	// A time set for one letter overrides the hold. A user who read the letter while something else
	// held it may still set the time.
	q.Send("PATCH", letters+"/"+id.String(), `{"note":"read"}`, "If-Match", `"2-held-topic_policy"`).
		Wants(http.StatusPreconditionFailed, "DLQ_VERSION_CONFLICT")
	q.Send("PATCH", letters+"/"+id.String(),
		fmt.Sprintf(`{"next_retry_at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)),
		"If-Match", held).Letter(http.StatusOK)
	if l := show(); l.NextRetryAt == nil || l.HeldBy != nil || l.Version != 2 {
		t.Errorf("next %v, held by %v", l.NextRetryAt, l.HeldBy)
	}
}

// Polling a letter with its ETag shows when a redrive holds it and when it is released. Actions may
// name the version that was read before.
func TestALetterThatARedriveHoldsHasAnotherETag(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	ids := e.Pushed("orders", newService(t).URL, `{"n":%d}`, 2)
	at := letters + "/" + ids[0].String()
	later := fmt.Sprintf(`{"next_retry_at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	free := e.Send("PATCH", at, later, "If-Match", "*").Header.Get("ETag")
	r := e.Bulk(`{"action":"retry","reason":"r","filter":{"topic":"orders"},"expected":1}`)
	e.Until(r.ID, "halted", func(r client.Redrive) bool { return r.State == client.RedriveStateHALTED })
	sees := func(known string) string {
		t.Helper()
		got := e.Send("GET", at, "", "If-None-Match", known)
		if got.Status != http.StatusOK {
			t.Errorf("with %s: %d", known, got.Status)
		}
		return got.Header.Get("ETag")
	}
	held := sees(free)
	if !strings.Contains(held, r.ID.String()) {
		t.Errorf("held: %s", held)
	}
	if got := e.Send("GET", at, "", "If-None-Match", held); got.Status != http.StatusNotModified {
		t.Errorf("the same again: %d", got.Status)
	}
	e.Send("PATCH", at, `{"note":"read before"}`, "If-Match", free).Letter(http.StatusOK)
	held = e.Send("GET", at, "").Header.Get("ETag")
	e.Send("POST", apitest.RedrivesPath+"/"+r.ID.String()+"/cancel", `{"reason":"r"}`)
	sees(held)
	e.Send("PATCH", at, `{"note":"read while held"}`, "If-Match", held).Letter(http.StatusOK)
}

// Limits that are set while a redrive is halted or when it is resumed take effect.
func TestAGuardSurvivesTheResume(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	target := newService(t)
	target.set(true)
	e.Pushed("orders", target.URL, `{"n":%d}`, 100)
	r := e.Bulk(`{"action":"retry","reason":"r","filter":{"topic":"orders"},"rate_per_second":1000,"stop_on":{"failures":5},"concurrency":2}`)
	at := apitest.RedrivesPath + "/" + r.ID.String()
	halted := e.Until(r.ID, "halted", func(r client.Redrive) bool { return r.State == client.RedriveStateHALTED })
	want := halted
	want.Halts, want.Sent, want.NeverSent = 1, halted.Failed, 100-halted.Failed
	if diff := cmp.Diff(want, halted); diff != "" {
		t.Errorf("halted (-want +got):\n%s", diff)
	}
	if halted.Failed < 5 || halted.Failed > 7 || halted.LastHalt == nil {
		t.Errorf("halted after %d failures, not 5 to 7, by %v", halted.Failed, halted.LastHalt)
	}
	if halted.LastError == nil || halted.LastErrorAt == nil {
		t.Errorf("it does not say what failed: %+v", halted)
	}
	e.Send("PATCH", at, `{"stop_on":{"failures":10}}`)
	var resumed client.Redrive
	res := e.Send("POST", at+"/resume", `{"reason":"again"}`)
	if res.Into(&resumed); resumed.StopOn.Failures == nil || *resumed.StopOn.Failures != 10 ||
		resumed.Counted.Failed != 0 {
		t.Errorf("resumed: %s", res.Body)
	}
	again := e.Until(r.ID, "halted again", func(r client.Redrive) bool { return r.Halts == 2 })
	if n := again.Failed - halted.Failed; n < 10 || n > 12 || again.Counted.Failed != n {
		t.Errorf("halted after %d more failures: %+v", n, again)
	}
	e.Send("POST", at+"/resume", `{"stop_on":{"failures":-1}}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	target.set(false)
	resumed = client.Redrive{}
	res = e.Send("POST", at+"/resume", `{"stop_on":{}}`)
	if res.Into(&resumed); resumed.StopOn.Failures != nil {
		t.Errorf("resumed: %s", res.Body)
	}
	end := e.Until(r.ID, "complete", func(r client.Redrive) bool { return r.State == client.RedriveStateCOMPLETED })
	want = end
	want.Halts, want.HaltReason, want.Sent = 2, nil, 100
	want.MaybeSent, want.Repeated, want.NeverSent = 0, 0, 0
	if diff := cmp.Diff(want, end); diff != "" {
		t.Errorf("complete (-want +got):\n%s", diff)
	}
	if end.LastHalt.Reason != "failures" {
		t.Errorf("its last halt was for %s", end.LastHalt.Reason)
	}
	var actions client.ActionList
	if e.Send("GET", "/api/v1/audit?kind=redrive&verb=halt&subject="+r.ID.String(), "").Into(&actions); len(actions.Actions) != 2 {
		t.Errorf("%d halts in the audit trail", len(actions.Actions))
	}
}
