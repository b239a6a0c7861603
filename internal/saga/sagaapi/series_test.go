package sagaapi_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/test/apitest"
)

const (
	seriesPath = "/api/v1/statistics/series"
	stepsPath  = "/api/v1/statistics/steps"
)

// asked is a store of reports that records its last queries and contains no sagas.
type asked struct {
	statistics.Reports
	series   statistics.SeriesFilter
	attempts statistics.AttemptFilter
	buckets  []statistics.SeriesBucket // results for the first buckets
}

func (a *asked) Series(_ context.Context, _ uuid.UUID, f statistics.SeriesFilter) (statistics.Series, error) {
	a.series = f
	out := statistics.Series{AsOf: noon, Buckets: make([]statistics.SeriesBucket, f.Buckets())}
	copy(out.Buckets, a.buckets)
	return out, nil
}

func (a *asked) Attempts(_ context.Context, _ uuid.UUID, f statistics.AttemptFilter) (statistics.AttemptSample, error) {
	a.attempts = f
	return statistics.AttemptSample{}, nil
}

func askedEdge(t *testing.T, now time.Time) (*apitest.Edge, *asked) {
	t.Helper()
	a := &asked{}
	return apitest.NewEdge(t, func(cfg *httpapi.Config) {
		cfg.Sagas.Reports = a
		cfg.Now = func() time.Time { return now }
	}), a
}

func TestSeriesAreOfFullBuckets(t *testing.T) {
	now := noon.Add(17*time.Minute + 30*time.Second)
	e, a := askedEdge(t, now)
	day := noon.Truncate(24 * time.Hour)
	for query, want := range map[string]statistics.SeriesFilter{
		"":          {Bucket: time.Hour, From: noon.Add(-23 * time.Hour), To: noon.Add(time.Hour)},
		"bucket=1m": {Bucket: time.Minute, From: noon.Add(-6 * time.Minute), To: noon.Add(18 * time.Minute)},
		"bucket=5m&created_from=2026-03-01T11:59:59Z": {Bucket: 5 * time.Minute, From: noon.Add(-5 * time.Minute), To: noon.Add(20 * time.Minute)},
		"bucket=1d&workflow_name=a%20b": {
			WorkflowName: "a b", Bucket: 24 * time.Hour, From: day.AddDate(0, 0, -23), To: day.AddDate(0, 0, 1),
		},
		"created_to=2026-03-01T10:00:00Z":                                   {Bucket: time.Hour, From: noon.Add(-26 * time.Hour), To: noon.Add(-2 * time.Hour)},
		"created_from=2026-02-28T10:00:00Z&created_to=2026-02-28T10:00:01Z": {Bucket: time.Hour, From: noon.Add(-26 * time.Hour), To: noon.Add(-25 * time.Hour)},
	} {
		r := e.Send("GET", seriesPath+"?"+query, "")
		var got client.SagaSeries
		r.Reads(http.StatusOK, &got)
		if diff := cmp.Diff(want, a.series); diff != "" {
			t.Errorf("%q queried (-want +got):\n%s", query, diff)
		}
		last := len(got.Buckets) - 1
		if last+1 != want.Buckets() || !got.CreatedFrom.Equal(want.From) || !got.CreatedTo.Equal(want.To) ||
			!got.Buckets[0].From.Equal(want.From) || !got.Buckets[last].To.Equal(want.To) || !got.AsOf.Equal(noon) {
			t.Errorf("%q: %d buckets from %v to %v", query, last+1, got.CreatedFrom, got.CreatedTo)
		}
	}
}

func TestBucketsAddUp(t *testing.T) {
	e, a := askedEdge(t, noon)
	a.buckets = []statistics.SeriesBucket{{
		ByState:   [9]int64{1, 20, 300, 4000, 50000, 6, 70, 800, 9000},
		Durations: statistics.Durations{Count: 3, P50: 1500 * time.Microsecond, P95: 2 * time.Second},
	}}
	var got client.SagaSeries
	e.Send("GET", seriesPath, "").Reads(http.StatusOK, &got)
	want := client.SagaSeriesBucket{
		From: got.CreatedFrom, To: got.CreatedFrom.Add(time.Hour), CreatedCount: 64197, ActiveCount: 50321,
		CompletedCount: 4000, CompensatedCount: 6, FailedCount: 9870, CancelledCount: 800, TimedOutCount: 9000,
		Duration: &client.SagaDurations{Sagas: 3, Sampled: true, P50Ms: 1.5, P95Ms: 2000},
	}
	if diff := cmp.Diff(want, got.Buckets[0]); diff != "" {
		t.Errorf("the first bucket (-want +got):\n%s", diff)
	}
	if b := got.Buckets[1]; b.CreatedCount != 0 || b.Duration != nil {
		t.Errorf("a bucket without sagas: %+v", b)
	}
}

func TestPeriodsOfStatisticsAreChecked(t *testing.T) {
	e, a := askedEdge(t, noon)
	for query, says := range map[string]string{
		"bucket=2h":                         "bucket",
		"created_from=yesterday":            "created_from",
		"created_from=1969-12-31T23:59:59Z": "1970",
		"created_to=2026-03-01T12:00:00Z&created_from=2026-03-01T12:00:00Z":           "before created_to",
		"created_from=2026-02-01T00:00:00Z":                                           "500",
		"bucket=1m&created_from=2026-02-26T11:00:00Z&created_to=2026-02-26T12:00:00Z": "3 days",
		"bucket=5m&created_to=2026-01-26T11:00:00Z":                                   "3 days",
		"workflow_name=": "workflow_name",
	} {
		r := e.Send("GET", seriesPath+"?"+query, "")
		r.Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
		if !strings.Contains(string(r.Body), says) {
			t.Errorf("%s: %s", query, r.Body)
		}
	}
	for _, query := range []string{
		"", "workflow_name=", "workflow_name=w&workflow_version=0", "workflow_name=w&created_from=9999-13-01T00:00:00Z",
		"workflow_name=w&created_to=" + url.QueryEscape("2026-03-01T11:00:00Z") + "&created_from=2026-03-01T11:00:00Z",
	} {
		e.Send("GET", stepsPath+"?"+query, "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	}
	var none client.StepStatisticsList
	e.Send("GET", stepsPath+"?workflow_name=w&workflow_version=3", "").Reads(http.StatusOK, &none)
	want := statistics.AttemptFilter{WorkflowName: "w", WorkflowVersion: 3, From: noon.Add(-24 * time.Hour), To: noon}
	if diff := cmp.Diff(want, a.attempts); diff != "" {
		t.Errorf("queried (-want +got):\n%s", diff)
	}
}

func TestStepStatisticsOfTheStore(t *testing.T) {
	e := apitest.NewEdge(t)
	numbered(t, e, 3)
	e.Node.Rest()
	var got client.StepStatisticsList
	e.Send("GET", stepsPath+"?workflow_name=order", "").Reads(http.StatusOK, &got)
	if got.Sagas != 3 || got.Sampled || got.Attempts < 3 || len(got.Steps) == 0 {
		t.Fatalf("steps = %+v", got)
	}
	first := got.Steps[0]
	if first.Action != client.StepActionEXECUTE || first.Sagas != 3 || first.Completed != 3 || first.Failed != 0 ||
		first.AttemptDuration == nil || first.AttemptDuration.Count != 3 || first.StepDuration.Count != 3 {
		t.Errorf("the first step = %+v", first)
	}
	var series client.SagaSeries
	e.Send("GET", seriesPath+"?workflow_name=order&bucket=1m", "").Reads(http.StatusOK, &series)
	var created, completed int64
	for _, b := range series.Buckets {
		created += b.CreatedCount
		completed += b.CompletedCount
	}
	if created != 3 || completed != 3 {
		t.Errorf("%d created and %d completed in %+v", created, completed, series)
	}
}
