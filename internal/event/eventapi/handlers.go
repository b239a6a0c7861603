// Package eventapi is the HTTP edge of webhooks and their deliveries.
package eventapi

import (
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Handlers are the operations on webhooks and their deliveries. Every field
// is required.
type Handlers struct {
	*httpkit.Kit
	Webhooks   webhook.Store
	Deliveries webhook.Log
	Workflows  workflow.Store
	// CheckEndpoint returns why deliveries could never be sent to a webhook's URL, "" if they
	// can; the text is shown to the tenant.
	CheckEndpoint func(url string) (reason string)
}
