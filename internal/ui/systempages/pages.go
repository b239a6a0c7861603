// Package systempages contains the pages that concern the whole system: the overview, the search,
// webhooks, and the timeline of a correlation.
//
// Files, each on top of those before it: minutes, overview, search, webhooks_actions, participants,
// webhooks, timeline, pages.
package systempages

import (
	"embed"
	"time"

	"github.com/skald-saga/skald/internal/ui/web"
)

//go:embed templates
var templates embed.FS

type pages struct {
	kit     *web.Kit
	answers web.Shared[answer] // responses for the overview
}

// Register adds the pages to k.
func Register(k *web.Kit) error {
	p := &pages{kit: k, answers: web.Shared[answer]{For: 2 * time.Second}} // the API's own are up to 5 s old
	k.Page("GET /ui/{$}", p.overview)
	k.Page("GET /ui/search", p.search)
	p.registerWebhooks()
	p.registerParticipants()
	k.Page("GET /ui/timeline", p.timeline)
	return k.Templates(templates)
}
