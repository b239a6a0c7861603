package eventapi_test

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
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestASecretIsShownWhereItIsMadeAndNeverAgain(t *testing.T) {
	e := apitest.NewEdge(t)
	w := e.Hook(`{"url":"https://h.example/in","description":"d","event_types":["saga.failed","compensation.*"],"workflow_names":["order"]}`)
	first := *w.Secret
	if key, err := webhooks.ParseSecret(first); err != nil || len(key) != 32 {
		t.Fatalf("secret %q: %v", first, err)
	}
	path := apitest.WebhooksPath + "/" + w.ID.String()
	for _, r := range []apitest.Reply{
		e.Send("GET", path, ""), e.Send("GET", apitest.WebhooksPath, ""), e.Send("PATCH", path, `{"description":"e"}`),
		e.Send("POST", path+"/disable", ""),
		e.Send("POST", path+"/enable", ""),
	} {
		if r.Status != http.StatusOK || strings.Contains(string(r.Body), "whsec_") {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	var rotated client.Webhook
	r := e.Send("POST", path+"/rotate-secret", "", "If-Match", `"4"`)
	r.Reads(http.StatusOK, &rotated)
	if rotated.Secret == nil || *rotated.Secret == first {
		t.Fatalf("no new secret: %s", r.Body)
	}
	if s := rotated.Secrets; len(s) != 2 || s[0].ExpiresAt != nil || s[1].ExpiresAt == nil {
		t.Fatalf("rotated: %s", r.Body)
	}
	stored, err := e.Store.Webhooks.Get(t.Context(), apitest.Tenant.ID, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := stored.Keys(e.Cfg.Now()); len(got) != 2 || webhooks.FormatSecret(got[0]) != *rotated.Secret ||
		webhooks.FormatSecret(got[1]) != first {
		t.Errorf("%d keys sign, want the new one and the former", len(got))
	}
	if strings.Contains(e.Log.String(), "whsec_") {
		t.Error("a secret was logged")
	}
}

func TestAWebhookIsChangedByWhatTheBodyNames(t *testing.T) {
	e := apitest.NewEdge(t)
	w := e.Hook(`{"url":"https://h.example/in","event_types":["saga.*","saga.*"],"enabled":false}`)
	path := apitest.WebhooksPath + "/" + w.ID.String()
	if cmp.Diff([]string{"saga.*"}, w.EventTypes) != "" || w.Enabled || *w.DisabledReason == "" {
		t.Fatalf("created %+v", w)
	}
	var changed client.Webhook
	r := e.Send("PATCH", path, `{"url":"https://other.example/","event_types":[],"enabled":true}`, "If-Match", `"1"`)
	r.Into(&changed)
	want := changed
	want.URL, want.EventTypes, want.Enabled, want.DisabledReason, want.Version = "https://other.example/",
		nil, true, nil, 2
	if diff := cmp.Diff(want, changed, cmpopts.EquateEmpty()); diff != "" || r.Status != http.StatusOK ||
		r.Header.Get("ETag") != `"2"` {
		t.Errorf("changed: %d, ETag %s (-want +got):\n%s", r.Status, r.Header.Get("ETag"), diff)
	}
	for _, r := range []apitest.Reply{
		e.Send("PATCH", path, `{"description":"x"}`, "If-Match", `"1"`), e.Send("DELETE", path, "", "If-Match", `"1"`),
		e.Send("POST", path+"/disable", "", "If-Match", `"1"`), e.Send("POST", path+"/rotate-secret", "", "If-Match", `"1"`),
	} {
		r.Wants(http.StatusPreconditionFailed, "WEBHOOK_VERSION_CONFLICT")
	}
	if r := e.Send("POST", path+"/enable", ""); r.Header.Get("ETag") != `"2"` {
		t.Errorf("enabling an enabled webhook made version %s", r.Header.Get("ETag"))
	}
	if r := e.Send("DELETE", path, "", "If-Match", `"2"`); r.Status != http.StatusNoContent {
		t.Errorf("delete: %d %s", r.Status, r.Body)
	}
	e.Send("GET", path, "").Wants(http.StatusNotFound, "WEBHOOK_NOT_FOUND")
}

// A webhook for a workflow that does not exist either waits for that workflow, or the name is
// misspelled. The response to creating or changing the webhook therefore contains a warning.
func TestAWebhookReportsItsUnknownWorkflows(t *testing.T) {
	e := apitest.NewEdge(t)
	if r := e.Send("POST", apitest.WorkflowsPath, `{"name":"order","steps":[{"name":"a","action":{"http":{"url":"https://h.example/"}},"compensation":"none"}]}`); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	unknown := func(r apitest.Reply, want ...string) client.Webhook {
		t.Helper()
		var w client.Webhook
		if r.Into(&w); r.Status >= 300 || cmp.Diff(want, w.UnknownWorkflows) != "" {
			t.Errorf("%d, unknown %v, want %v", r.Status, w.UnknownWorkflows, want)
		}
		return w
	}
	w := unknown(e.Send("POST", apitest.WebhooksPath, `{"url":"https://h.example/in","workflow_names":["ordre","order","later"]}`), "later", "ordre")
	path := apitest.WebhooksPath + "/" + w.ID.String()
	unknown(e.Send("GET", path, "")) // the warning is also shown when the webhook is read
	unknown(e.Send("PATCH", path, `{"description":"d"}`))
	unknown(e.Send("PATCH", path, `{"workflow_names":["order","later"]}`), "later")
	unknown(e.Send("PATCH", path, `{"workflow_names":["order"]}`))
	unknown(e.Send("PATCH", path, `{"workflow_names":[]}`))
	unknown(e.Send("POST", apitest.WebhooksPath, `{"url":"https://h.example/in"}`))
}

func TestAnInvalidWebhookIsRefusedWithEveryMistake(t *testing.T) {
	e := apitest.NewEdge(t)
	w := e.Hook(`{"url":"https://h.example/in"}`)
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
		p := e.Send("POST", apitest.WebhooksPath, tt.body).Wants(http.StatusUnprocessableEntity, tt.code)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != tt.pointer {
			t.Errorf("%s: errors %+v", tt.name, p.Errors)
		}
		if tt.pointer == "/url" && tt.body != `{}` {
			e.Send("PATCH", apitest.WebhooksPath+"/"+w.ID.String(), tt.body).Wants(http.StatusUnprocessableEntity, tt.code)
		}
	}
	p := e.Send("POST", apitest.WebhooksPath, `{"url":"gopher://h/","event_types":["x","y"]}`).Wants(http.StatusUnprocessableEntity, "WEBHOOK_INVALID")
	if len(p.Errors) != 3 {
		t.Errorf("%d errors: %+v", len(p.Errors), p.Errors)
	}
}

func TestDeliveriesAreListedAndSentAgain(t *testing.T) {
	e := apitest.NewEdge(t)
	path := apitest.WebhooksPath + "/" + e.Hook(`{"url":"https://h.example/in"}`).ID.String()
	id := uuid.MustParse(path[len(apitest.WebhooksPath)+1:])
	e.Failed(id)
	since := e.Cfg.Now()
	last := e.Failed(id)
	var page client.DeliveryList
	e.Send("GET", path+"/deliveries?status=failed&page_size=1", "").Into(&page)
	if len(page.Deliveries) != 1 || *page.Pagination.TotalCount != 2 || !page.Pagination.HasNext {
		t.Fatalf("page 1: %+v", page)
	}
	if d := page.Deliveries[0]; d.ID != last.ID || d.Body != nil {
		t.Fatalf("page 1: %+v", d)
	}
	next := "/deliveries?status=failed&page_size=1&cursor=" + *page.Pagination.NextCursor
	page = client.DeliveryList{}
	e.Send("GET", path+next, "").Into(&page)
	if len(page.Deliveries) != 1 || page.Deliveries[0].ID == last.ID || page.Pagination.HasNext {
		t.Errorf("page 2: %+v", page)
	}
	e.Send("GET", path+strings.Replace(next, "failed", "pending", 1), "").Wants(http.StatusBadRequest,
		"REQ_INVALID_PARAMETER")
	e.Send("GET", path+"/deliveries?status=lost", "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")

	var d client.Delivery
	one := path + "/deliveries/" + last.ID.String()
	e.Send("GET", one, "").Into(&d)
	want := d
	want.Status, want.Attempts, want.ResponseStatus = "failed", 1, new(500)
	want.EventID, want.Body, want.NextAttemptAt = new("7"), client.JSONObject(`{"id":"7"}`), nil
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the delivery (-want +got):\n%s", diff)
	}
	var all client.RedeliverResult
	e.Send("POST", path+"/redeliver", `{"since":"`+since.Format(time.RFC3339Nano)+`"}`).Into(&all)
	if all.Redelivered != 1 || all.More {
		t.Errorf("redelivered %+v, want the one since", all)
	}
	d = client.Delivery{}
	r := e.Send("POST", one+"/redeliver", "")
	if r.Into(&d); r.Status != http.StatusAccepted || d.Status != "pending" || d.NextAttemptAt == nil ||
		r.Header.Get("Location") != one {
		t.Errorf("redeliver: %d %s", r.Status, r.Body)
	}
	e.Send("GET", path+"/deliveries/"+uuid.NewString(), "").Wants(http.StatusNotFound, "WEBHOOK_DELIVERY_NOT_FOUND")
	e.Send("POST", path+"/deliveries/"+uuid.NewString()+"/redeliver", "").Wants(http.StatusNotFound,
		"WEBHOOK_DELIVERY_NOT_FOUND")

	e.Send("POST", path+"/disable", "")
	for _, r := range []apitest.Reply{e.Send("POST", path+"/test", ""), e.Send("POST", one+"/redeliver", ""),
		e.Send("POST", path+"/redeliver", `{"since":"2026-01-01T00:00:00Z"}`)} {
		if p := r.Wants(http.StatusConflict, "WEBHOOK_DISABLED"); !strings.Contains(p.Detail, "disabled by request") {
			t.Errorf("detail %q", p.Detail)
		}
	}
	e.Send("POST", path+"/enable", `{"from":"now"}`)
	d = client.Delivery{}
	e.Send("GET", one, "").Into(&d)
	if d.Status != "discarded" {
		t.Errorf("after enabling from now on: %+v", d)
	}
}

func TestATestEventIsADelivery(t *testing.T) {
	e := apitest.NewEdge(t)
	path := apitest.WebhooksPath + "/" + e.Hook(`{"url":"https://h.example/in"}`).ID.String()
	var d client.Delivery
	r := e.Send("POST", path+"/test", "")
	r.Reads(http.StatusAccepted, &d)
	want := d
	want.EventID, want.SagaID, want.EventType = nil, nil, "webhook.ping"
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("a test (-want +got):\n%s", diff)
	}
	for _, part := range []string{`"type":"io.skald.webhook.ping"`, `"id":"` + d.ID.String()} {
		if !strings.Contains(string(d.Body), part) {
			t.Errorf("its body has no %s: %s", part, d.Body)
		}
	}
}

func TestAWebhookOfAnotherTenantIsNotFound(t *testing.T) {
	mine := apitest.NewEdge(t)
	w := mine.Hook(`{"url":"https://h.example/in"}`)
	d := mine.Failed(w.ID)
	other := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Webhooks, c.Access.Tenant = mine.Cfg.Webhooks, tenant.Tenant{ID: uuid.New()}
	})
	for _, call := range [][3]string{
		{"GET", "", ""}, {"PATCH", "", `{"description":"x"}`}, {"DELETE", "", ""}, {"POST", "/enable", ""}, {"POST", "/disable", ""},
		{"POST", "/rotate-secret", ""}, {"POST", "/test", ""}, {"POST", "/redeliver", `{"since":"2026-01-01T00:00:00Z"}`}, {"GET", "/deliveries", ""},
		{"GET", "/deliveries/" + d.ID.String(), ""}, {"POST", "/deliveries/" + d.ID.String() + "/redeliver", ""},
	} {
		for _, id := range []string{w.ID.String(), uuid.NewString()} {
			other.Send(call[0], apitest.WebhooksPath+"/"+id+call[1], call[2]).Wants(http.StatusNotFound, "WEBHOOK_NOT_FOUND")
		}
	}
	var list client.WebhookList
	other.Send("GET", apitest.WebhooksPath, "").Into(&list)
	if len(list.Webhooks) != 0 || *list.Pagination.TotalCount != 0 {
		t.Errorf("a foreign webhook is listed: %+v", list)
	}
	mine.Send("GET", apitest.WebhooksPath+"?page_size=1", "").Into(&list)
	if len(list.Webhooks) != 1 || list.Webhooks[0].ID != w.ID {
		t.Errorf("listed %+v", list)
	}
}
