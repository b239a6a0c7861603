package dlqapi_test

import (
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestAMisspeltTopicIsReportedAsUnknown(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"labels":["a"]`))
	q.push(q.toTarget(""))
	q.Send("GET", topicPath("ordres"), "").Wants(404, "DLQ_TOPIC_NOT_FOUND")
	q.Send("POST", topicPath("ordres")+"/retry-all", `{"dry_run":true}`).Wants(404, "DLQ_TOPIC_NOT_FOUND")
	if list := q.Send("GET", topicPath("orders")+"?status=DEAD", "").Messages(); len(list.Messages) != 0 {
		t.Errorf("a filter that fits none: %+v", list)
	}
	if list := q.Send("GET", topicPath("orders")+"?label=a&order=asc", "").Messages(); len(list.Messages) != 1 ||
		list.Messages[0].ID != l.ID {
		t.Errorf("by label: %+v", list)
	}
	if list := q.Send("GET", topicPath("orders")+"?order=asc", "").Messages(); len(list.Messages) != 2 ||
		list.Messages[0].ID != l.ID {
		t.Errorf("oldest first: %+v", list)
	}
	q.Send("DELETE", at(l)+"?reason=r", "").Wants2xx()
	if r := q.Send("POST", topicPath("orders")+"/retry-all", `{"dry_run":true}`); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	const policy = `{"max_retries":3,"backoff":{"initial_interval_ms":1000,"max_interval_ms":1000,"multiplier":1,"jitter":0},"auto_retry":false,"ordered":false,
		"retention_days":30,"archive_days":365,"max_generations":3`
	for topic, known := range map[string]bool{"orders": true, "later": false} {
		var p client.DeadLetterPolicy
		r := q.Send("PUT", "/api/v1/dlq/topics/"+topic+"/policy", policy+"}")
		if r.Into(&p); r.Status != 200 || p.Known == nil || *p.Known != known {
			t.Errorf("policy of %s: %d %s", topic, r.Status, r.Body)
		}
	}
	if list := q.Send("GET", topicPath("later"), "").Messages(); len(list.Messages) != 0 {
		t.Errorf("a topic that a policy names: %+v", list)
	}
	for target, code := range map[string]string{"ftp://x/*": "DLQ_INVALID", "my orders": "DLQ_INVALID",
		"http:///x": "DLQ_INVALID", "orders.dlq": "DLQ_TARGET_NOT_ALLOWED"} {
		r := q.Send("PUT", "/api/v1/dlq/topics/orders/policy", policy+`,"allowed_targets":["retry.*","https://*.example/in","`+target+`"]}`)
		if p := r.Wants(422, code); p.Errors[0].Pointer != "/allowed_targets/2" {
			t.Errorf("%s: %+v", target, p.Errors)
		}
	}
}

func TestALetterListsItsActionsAndItsLastError(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"max_retries":1`))
	q.target.answer(422)
	p := q.Send("POST", at(l)+"/retry", "").Wants(502, "DLQ_PROCESS_FAILED")
	if m := p.Message; m.ErrorMessage != "boom" || m.LastError == nil || *m.LastError != "the target answered 422" ||
		m.LastErrorAt == nil {
		t.Errorf("%+v", m)
	}
	if list := q.Send("GET", letters, "").Messages(); list.Messages[0].LastError == nil {
		t.Errorf("in a list: %+v", list.Messages[0])
	}
	if p := q.Send("POST", at(l)+"/retry", "").Wants(409, "DLQ_CONFLICT"); !strings.Contains(p.Detail, `"force": true`) {
		t.Errorf("a DEAD letter: %s", p.Detail)
	}
	q.target.answer(200)
	q.Send("POST", at(l)+"/retry", `{"force":true,"reason":"r"}`).Wants2xx()
	if now := q.Send("GET", at(l), "").Letter(200); now.LastError != nil {
		t.Errorf("after one that went well: %s", *now.LastError)
	}
	saga := q.store(dlq.Letter{Source: dlq.FromSaga, Target: dlq.Target{Kind: dlq.ToSaga},
		Link: dlq.Link{SagaID: uuid.New(), StepName: "pay", Action: "COMPENSATE"}})
	want := []client.DeadLetterVerb{"retry", "resolve", "update"}
	if got := q.Send("GET", at(saga), "").Letter(200).AllowedActions; !cmp.Equal(got, want) {
		t.Errorf("of a letter that a saga waits for: %v, want %v", got, want)
	}
	if p := q.Send("POST", at(saga)+"/discard", `{"reason": "not wanted"}`).Wants(409,
		"DLQ_SAGA_WAITS"); len(p.AllowedActions) != len(want) {
		t.Errorf("%v", p.AllowedActions)
	}
	hook := q.store(dlq.Letter{Source: dlq.FromWebhook, Target: dlq.Target{Kind: dlq.ToWebhook}})
	if p := q.Send("POST", at(hook)+"/retry", "").Wants(409, "WEBHOOK_DISABLED"); p.Current == nil ||
		p.Current.Status != client.DeadLetterStatusPENDING {
		t.Errorf("%+v", p)
	}
	if now := q.Send("GET", at(hook), "").Letter(200); now.RetryCount != 0 || now.LastError == nil {
		t.Errorf("a retry that was not made: %+v", now)
	}
}

func TestAPushWarnsOfATargetThatNoDriverReaches(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(`{"original_topic":"orders","error_message":"boom"}`)
	if l.Warnings == nil || (*l.Warnings)[0].Code != "DLQ_NO_KAFKA" ||
		!strings.Contains((*l.Warnings)[0].Detail, "kafka.brokers") {
		t.Errorf("%+v", l.Warnings)
	}
	if p := q.Send("POST", at(l)+"/retry", "").Wants(503, "DLQ_NO_KAFKA"); !strings.Contains(p.Detail, "kafka.brokers") {
		t.Errorf("%s", p.Detail)
	}
	if l := q.push(q.toTarget("")); l.Warnings != nil {
		t.Errorf("one that goes: %+v", l.Warnings)
	}
}

func TestUnknownIDsAreReported(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l, unknown := q.push(q.toTarget("")), uuid.New()
	body := `"action":"retry","reason":"r","ids":["` + l.ID.String() + `","` + unknown.String() + `"]`
	var r client.Redrive
	if got := q.Send("POST", "/api/v1/dlq/redrives", "{"+body+"}"); got.Status == http.StatusAccepted {
		got.Into(&r)
	} else {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var p client.RedrivePreview
	q.Send("POST", "/api/v1/dlq/redrives", "{"+body+`,"dry_run":true}`).Into(&p)
	for _, ids := range [][]uuid.UUID{r.UnknownIds, p.UnknownIds} {
		if len(ids) != 1 || ids[0] != unknown {
			t.Errorf("unknown ids %v, want %s", ids, unknown)
		}
	}
}

func TestTheLargestLetterIsImportedWithItsPlace(t *testing.T) {
	t.Parallel()
	q, other := newQueue(t), newQueue(t)
	place := dlq.Position{Topic: "orders.dlq", Partition: 2, Offset: 41, TopicID: uuid.New()}
	content := dlq.Content{
		Payload: bytes.Repeat([]byte{0xff, 0, '"', 7}, dlq.MaxPayload/4), Key: bytes.Repeat([]byte{1}, dlq.MaxKey),
		Headers: []dlq.Header{{Name: "h", Value: bytes.Repeat([]byte{2}, 1<<20)}},
	}
	largest := q.store(dlq.Letter{
		Source: dlq.FromKafka, OriginalTopic: "orders", Arrived: &place, Content: content,
		Failure: dlq.Failure{Stack: strings.Repeat("\n", dlq.MaxStack)},
	})
	lines, _ := q.exported("")
	all := strings.Join(lines, "\n")
	if got := other.imported(all); got.Imported != 1 {
		t.Fatalf("%+v", got)
	}
	l, err := other.letters.Get(t.Context(), apitest.Tenant.ID, largest.ID)
	if err != nil || !reflect.DeepEqual(l.Content, content) || l.Arrived == nil || !cmp.Equal(*l.Arrived, place) {
		t.Fatalf("%v, %d bytes, read from %v", err, len(l.Content.Payload), l.Arrived)
	}
	now := dlq.Moment{Now: time.Now().UTC().Truncate(time.Microsecond)}
	again := dlq.New(dlq.Letter{
		TenantID: apitest.Tenant.ID, Source: dlq.FromKafka, OriginalTopic: "orders", Arrived: &place, Content: content,
		Failure: dlq.Failure{Message: "e"}, MaxRetries: -1,
	}, uuid.Must(uuid.NewV7()), &other.policy, now)
	if n, err := other.loops.Arrive(t.Context(), []dlq.Arrival{{Letter: again}}); err != nil || n != 0 {
		t.Errorf("reading the same place again stored %d, %v", n, err)
	}
	third := newQueue(t)
	if _, err := third.loops.Arrive(t.Context(), []dlq.Arrival{{Letter: again}}); err != nil {
		t.Fatal(err)
	}
	if got := third.imported(all); got.Duplicates != 1 || len(got.Known) != 1 || got.Known[0].ID != again.ID ||
		got.Known[0].Line != 1 {
		t.Errorf("where the place is taken: %+v", got)
	}
}
