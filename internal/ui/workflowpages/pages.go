// Package workflowpages renders the pages of workflows: their versions, the differences between
// them, and their registration.
//
// Files, each on top of those before it: steps, yamltext, actions, changes, window, series, statistics,
// certifications, graph, timing, workflows, workflow, mistakes, simulate_answers, pages, register, simulate.
package workflowpages

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
	k.Page("GET /ui/statistics", p.statistics)
	k.Page("GET /ui/workflows", p.list)
	k.Page("GET /ui/workflows/{workflow}", p.workflow)
	k.Page("GET /ui/certifications/{certification}", p.certification)
	k.Action("/ui/certify", p.certify)
	k.Action("/ui/certifications/{certification}/cancel", p.cancelCertification)
	k.Action("/ui/workflows/{workflow}/enable", p.enable)
	k.Action("/ui/workflows/{workflow}/disable", p.disable)
	// This is not below /ui/workflows/, where it would hide a workflow with that name.
	k.Page("GET /ui/register-workflow", p.register)
	k.Page("POST /ui/register-workflow", p.registered)
	k.Page("GET /ui/simulate-workflow", p.simulate)
	k.Page("POST /ui/simulate-workflow", p.simulate)
	return k.Templates(templates)
}
