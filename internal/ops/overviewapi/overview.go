package overviewapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/ops/overview"
)

// GetOverview returns the list of what needs a person.
func (s *Handlers) GetOverview(ctx context.Context, in api.GetOverviewRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	o, err := s.known.get(ctx, httpkit.RequestOf(ctx).Tenant.ID)
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
	out.Traffic = toAPITraffic(&o.Traffic, shown)
	out.Minutes = toAPIMinutes(o.Minutes, shown)
	if shown(overview.DeadLetters) {
		out.Topics = httpkit.Each(o.Topics, toAPITopic)
	}
	if shown(overview.JobRuns) {
		out.NextRuns = httpkit.Each(o.Next, func(n *overview.Slot) api.OverviewSlot {
			return api.OverviewSlot{Definition: n.Definition, DueAt: n.DueAt}
		})
		if l := o.Leader; l != nil {
			out.Leader = &api.OverviewLeader{Node: l.Node, Epoch: l.Epoch, Holds: l.Holds, ExpiresAt: l.ExpiresAt,
				SweptAt: l.SweptAt}
		}
	}
	if shown(overview.Nodes) {
		out.Nodes = httpkit.Each(o.Nodes, func(n *overview.Node) api.OverviewNode {
			return api.OverviewNode{Name: n.Name, Alive: n.Alive, LeaseUntil: n.LeaseUntil}
		})
	}
	tag, err := tagOf(out, o.Quiet())
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: tag}.Unchanged(in.Params.IfNoneMatch)
}

// tagOf returns the entity tag of an overview. It ignores the times of the reading and of lease
// renewals, and the timestamps of minutes in which nothing happened.
func tagOf(o api.Overview, quiet bool) (string, error) {
	o.CheckedAt, o.SealedAt = time.Time{}, nil
	if quiet {
		o.Minutes = nil
	}
	if o.Leader != nil {
		o.Leader = new(*o.Leader)
		o.Leader.ExpiresAt, o.Leader.SweptAt = time.Time{}, nil
	}
	o.Nodes = slices.Clone(o.Nodes)
	for i := range o.Nodes {
		if o.Nodes[i].Alive {
			o.Nodes[i].LeaseUntil = time.Time{}
		}
	}
	text, err := json.Marshal(o)
	sum := sha256.Sum256(text)
	return `W/"` + hex.EncodeToString(sum[:12]) + `"`, err
}

// toAPITraffic returns the traffic of the parts that are shown.
func toAPITraffic(t *overview.Traffic, shown func(overview.Part) bool) *api.OverviewTraffic {
	of := func(p overview.Part, f overview.Flow) *api.OverviewFlow {
		if !shown(p) || f.Over == 0 {
			return nil
		}
		return &api.OverviewFlow{Count: f.N, Seconds: f.Over.Seconds(), PerMinute: f.PerMinute()}
	}
	out := &api.OverviewTraffic{Sagas: of(overview.Sagas, t.Sagas), Letters: of(overview.DeadLetters, t.Letters),
		Runs: of(overview.JobRuns, t.Runs)}
	if f := out.Sagas; f != nil {
		f.Ended, f.Failed = &t.Sagas.Ended, &t.Sagas.Failed
	}
	if f := out.Runs; f != nil {
		f.Failed = &t.Runs.Failed
	}
	return out
}

// toAPIMinutes returns the minutes with the parts that are shown.
func toAPIMinutes(minutes []overview.Minute, shown func(overview.Part) bool) (out []api.OverviewMinute) {
	if !shown(overview.Sagas) && !shown(overview.DeadLetters) {
		return nil
	}
	for i := range minutes {
		m := &minutes[i]
		to := api.OverviewMinute{From: m.From}
		if shown(overview.Sagas) {
			to.SagasStarted, to.SagasFailed = m.Started, m.Failed
		}
		if shown(overview.DeadLetters) {
			to.Letters = m.Letters
		}
		out = append(out, to)
	}
	return out
}

func toAPICause(ctx context.Context, c *overview.Cause) api.OverviewCause {
	next := c.Next()
	var groups *int
	if c.Groups > 0 {
		groups = &c.Groups
	}
	return api.OverviewCause{
		Key: c.Key(), Kind: api.OverviewCauseKind(c.Kind), Part: api.OverviewPart(c.Part()),
		Summary: c.Summary(), Means: c.Means(), Count: c.Count.N, IsCapped: c.Count.Capped, Since: c.Since,
		Name: httpkit.UnlessEmpty(c.Name), Step: httpkit.UnlessEmpty(c.Step), Code: httpkit.UnlessEmpty(c.Code),
		ID: httpkit.UnlessEmpty(c.Only()), Groups: groups, Link: c.Link(),
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
		RunsFailed: of(overview.JobRuns, o.RunsFailed), RunsSkipped: of(overview.JobRuns, o.RunsSkipped),
		RunsLate:        of(overview.JobRuns, o.RunsLate),
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
