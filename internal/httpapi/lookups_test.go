package httpapi_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// lookups records the calls to a store of sagas: the method and the tenant.
type lookups struct {
	saga.Store
	asked []string
}

func (l *lookups) Get(ctx context.Context, tenant, id uuid.UUID) (saga.Saga, error) {
	l.asked = append(l.asked, "Get for "+tenant.String())
	return l.Store.Get(ctx, tenant, id)
}

func (l *lookups) Load(ctx context.Context, refs []saga.Ref) ([]saga.Loaded, error) {
	for _, r := range refs {
		l.asked = append(l.asked, "Load for "+r.Tenant.String())
	}
	return l.Store.Load(ctx, refs)
}

func (l *lookups) StepLogs(ctx context.Context, tenant, id uuid.UUID, want saga.Logs) ([]saga.StepLog, error) {
	l.asked = append(l.asked, "StepLogs for "+tenant.String())
	return l.Store.StepLogs(ctx, tenant, id, want)
}

// A saga of another tenant is looked up exactly like one that does not exist: with the same
// queries, in the same order, all for the caller's tenant. The database does the same reads, so the
// response time reveals nothing.
func TestForeignSagasAreLookedUpAsMissingOnes(t *testing.T) {
	t.Parallel()
	var seen *lookups
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		seen = &lookups{Store: c.Sagas.Store}
		c.Sagas.Store = seen
	})
	e.Register("order", "pay")
	const stranger = "00000000-0000-0000-0000-00000000000f"
	foreign := e.Start(`{"workflow_name":"order"}`).SagaID
	for _, call := range [][3]string{
		{"GET", "", ""}, {"GET", "/steps", ""}, {"GET", "/step-logs", ""}, {"GET", "/events", ""}, {"GET", "/result", ""},
		{"GET", "/explain", ""}, {"POST", "/cancel", ""}, {"POST", "/suspend", ""},
		{"POST", "/force-complete", `{"reason":"r"}`},
	} {
		ask := func(id uuid.UUID) []string {
			seen.asked = nil
			e.Send(call[0], apitest.SagasPath+"/"+id.String()+call[1], call[2], "X-Tenant-Id", stranger).
				Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
			return slices.Clone(seen.asked)
		}
		missing := ask(uuid.New())
		if diff := cmp.Diff(missing, ask(foreign)); diff != "" {
			t.Errorf("%s %s (-missing +foreign):\n%s", call[0], call[1], diff)
		}
		ofOthers := func(s string) bool { return !strings.HasSuffix(s, " for "+stranger) }
		if len(missing) == 0 || slices.ContainsFunc(missing, ofOthers) {
			t.Errorf("%s %s asks %v", call[0], call[1], missing)
		}
	}
}
