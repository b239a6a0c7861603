package apitest

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/event/webhook"
)

// CheckEndpoint stands in for the egress policy.
func CheckEndpoint(url string) string {
	if strings.Contains(url, "//169.254.") {
		return "the server may not connect to it"
	}
	return ""
}

func (e *Edge) Hook(body string) client.Webhook {
	e.T.Helper()
	r := e.Send("POST", WebhooksPath, body)
	var w client.Webhook
	if r.Into(&w); r.Status != http.StatusCreated || r.Header.Get("Location") != WebhooksPath+"/"+w.ID.String() ||
		r.Header.Get("ETag") != `"1"` {
		e.T.Fatalf("create %s: %d %v %s", body, r.Status, r.Header, r.Body)
	}
	return w
}

// Failed gives a webhook one more delivery, which was given up.
func (e *Edge) Failed(id uuid.UUID) webhook.Delivery {
	e.T.Helper()
	sub, err := e.Store.Webhooks.Get(e.T.Context(), Tenant.ID, id)
	if err != nil {
		e.T.Fatal(err)
	}
	now := e.Cfg.Now()
	d := webhook.Delivery{
		TenantID: Tenant.ID, WebhookID: id, ID: e.Cfg.NewID(), EventID: 7, EventType: string(eventtype.SagaCompleted),
		SagaID: e.Cfg.NewID(),
		Body:   []byte(`{"id":"7"}`), Status: webhook.Pending, DueAt: now, CreatedAt: now,
	}
	if err := e.Store.Webhooks.Add(e.T.Context(), d); err != nil {
		e.T.Fatal(err)
	}
	claimed, err := e.Store.Webhooks.Claim(e.T.Context(), &sub, e.Cfg.Now(), time.Minute, 1)
	if err != nil || len(claimed) != 1 {
		e.T.Fatalf("claimed %d, %v", len(claimed), err)
	}
	once := webhook.DefaultPolicy
	once.Retry.MaxAttempts = 1
	r, _, err := e.Store.Webhooks.Settle(e.T.Context(), &claimed[0], webhook.Outcome{Status: 500}, once,
		webhook.Moment{Now: e.Cfg.Now()})
	if err != nil {
		e.T.Fatal(err)
	}
	return r.Delivery
}

const WebhooksPath = "/api/v1/webhooks"
