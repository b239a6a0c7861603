// Package sagapages contains the pages of sagas: the list, one saga with its state, history and
// possible actions, and the forms for these actions.
//
// Files, each on top of those before it: story, gantt, reads, compare, attempt, verbs, actions,
// filters, export, track, rail, sagas, state, tabs, bulk, drawn, errors, notes, pages, retry, saga,
// start.
package sagapages

import (
	"embed"

	"github.com/skald-saga/skald/internal/ui/web"
)

//go:embed templates
var templates embed.FS

// Register adds the pages to k.
func Register(k *web.Kit) error {
	p := &pages{k}
	k.Page("GET /ui/sagas", p.list)
	k.Page("GET /ui/sagas/export.csv", p.export)
	k.Page("GET /ui/sagas/export.ndjson", p.export)
	k.Action("/ui/sagas/new", p.start)
	k.Action("/ui/sagas/bulk/new", p.newBulk)
	k.Page("GET /ui/sagas/bulk/{bulk}", p.bulk)
	k.Action("/ui/sagas/bulk/{bulk}/actions/{action}", p.bulkAction)
	k.Page("GET /ui/sagas/errors", p.errors)
	k.Page("GET /ui/sagas/{saga}", p.saga)
	k.Action("/ui/sagas/{saga}/actions/{action}", p.action)
	k.Action("/ui/sagas/{saga}/actions/note", p.note)
	return k.Templates(templates)
}
