package httpapi_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/saga"
)

// checkEndpoint stands for the egress policy.
func checkEndpoint(url string) string {
	if strings.Contains(url, "//169.254.") {
		return "the server may not connect to it"
	}
	return ""
}

func (e *edge) hook(body string) client.Webhook {
	e.t.Helper()
	r := e.send("POST", hooks, body)
	var w client.Webhook
	if r.into(&w); r.status != http.StatusCreated || r.header.Get("Location") != hooks+"/"+w.ID.String() || r.header.Get("ETag") != `"1"` {
		e.t.Fatalf("create %s: %d %v %s", body, r.status, r.header, r.body)
	}
	return w
}

// failed gives a webhook a delivery that was given up.
func (e *edge) failed(id uuid.UUID) webhook.Delivery {
	e.t.Helper()
	sub, err := e.store.Webhooks.Get(e.t.Context(), tenant.ID, id)
	if err != nil {
		e.t.Fatal(err)
	}
	now := e.cfg.Now()
	d := webhook.Delivery{
		TenantID: tenant.ID, WebhookID: id, ID: e.cfg.NewID(), EventID: 7, EventType: string(saga.SagaCompleted), SagaID: e.cfg.NewID(),
		Body: []byte(`{"id":"7"}`), Status: webhook.Pending, DueAt: now, CreatedAt: now,
	}
	if err := e.store.Webhooks.Add(e.t.Context(), d); err != nil {
		e.t.Fatal(err)
	}
	claimed, err := e.store.Webhooks.Claim(e.t.Context(), &sub, e.cfg.Now(), time.Minute, 1)
	if err != nil || len(claimed) != 1 {
		e.t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	once := webhook.DefaultPolicy
	once.Retry.MaxAttempts = 1
	r, _, err := e.store.Webhooks.Settle(e.t.Context(), &claimed[0], webhook.Outcome{Status: 500}, once, webhook.Moment{Now: e.cfg.Now()})
	if err != nil {
		e.t.Fatal(err)
	}
	return r.Delivery
}

const hooks = "/api/v1/webhooks"
