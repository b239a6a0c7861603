// Package eventapi is the HTTP edge of webhooks and their deliveries.
package eventapi

import (
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Handlers are the operations on webhooks and their deliveries. Every field
// is required.
type Handlers struct {
	*rest.Kit
	Webhooks   webhook.Store
	Deliveries webhook.Log
	Workflows  workflow.Store
	// CheckEndpoint says why deliveries could never go to a webhook's URL, "" when
	// they may; in words fit for the tenant.
	CheckEndpoint func(url string) (reason string)
}
