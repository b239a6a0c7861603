// Package eventapi is the HTTP API for webhooks and their deliveries.
package eventapi

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Handlers are the operations on webhooks and their deliveries. Every field but Gate
// is required.
type Handlers struct {
	*httpkit.Kit
	Webhooks   webhook.Store
	Deliveries webhook.Log
	Workflows  workflow.Store
	// CheckEndpoint returns the reason why deliveries could never be sent to a webhook's URL, or ""
	// if they can. The text is shown to the tenant.
	CheckEndpoint func(url string) (reason string)
	// Gate returns the gate at which calls of a URL wait, or nil if they need not wait. If Gate
	// itself is nil, there are no gates.
	Gate func(tenant uuid.UUID, url string) *api.GateWait
}

// gate returns the gate at which the deliveries of a webhook wait.
func (s *Handlers) gate(tenant uuid.UUID, url string) *api.GateWait {
	if s.Gate == nil {
		return nil
	}
	return s.Gate(tenant, url)
}
