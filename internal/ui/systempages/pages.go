// Package systempages has the pages about everything at once: the overview; and those of webhooks.
//
// Files, each on top of those before it: overview, webhooks_actions, webhooks, pages.
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
	p.registerWebhooks()
	return k.Templates(templates)
}
