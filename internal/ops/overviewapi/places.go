package overviewapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/ops/overview"
)

// ListNodes returns the nodes and the loops of this node.
func (s *Handlers) ListNodes(ctx context.Context, _ api.ListNodesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if err := httpkit.ForDeployment(ctx, "the list of nodes"); err != nil {
		return nil, err
	}
	found, err := s.Store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	out := api.NodeList{Nodes: httpkit.Each(found, toAPINode), Loops: []api.NodeLoop{}}
	for _, l := range s.Loops() {
		out.Loops = append(out.Loops, api.NodeLoop{
			Name: l.Name, LastSuccessAt: l.LastRound, Late: l.Late, Vital: l.Vital,
			LimitMS: int(l.Limit.Milliseconds()),
		})
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

func toAPINode(n *overview.Incarnation) api.Node {
	return api.Node{
		Incarnation: n.ID, Name: n.Name, Version: httpkit.UnlessEmpty(n.Version), Alive: n.Alive, LeaseUntil: n.LeaseUntil,
		StartedAt: n.StartedAt, LastSeenAt: n.SeenAt, Sagas: toAPICount(n.Sagas), Runs: toAPICount(n.Runs),
		Leads: n.Leads,
	}
}

// ListTenants returns a page of tenants, ordered by ID.
func (s *Handlers) ListTenants(ctx context.Context, in api.ListTenantsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if err := httpkit.ForDeployment(ctx, "the list of tenants"); err != nil {
		return nil, err
	}
	asked, err := httpkit.PageOf[uuid.UUID, string](ctx, s.Cursors, httpkit.ByID, nil, in.Params.PageSize,
		in.Params.Cursor, nil)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Tenants(ctx, asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.TenantList{
		Tenants: httpkit.Each(found.Items, func(t *overview.Tenant) api.TenantActivity {
			return api.TenantActivity{TenantID: t.ID, SagasNeedAttention: toAPICount(t.Attention), LastActiveAt: t.ActiveAt}
		}),
		Pagination: httpkit.Pagination(asked, found, func(t *overview.Tenant) uuid.UUID { return t.ID }),
	}}, nil
}
