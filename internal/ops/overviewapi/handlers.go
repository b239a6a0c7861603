// Package overviewapi implements the HTTP operations of the overview, the search and the streams of states.
//
// Files, each on top of those before it: parts, known, overview, search, watch, places, handlers.
package overviewapi

import (
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/ops/overview"
)

// Handlers are the operations of the overview.
type Handlers struct {
	*httpkit.Kit
	Store overview.Store
	// Loops returns the background loops of this node.
	Loops func() []overview.Loop

	known known
}

// New returns the handlers configured by h.
func New(h *Handlers) *Handlers {
	h.known.of, h.known.read, h.known.now = map[tenantID]*kept{}, h.Store.Overview, h.Now
	h.known.within, h.known.stopping = h.Limits.RequestTimeout, h.Stopping
	return h
}
