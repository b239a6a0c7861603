// Package systempages has the pages about everything at once: the overview, the search, webhooks, and the timeline of a
// correlation.
//
// Files, each on top of those before it: minutes, overview, search, webhooks_actions, participants, webhooks,
// timeline, pages.
package systempages

import (
	"embed"

	"github.com/skald-saga/skald/internal/ui/web"
)

//go:embed templates
var templates embed.FS

type pages struct{ kit *web.Kit }

// Register adds the pages to k.
func Register(k *web.Kit) error {
	p := &pages{k}
	k.Page("GET /ui/{$}", p.overview)
	k.Page("GET /ui/search", p.search)
	p.registerWebhooks()
	p.registerParticipants()
	k.Page("GET /ui/timeline", p.timeline)
	return k.Templates(templates)
}
