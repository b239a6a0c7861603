// Package systempages has the pages about everything at once: the overview.
//
// Files, each on top of those before it: overview, pages.
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
	return k.Templates(templates)
}
