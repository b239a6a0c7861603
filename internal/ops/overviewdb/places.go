package overviewdb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

var incarnationTable = postgres.NewTable(
	postgres.Int("id", func(n *overview.Incarnation) *int64 { return &n.ID }),
	postgres.Text("node_name", func(n *overview.Incarnation) *string { return &n.Name }),
	postgres.Text("version", func(n *overview.Incarnation) *string { return &n.Version }),
	postgres.Bool("alive", func(n *overview.Incarnation) *bool { return &n.Alive }),
	postgres.Time("lease_until", func(n *overview.Incarnation) *time.Time { return &n.LeaseUntil }),
	postgres.Time("registered_at", func(n *overview.Incarnation) *time.Time { return &n.StartedAt }),
	postgres.Time("renewed_at", func(n *overview.Incarnation) *time.Time { return &n.SeenAt }),
	postgres.Int("sagas", func(n *overview.Incarnation) *int { return &n.Sagas.N }),
	postgres.Int("runs", func(n *overview.Incarnation) *int { return &n.Runs.N }),
	postgres.Bool("leads", func(n *overview.Incarnation) *bool { return &n.Leads }),
)

// incarnations selects the latest incarnation of each node name while it is alive, and for a day
// afterwards.
var incarnations = fmt.Sprintf(`
WITH last AS MATERIALIZED (
	SELECT DISTINCT ON (e.node_name) e.* FROM saga.engine_nodes e
	 WHERE e.lease_until > statement_timestamp() - interval '1 day'
	 ORDER BY e.node_name, e.lease_until DESC, e.id DESC LIMIT 200
), present AS MATERIALIZED (
	SELECT l.*, l.lease_until > statement_timestamp() AS alive FROM last l
)
SELECT `+incarnationTable.Selected("n")+` FROM (
	SELECT p.*,
	       CASE WHEN p.alive THEN (SELECT count(*) FROM (SELECT FROM saga.saga_states s
	            WHERE s.lease_owner = p.id AND s.completed_at IS NULL LIMIT %[1]d) AS few) ELSE 0 END AS sagas,
	       CASE WHEN p.alive THEN (SELECT count(*)
	                                 FROM (SELECT FROM jobs.workers w JOIN jobs.job_runs r ON r.assigned_worker_id = w.id
	            WHERE w.node = p.node_name AND w.state IN ('ACTIVE', 'DRAINING') AND r.phase = 'HELD' LIMIT %[1]d) AS few)
	              ELSE 0 END AS runs,
	       p.alive AND EXISTS (SELECT FROM jobs.leader l
	            WHERE l.name = 'default' AND l.node = p.node_name AND l.expires_at > clock_timestamp()) AS leads
	  FROM present p) AS n
 ORDER BY n.alive DESC, n.node_name`, overview.Most+1)

// Nodes implements overview.Store.
func (st *Store) Nodes(ctx context.Context) ([]overview.Incarnation, error) {
	found, err := incarnationTable.All(st.db.QueryRead(ctx, incarnations))
	for i := range found {
		found[i].Sagas, found[i].Runs = overview.CountOf(found[i].Sagas.N), overview.CountOf(found[i].Runs.N)
	}
	return found, postgres.Wrap("read the nodes", err)
}

var tenantTable = postgres.NewTable(
	postgres.UUID("id", func(t *overview.Tenant) *uuid.UUID { return &t.ID }),
	postgres.Int("attention", func(t *overview.Tenant) *int { return &t.Attention.N }),
	postgres.TimeOrNil("active_at", func(t *overview.Tenant) **time.Time { return &t.ActiveAt }),
)

// traces are tables of which at least one has a row for every tenant that has had any activity.
// Each has an index that begins with the tenant.
var traces = [][2]string{
	{"saga.audit_seals", "tenant_id"}, {"saga.audit_action_seals", "tenant_id"}, {"saga.saga_states", "tenant_id"},
	{"saga.workflows", "tenant_id"}, {"dlq.dlq_messages", "tenant_id"}, {"jobs.workers", "tenant_id"},
	{"saga.api_keys", "bound_tenant_id"},
}

// following selects the next tenant after a given one by reading one row from the index of each table.
func following(after string) string {
	var firsts []string
	for _, t := range traces {
		firsts = append(firsts, fmt.Sprintf("(SELECT x.%[2]s FROM %[1]s x WHERE x.%[2]s > %[3]s ORDER BY x.%[2]s LIMIT 1)",
			t[0], t[1], after))
	}
	return "least(" + strings.Join(firsts, ",\n\t\t") + ")"
}

// tenants selects tenants: $1 is the tenant before the first one, $2 the number of tenants. It
// skips from tenant to tenant, no matter how many rows each of them has.
var tenants = fmt.Sprintf(`
WITH RECURSIVE found (id, n) AS (
	SELECT `+following("$1::uuid")+`, 1
	UNION ALL
	SELECT `+following("f.id")+`, f.n + 1 FROM found f WHERE f.id IS NOT NULL AND f.n < $2
)
SELECT `+tenantTable.Selected("t")+` FROM (
	SELECT f.id, (SELECT count(*) FROM (SELECT FROM saga.saga_states s
	              WHERE s.tenant_id = f.id AND s.needs_attention LIMIT %[1]d) AS few) AS attention,
	       greatest((SELECT a.sealed_at FROM saga.audit_seals a WHERE a.tenant_id = f.id ORDER BY a.seq DESC LIMIT 1),
	                (SELECT a.sealed_at
	                   FROM saga.audit_action_seals a
	                  WHERE a.tenant_id = f.id
	                  ORDER BY a.seq DESC
	                  LIMIT 1)) AS active_at
	  FROM found f WHERE f.id IS NOT NULL) AS t
 ORDER BY t.id`, overview.Most+1)

// Tenants implements overview.Store.
func (st *Store) Tenants(ctx context.Context, r page.Request[uuid.UUID]) (page.Of[overview.Tenant], error) {
	var after uuid.UUID // the deployment's ID, which is not a tenant
	if r.After != nil {
		after = *r.After
	}
	found, err := tenantTable.All(st.db.QueryRead(ctx, tenants, after, r.Limit+1))
	for i := range found {
		found[i].Attention = overview.CountOf(found[i].Attention.N)
	}
	return page.Cut(r, found), postgres.Wrap("list tenants", err)
}
