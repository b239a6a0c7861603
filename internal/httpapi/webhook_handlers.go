package httpapi

import (
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// webhookHandlers are the operations on webhooks and their deliveries. Every field
// is required.
type webhookHandlers struct {
	*Kit
	Webhooks   webhook.Store
	Deliveries webhook.Log
	Workflows  workflow.Store
	// CheckEndpoint says why deliveries could never go to a webhook's URL, "" when
	// they may; in words fit for the tenant.
	CheckEndpoint func(url string) (reason string)
}
