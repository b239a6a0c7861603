// Package jobpages has the pages of jobs: definitions, the calendar, runs with their logs, workers.
//
// Files, each on top of those before it: words, bars, runrow, takers, definitions, definition, definition_form,
// definition_actions, backfills, pages.
package jobpages

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
	k.Page("GET /ui/jobs", p.definitions)
	k.Action("/ui/jobs/new", p.create)
	k.Page("GET /ui/jobs/{definition}", p.definition)
	k.Action("/ui/jobs/{definition}/actions/edit", p.edit)
	k.Action("/ui/jobs/{definition}/actions/pause", p.pause)
	k.Action("/ui/jobs/{definition}/actions/resume", p.resume)
	k.Action("/ui/jobs/{definition}/actions/delete", p.remove)
	k.Action("/ui/jobs/{definition}/actions/run", p.run)
	k.Action("/ui/jobs/{definition}/actions/backfill", p.backfill)
	k.Page("GET /ui/backfills/{backfill}", p.backfillProgress)
	k.Action("/ui/backfills/{backfill}/cancel", p.cancelBackfill)
	return k.Templates(templates)
}
