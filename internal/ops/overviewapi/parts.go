package overviewapi

import (
	"context"
	"slices"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/principal"
)

// may reports whether the caller has a permission. Without authentication every caller has it.
func may(ctx context.Context, p principal.Permission) bool {
	req := httpkit.RequestOf(ctx)
	return req.Who.Subject == "" || req.Who.Role.Allows(p)
}

// needs maps each part to the permission that it requires in addition to the operation's.
var needs = map[overview.Part]principal.Permission{
	overview.Sagas: principal.SagasRead, overview.Webhooks: principal.SagasRead, overview.Nodes: principal.SagasRead,
	overview.DeadLetters: principal.DLQRead, overview.JobRuns: principal.JobsRead,
}

// omitted lists the parts that are withheld from the caller; shown reports which parts are included.
func (s *Handlers) omitted(ctx context.Context) (out []api.OverviewOmitted, shown func(overview.Part) bool) {
	out = []api.OverviewOmitted{}
	var hidden []overview.Part
	for _, p := range overview.Parts {
		var because api.OverviewOmittedBecause
		switch {
		case slices.Contains(s.Store.Missing(), p):
			because = api.OverviewOmittedBecauseStore
		case !may(ctx, needs[p]):
			because = api.OverviewOmittedBecausePermission
		default:
			continue
		}
		hidden = append(hidden, p)
		out = append(out, api.OverviewOmitted{Part: api.OverviewPart(p), Because: because})
	}
	return out, func(p overview.Part) bool { return !slices.Contains(hidden, p) }
}
