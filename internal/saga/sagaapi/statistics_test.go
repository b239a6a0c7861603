package sagaapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// counted is a store of reports with fixed numbers that records its last query.
type counted struct {
	statistics.Reports
	rows   []statistics.DefinitionStatistics
	tenant uuid.UUID
	filter statistics.StatisticsFilter
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (c *counted) Statistics(_ context.Context, tenant uuid.UUID, f statistics.StatisticsFilter,
) (statistics.Statistics, error) {
	c.tenant, c.filter = tenant, f
	return statistics.Statistics{AsOf: noon, Definitions: c.rows}, nil
}

func countedEdge(t *testing.T, rows ...statistics.DefinitionStatistics) (*apitest.Edge, *counted) {
	t.Helper()
	c := &counted{rows: rows}
	return apitest.NewEdge(t, func(cfg *httpapi.Config) { cfg.Sagas.Reports = c }), c
}

func TestStatisticsAddUpAndHaveRates(t *testing.T) {
	e, c := countedEdge(t,
		statistics.DefinitionStatistics{
			WorkflowName: "order", WorkflowVersion: 2, ByState: [9]int64{1, 20, 300, 4000, 50000, 6, 70, 800, 9000},
			NeedsAttention: 70,
			Timed:          4, Duration: 10 * time.Second, LastExecution: noon,
		},
		statistics.DefinitionStatistics{
			WorkflowName: "young", WorkflowVersion: 1, ByState: [9]int64{1: 3}, LastExecution: noon,
		},
	)
	got := e.Statistics("")
	want := []client.SagaStatistics{
		{
			DefinitionID: "order@2", WorkflowName: "order", WorkflowVersion: 2, TotalInstances: 64197, PendingCount: 1,
			ActiveCount: 50320, CompletedCount: 4000,
			CompensatedCount: 6, FailedCount: 9870, CancelledCount: 800, TimedOutCount: 9000, NeedsAttentionCount: 70,
			FailureRate: ptr(9076.0 / 13876), AvgDurationSeconds: ptr(2.5), LastExecution: noon,
		},
		{DefinitionID: "young@1", WorkflowName: "young", WorkflowVersion: 1, TotalInstances: 3, ActiveCount: 3, LastExecution: noon},
	}
	if diff := cmp.Diff(want, got.Statistics, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if !got.AsOf.Equal(noon) || got.CreatedFrom != nil || got.CreatedTo != nil || *got.Pagination.TotalCount != 2 {
		t.Errorf("list = %+v", got)
	}
	if c.tenant != apitest.Tenant.ID {
		t.Errorf("counted for tenant %s", c.tenant)
	}
}

func TestStatisticsAreOfFullHours(t *testing.T) {
	e, c := countedEdge(t)
	for _, tt := range []struct {
		name, query string
		want        statistics.StatisticsFilter
	}{
		{"nothing", "", statistics.StatisticsFilter{}},
		{"a workflow", "workflow_name=a%20b", statistics.StatisticsFilter{WorkflowName: "a b"}},
		{"full hours", "created_from=2026-03-01T10:00:00Z&created_to=2026-03-01T11:00:00Z", statistics.StatisticsFilter{CreatedFrom: noon.Add(-2 * time.Hour), CreatedTo: noon.Add(-time.Hour)}},
		{"parts of hours, widened", "created_from=2026-03-01T10:59:59.999Z&created_to=2026-03-01T10:59:59.999Z", statistics.StatisticsFilter{CreatedFrom: noon.Add(-2 * time.Hour), CreatedTo: noon.Add(-time.Hour)}},
		{"hours of a zone between", "created_from=" + url.QueryEscape("2026-03-01T15:30:00+05:30"), statistics.StatisticsFilter{CreatedFrom: noon.Add(-2 * time.Hour)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := e.Statistics(tt.query)
			if diff := cmp.Diff(tt.want, c.filter); diff != "" {
				t.Errorf("queried (-want +got):\n%s", diff)
			}
			for name, pair := range map[string]struct {
				want time.Time
				got  *time.Time
			}{"created_from": {tt.want.CreatedFrom, got.CreatedFrom}, "created_to": {tt.want.CreatedTo, got.CreatedTo}} {
				if (pair.got == nil) != pair.want.IsZero() || pair.got != nil && !pair.got.Equal(pair.want) {
					t.Errorf("%s = %v, want %v", name, pair.got, pair.want)
				}
			}
		})
	}
	for _, query := range []string{
		"created_from=1969-12-31T23:59:59Z", "created_to=9999-12-31T23:30:00Z", "created_from=yesterday", "workflow_name=", "state=failed", "cursor=x",
	} {
		t.Run("refused: "+query, func(t *testing.T) {
			if r := e.Send("GET", apitest.StatisticsPath+"?"+query, ""); r.Status != http.StatusBadRequest {
				t.Errorf("%d %s", r.Status, r.Body)
			}
		})
	}
}

func TestStatisticsComeInPages(t *testing.T) {
	row := func(name string, version int) statistics.DefinitionStatistics {
		return statistics.DefinitionStatistics{WorkflowName: name, WorkflowVersion: version, ByState: [9]int64{3: 1},
			LastExecution: noon}
	}
	e, c := countedEdge(t, row("a", 1), row("a", 2), row("b", 1), row("c", 300))
	names := func(list client.SagaStatisticsList) string {
		var out []string
		for _, s := range list.Statistics {
			out = append(out, s.DefinitionID)
		}
		return strings.Join(out, " ")
	}
	first := e.Statistics("page_size=1")
	if names(first) != "a@1" || !first.Pagination.HasNext || *first.Pagination.TotalCount != 4 ||
		*first.Pagination.TotalIsCapped {
		t.Errorf("page 1 = %s, %+v", names(first), first.Pagination)
	}
	if second := e.Statistics("page=2&page_size=3"); names(second) != "c@300" || second.Pagination.HasNext {
		t.Errorf("page 2 = %s, %+v", names(second), second.Pagination)
	}
	if beyond := e.Statistics("page=3&page_size=3"); names(beyond) != "" || beyond.Pagination.HasNext {
		t.Errorf("page 3 = %s, %+v", names(beyond), beyond.Pagination)
	}
	c.rows = append([]statistics.DefinitionStatistics{row("0", 1)}, c.rows...) // must not shift the cursor
	var seen []string
	for list := first; list.Pagination.HasNext; seen = append(seen, names(list)) {
		list = e.Statistics("page_size=2&cursor=" + *list.Pagination.NextCursor)
		if list.Pagination.TotalCount != nil || list.Pagination.Page != nil {
			t.Errorf("after a cursor: %+v", list.Pagination)
		}
	}
	if got := strings.Join(seen, ", "); got != "a@2 b@1, c@300" {
		t.Errorf("after the first: %s", got)
	}
	for _, query := range []string{"workflow_name=a", "created_from=2026-03-01T10:00:00Z"} {
		e.Send("GET", apitest.StatisticsPath+"?"+query+"&cursor="+*first.Pagination.NextCursor,
			"").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	}
}

func TestStatisticsOfTheStore(t *testing.T) {
	e := apitest.NewEdge(t)
	numbered(t, e, 3)
	e.Node.Rest()
	if got := e.Statistics("workflow_name=order").Statistics; len(got) != 1 || got[0].DefinitionID != "order@1" ||
		got[0].CompletedCount != 3 || *got[0].FailureRate != 0 {
		t.Errorf("statistics = %+v", got)
	}
}

func TestTotalsStopAtTenThousandUnlessRequested(t *testing.T) {
	const sagas = 10_001
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	def, err := workflow.ParseJSON([]byte(`{"name":"order","steps":[{"name":"reserve","action":{"http":{"url":"http://x/1"}},"compensation":"none"}]}`), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]saga.NewSaga, sagas)
	for i := range batch {
		spec := saga.Spec{ID: e.Cfg.NewID(), Tenant: apitest.Tenant, CorrelationID: ptr(fmt.Sprint(i / 10_000))}
		batch[i] = saga.NewSaga{Saga: saga.New(spec, def, 1, nil, e.Cfg.Now(), 0)}
	}
	if _, err := e.Store.Sagas.Create(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	cursor := "&cursor=" + *e.List("page_size=1").Pagination.NextCursor
	for query, want := range map[string]struct {
		total  *int64
		capped *bool
	}{
		"":                              {ptr(int64(10_000)), ptr(true)},
		"&page=2":                       {ptr(int64(10_000)), ptr(true)},
		"&include=exact_total":          {ptr(int64(sagas)), ptr(false)},
		"&page=2&include=exact_total":   {ptr(int64(sagas)), ptr(false)},
		cursor:                          {nil, nil},
		cursor + "&include=total":       {ptr(int64(10_000)), ptr(true)},
		cursor + "&include=exact_total": {ptr(int64(sagas)), ptr(false)},
		cursor + "&include=total&include=exact_total": {ptr(int64(sagas)), ptr(false)},
		"&correlation_id=0":                           {ptr(int64(10_000)), ptr(false)},
		"&correlation_id=1":                           {ptr(int64(1)), ptr(false)},
	} {
		t.Run(query, func(t *testing.T) {
			got := e.List("page_size=1" + query).Pagination
			if diff := cmp.Diff(want.total, got.TotalCount); diff != "" {
				t.Errorf("total_count (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.capped, got.TotalIsCapped); diff != "" {
				t.Errorf("total_is_capped (-want +got):\n%s", diff)
			}
		})
	}
}
