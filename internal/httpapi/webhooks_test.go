package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
)

func TestASecretIsShownWhereItIsMadeAndNeverAgain(t *testing.T) {
	e := newEdge(t)
	w := e.hook(`{"url":"https://h.example/in","description":"d","event_types":["saga.failed","compensation.*"],"workflow_names":["order"]}`)
	first := *w.Secret
	if key, err := webhooks.ParseSecret(first); err != nil || len(key) != 32 {
		t.Fatalf("secret %q: %v", first, err)
	}
	path := hooks + "/" + w.ID.String()
	for _, r := range []reply{
		e.send("GET", path, ""), e.send("GET", hooks, ""), e.send("PATCH", path, `{"description":"e"}`), e.send("POST", path+"/disable", ""),
		e.send("POST", path+"/enable", ""),
	} {
		if r.status != http.StatusOK || strings.Contains(string(r.body), "whsec_") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	var rotated client.Webhook
	r := e.send("POST", path+"/rotate-secret", "", "If-Match", `"4"`)
	r.into(&rotated)
	if r.status != http.StatusOK || rotated.Secret == nil || *rotated.Secret == first || len(rotated.Secrets) != 2 ||
		rotated.Secrets[0].ExpiresAt != nil || rotated.Secrets[1].ExpiresAt == nil {
		t.Fatalf("rotated: %d %s", r.status, r.body)
	}
	stored, err := e.store.Webhooks.Get(t.Context(), tenant.ID, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := stored.Keys(e.cfg.Now()); len(got) != 2 || webhooks.FormatSecret(got[0]) != *rotated.Secret || webhooks.FormatSecret(got[1]) != first {
		t.Errorf("%d keys sign, want the new one and the former", len(got))
	}
	if strings.Contains(e.log.String(), "whsec_") {
		t.Error("a secret was logged")
	}
}

func TestAWebhookIsChangedByWhatTheBodyNames(t *testing.T) {
	e := newEdge(t)
	w := e.hook(`{"url":"https://h.example/in","event_types":["saga.*","saga.*"],"enabled":false}`)
	path := hooks + "/" + w.ID.String()
	if cmp.Diff([]string{"saga.*"}, w.EventTypes) != "" || w.Enabled || *w.DisabledReason == "" {
		t.Fatalf("created %+v", w)
	}
	var changed client.Webhook
	r := e.send("PATCH", path, `{"url":"https://other.example/","event_types":[],"enabled":true}`, "If-Match", `"1"`)
	r.into(&changed)
	want := changed
	want.URL, want.EventTypes, want.Enabled, want.DisabledReason, want.Version = "https://other.example/", nil, true, nil, 2
	if diff := cmp.Diff(want, changed, cmpopts.EquateEmpty()); diff != "" || r.status != http.StatusOK || r.header.Get("ETag") != `"2"` {
		t.Errorf("changed: %d, ETag %s (-want +got):\n%s", r.status, r.header.Get("ETag"), diff)
	}
	for _, r := range []reply{
		e.send("PATCH", path, `{"description":"x"}`, "If-Match", `"1"`), e.send("DELETE", path, "", "If-Match", `"1"`),
		e.send("POST", path+"/disable", "", "If-Match", `"1"`), e.send("POST", path+"/rotate-secret", "", "If-Match", `"1"`),
	} {
		r.wants(http.StatusPreconditionFailed, "WEBHOOK_VERSION_CONFLICT")
	}
	if r := e.send("POST", path+"/enable", ""); r.header.Get("ETag") != `"2"` {
		t.Errorf("enabling an enabled webhook made version %s", r.header.Get("ETag"))
	}
	if r := e.send("DELETE", path, "", "If-Match", `"2"`); r.status != http.StatusNoContent {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	e.send("GET", path, "").wants(http.StatusNotFound, "WEBHOOK_NOT_FOUND")
}

// A webhook for a workflow that there is not waits for it, or is misspelt: whoever
// makes or changes it is told.
func TestAWebhookSaysWhichOfItsWorkflowsThereAreNot(t *testing.T) {
	e := newEdge(t)
	if r := e.send("POST", workflows, `{"name":"order","steps":[{"name":"a","action":{"http":{"url":"https://h.example/"}},"compensation":"none"}]}`); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	unknown := func(r reply, want ...string) client.Webhook {
		t.Helper()
		var w client.Webhook
		if r.into(&w); r.status >= 300 || cmp.Diff(want, w.UnknownWorkflows) != "" {
			t.Errorf("%d, unknown %v, want %v", r.status, w.UnknownWorkflows, want)
		}
		return w
	}
	w := unknown(e.send("POST", hooks, `{"url":"https://h.example/in","workflow_names":["ordre","order","later"]}`), "later", "ordre")
	path := hooks + "/" + w.ID.String()
	unknown(e.send("GET", path, "")) // told to whoever could have misspelt it
	unknown(e.send("PATCH", path, `{"description":"d"}`))
	unknown(e.send("PATCH", path, `{"workflow_names":["order","later"]}`), "later")
	unknown(e.send("PATCH", path, `{"workflow_names":["order"]}`))
	unknown(e.send("PATCH", path, `{"workflow_names":[]}`))
	unknown(e.send("POST", hooks, `{"url":"https://h.example/in"}`))
}

func TestAWebhookThatCannotBeIsRefusedWithEveryMistake(t *testing.T) {
	e := newEdge(t)
	w := e.hook(`{"url":"https://h.example/in"}`)
	for _, tt := range []struct{ name, body, code, pointer string }{
		{"a type that does not exist", `{"url":"https://h/","event_types":["saga.completed","saga.done"]}`, "WEBHOOK_INVALID", "/event_types/1"},
		{"a star in the middle", `{"url":"https://h/","event_types":["saga.*.failed"]}`, "WEBHOOK_INVALID", "/event_types/0"},
		{"a name that no workflow has", `{"url":"https://h/","workflow_names":["a b"]}`, "WEBHOOK_INVALID", "/workflow_names/0"},
		{"another scheme", `{"url":"ftp://h/"}`, "WEBHOOK_INVALID", "/url"},
		{"a password", `{"url":"https://u:p@h/"}`, "WEBHOOK_INVALID", "/url"},
		{"an address in disguise", `{"url":"http://0x7f000001/"}`, "WEBHOOK_INVALID", "/url"},
		{"half an address", `{"url":"http://127.1/"}`, "WEBHOOK_INVALID", "/url"},
		{"where the server may not go", `{"url":"http://169.254.169.254/latest"}`, "WEBHOOK_URL_NOT_ALLOWED", "/url"},
		{"no URL", `{}`, "REQ_SCHEMA", "/url"},
		{"an unknown member", `{"url":"https://h/","secret":"s"}`, "REQ_SCHEMA", "/secret"},
	} {
		p := e.send("POST", hooks, tt.body).wants(http.StatusUnprocessableEntity, tt.code)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != tt.pointer {
			t.Errorf("%s: errors %+v", tt.name, p.Errors)
		}
		if tt.pointer == "/url" && tt.body != `{}` {
			e.send("PATCH", hooks+"/"+w.ID.String(), tt.body).wants(http.StatusUnprocessableEntity, tt.code)
		}
	}
	p := e.send("POST", hooks, `{"url":"gopher://h/","event_types":["x","y"]}`).wants(http.StatusUnprocessableEntity, "WEBHOOK_INVALID")
	if len(p.Errors) != 3 {
		t.Errorf("%d errors: %+v", len(p.Errors), p.Errors)
	}
}

func TestDeliveriesAreListedAndSentAgain(t *testing.T) {
	e := newEdge(t)
	path := hooks + "/" + e.hook(`{"url":"https://h.example/in"}`).ID.String()
	id := uuid.MustParse(path[len(hooks)+1:])
	e.failed(id)
	since := e.cfg.Now()
	last := e.failed(id)
	var page client.DeliveryList
	e.send("GET", path+"/deliveries?status=failed&page_size=1", "").into(&page)
	if len(page.Deliveries) != 1 || page.Deliveries[0].ID != last.ID || *page.Pagination.TotalCount != 2 || !page.Pagination.HasNext || page.Deliveries[0].Body != nil {
		t.Fatalf("page 1: %+v", page)
	}
	next := "/deliveries?status=failed&page_size=1&cursor=" + *page.Pagination.NextCursor
	page = client.DeliveryList{}
	e.send("GET", path+next, "").into(&page)
	if len(page.Deliveries) != 1 || page.Deliveries[0].ID == last.ID || page.Pagination.HasNext {
		t.Errorf("page 2: %+v", page)
	}
	e.send("GET", path+strings.Replace(next, "failed", "pending", 1), "").wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	e.send("GET", path+"/deliveries?status=lost", "").wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")

	var d client.Delivery
	one := path + "/deliveries/" + last.ID.String()
	e.send("GET", one, "").into(&d)
	if d.Status != "failed" || d.Attempts != 1 || *d.ResponseStatus != 500 || *d.EventID != "7" || string(d.Body) != `{"id":"7"}` || d.NextAttemptAt != nil {
		t.Errorf("delivery: %+v", d)
	}
	var all client.RedeliverResult
	e.send("POST", path+"/redeliver", `{"since":"`+since.Format(time.RFC3339Nano)+`"}`).into(&all)
	if all.Redelivered != 1 || all.More {
		t.Errorf("redelivered %+v, want the one since", all)
	}
	d = client.Delivery{}
	r := e.send("POST", one+"/redeliver", "")
	if r.into(&d); r.status != http.StatusAccepted || d.Status != "pending" || d.NextAttemptAt == nil || r.header.Get("Location") != one {
		t.Errorf("redeliver: %d %s", r.status, r.body)
	}
	e.send("GET", path+"/deliveries/"+uuid.NewString(), "").wants(http.StatusNotFound, "WEBHOOK_DELIVERY_NOT_FOUND")
	e.send("POST", path+"/deliveries/"+uuid.NewString()+"/redeliver", "").wants(http.StatusNotFound, "WEBHOOK_DELIVERY_NOT_FOUND")

	e.send("POST", path+"/disable", "")
	for _, r := range []reply{e.send("POST", path+"/test", ""), e.send("POST", one+"/redeliver", ""), e.send("POST", path+"/redeliver", `{"since":"2026-01-01T00:00:00Z"}`)} {
		if p := r.wants(http.StatusConflict, "WEBHOOK_DISABLED"); !strings.Contains(p.Detail, "disabled by request") {
			t.Errorf("detail %q", p.Detail)
		}
	}
	e.send("POST", path+"/enable", `{"from":"now"}`)
	d = client.Delivery{}
	e.send("GET", one, "").into(&d)
	if d.Status != "discarded" {
		t.Errorf("after enabling from now on: %+v", d)
	}
}

func TestATestIsADeliveryOfItsOwn(t *testing.T) {
	e := newEdge(t)
	path := hooks + "/" + e.hook(`{"url":"https://h.example/in"}`).ID.String()
	var d client.Delivery
	r := e.send("POST", path+"/test", "")
	r.into(&d)
	if r.status != http.StatusAccepted || d.EventID != nil || d.SagaID != nil || d.EventType != "webhook.ping" || !strings.Contains(string(d.Body), `"type":"io.skald.webhook.ping"`) ||
		!strings.Contains(string(d.Body), `"id":"`+d.ID.String()) {
		t.Errorf("test: %d %s", r.status, r.body)
	}
}

func TestAForeignWebhookIsAsUnknownAsAnyOther(t *testing.T) {
	mine := newEdge(t)
	w := mine.hook(`{"url":"https://h.example/in"}`)
	d := mine.failed(w.ID)
	other := newEdge(t, func(c *httpapi.Config) {
		c.Webhooks, c.Deliveries, c.Tenant = mine.store.Webhooks, mine.store.Webhooks, saga.Tenant{ID: uuid.New()}
	})
	for _, call := range [][3]string{
		{"GET", "", ""}, {"PATCH", "", `{"description":"x"}`}, {"DELETE", "", ""}, {"POST", "/enable", ""}, {"POST", "/disable", ""},
		{"POST", "/rotate-secret", ""}, {"POST", "/test", ""}, {"POST", "/redeliver", `{"since":"2026-01-01T00:00:00Z"}`}, {"GET", "/deliveries", ""},
		{"GET", "/deliveries/" + d.ID.String(), ""}, {"POST", "/deliveries/" + d.ID.String() + "/redeliver", ""},
	} {
		for _, id := range []string{w.ID.String(), uuid.NewString()} {
			other.send(call[0], hooks+"/"+id+call[1], call[2]).wants(http.StatusNotFound, "WEBHOOK_NOT_FOUND")
		}
	}
	var list client.WebhookList
	other.send("GET", hooks, "").into(&list)
	if len(list.Webhooks) != 0 || *list.Pagination.TotalCount != 0 {
		t.Errorf("a foreign webhook is listed: %+v", list)
	}
	mine.send("GET", hooks+"?page_size=1", "").into(&list)
	if len(list.Webhooks) != 1 || list.Webhooks[0].ID != w.ID {
		t.Errorf("listed %+v", list)
	}
}
