// Package letterpages contains the pages of dead letters: groups of errors, letters, topics and
// redrives.
//
// Files, each on top of those before it: explain, letters, content, diff, letteractions, carried,
// redrivewords, policies, edit, groups, imports, letter, overlaps, pages, redriveform, redrives,
// topics.
package letterpages

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
	k.Page("GET /ui/dlq", p.groups)
	k.Page("GET /ui/dlq/groups/{fingerprint}", p.group)
	k.Action("/ui/dlq/groups/{fingerprint}/{verb}", p.groupAction)
	k.Page("GET /ui/dlq/letters", p.letters)
	k.Page("GET /ui/dlq/archive", p.archive)
	k.Page("GET /ui/dlq/letters/{letter}", p.letter)
	k.Page("GET /ui/dlq/letters/{letter}/content", p.download)
	k.Page("GET /ui/dlq/topics", p.topics)
	k.Page("GET /ui/dlq/topics/{topic}", p.topic)
	k.Action("/ui/dlq/topics/{topic}/policy", p.policyOf)
	k.Action("/ui/dlq/policy", p.policyOf)
	k.Page("GET /ui/dlq/import", p.importForm)
	k.Page("POST /ui/dlq/import", p.imported)
	k.Page("GET /ui/redrives", p.redrives)
	k.Page("GET /ui/redrives/{redrive}", p.redrive)
	k.Action("/ui/redrives/new", p.newRedrive)
	k.Action("/ui/redrives/{redrive}/actions/{verb}", p.redriveAction)
	k.Action("/ui/dlq/letters/{letter}/actions/edit", p.edit)
	k.Action("/ui/dlq/letters/{letter}/actions/{verb}", p.letterAction)
	return k.Templates(templates)
}
