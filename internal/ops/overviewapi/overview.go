package overviewapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/rest"
)

// GetOverview returns what needs a person.
func (s *Handlers) GetOverview(ctx context.Context, _ api.GetOverviewRequestObject) (api.Response, error) {
	tenant := rest.RequestOf(ctx).Tenant.ID
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	o, err := s.known.get(ctx, tenant, s.Now, func() (overview.Overview, error) {
		ctx, cancel := s.Promised(ctx) // others wait for it too
		defer cancel()
		return s.Store.Overview(ctx, tenant)
	})
	if err != nil {
		return nil, err
	}
	out := api.Overview{CheckedAt: o.At, Causes: []api.OverviewCause{}, Nodes: []api.OverviewNode{},
		NextRuns: []api.OverviewSlot{}, Topics: []api.OverviewTopic{}, SealedAt: o.SealedAt}
	var shown func(overview.Part) bool
	out.Omitted, shown = s.omitted(ctx)
	for i := range o.Causes {
		if c := &o.Causes[i]; shown(c.Part()) {
			out.Causes = append(out.Causes, toAPICause(ctx, c))
		}
	}
	out.Counts = toAPICounts(&o, shown)
	if shown(overview.DeadLetters) {
		out.Topics = rest.Each(o.Topics, toAPITopic)
	}
	if shown(overview.JobRuns) {
		out.NextRuns = rest.Each(o.Next, func(n *overview.Slot) api.OverviewSlot {
			return api.OverviewSlot{Definition: n.Definition, DueAt: n.DueAt}
		})
		if l := o.Leader; l != nil {
			out.Leader = &api.OverviewLeader{Node: l.Node, Epoch: l.Epoch, Holds: l.Holds, ExpiresAt: l.ExpiresAt,
				SweptAt: l.SweptAt}
		}
	}
	if shown(overview.Nodes) {
		out.Nodes = rest.Each(o.Nodes, func(n *overview.Node) api.OverviewNode {
			return api.OverviewNode{Name: n.Name, Alive: n.Alive, LeaseUntil: n.LeaseUntil}
		})
	}
	return rest.Answer{Status: http.StatusOK, Body: out}, nil
}

func toAPICause(ctx context.Context, c *overview.Cause) api.OverviewCause {
	next := c.Next()
	return api.OverviewCause{
		Key: c.Key(), Kind: api.OverviewCauseKind(c.Kind), Part: api.OverviewPart(c.Part()),
		Summary: c.Summary(), Means: c.Means(), Count: c.Count.N, IsCapped: c.Count.Capped, Since: c.Since,
		Name: rest.UnlessEmpty(c.Name), Step: rest.UnlessEmpty(c.Step), Code: rest.UnlessEmpty(c.Code),
		ID: rest.UnlessEmpty(c.Only()), Link: c.Link(),
		Next: api.OverviewStep{Operation: next.Operation, Permission: string(next.Permission),
			Allowed: may(ctx, next.Permission)},
	}
}

func toAPICount(c overview.Count) api.OverviewCount {
	return api.OverviewCount{Count: c.N, IsCapped: c.Capped}
}

// toAPICounts returns the counts of the parts that are shown.
func toAPICounts(o *overview.Overview, shown func(overview.Part) bool) api.OverviewCounts {
	of := func(p overview.Part, c overview.Count) *api.OverviewCount {
		if !shown(p) {
			return nil
		}
		return new(toAPICount(c))
	}
	hooks := overview.Webhooks
	return api.OverviewCounts{
		SagasActive: of(overview.Sagas, o.Active), SagasNeedAttention: of(overview.Sagas, o.Attention),
		SagasStuck:  of(overview.Sagas, o.Stuck),
		LettersOpen: of(overview.DeadLetters, o.LettersOpen), GroupsNew: of(overview.DeadLetters, o.GroupsNew),
		GroupsRegressed: of(overview.DeadLetters, o.GroupsRegressed),
		RedrivesHalted:  of(overview.DeadLetters, o.RedrivesHalted),
		RedrivesAwaitingApproval: of(overview.DeadLetters,
			o.RedrivesWaiting),
		RunsFailed: of(overview.JobRuns, o.RunsFailed), RunsLate: of(overview.JobRuns, o.RunsLate),
		RunsUnclaimable: of(overview.JobRuns, o.RunsUnclaimable), DefinitionsPaused: of(overview.JobRuns, o.Paused),
		WorkersLost:      of(overview.JobRuns, o.WorkersLost),
		WebhooksDisabled: of(hooks, o.WebhooksDisabled), WebhooksFailing: of(hooks, o.WebhooksFailed),
	}
}

func toAPITopic(t *overview.Topic) api.OverviewTopic {
	out := api.OverviewTopic{Topic: t.Topic, Alerts: []api.OverviewTopicAlerts{}, Open: toAPICount(t.Open),
		OldestAt: t.Oldest}
	for _, a := range t.Alerts {
		out.Alerts = append(out.Alerts, api.OverviewTopicAlerts(a))
	}
	return out
}
