package sagaapi

import (
	"context"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// bucketLengths maps the names of bucket lengths to durations.
var bucketLengths = map[api.SeriesBucketLength]time.Duration{
	api.SeriesBucketLengthN1M: time.Minute, api.SeriesBucketLengthN5M: 5 * time.Minute,
	api.SeriesBucketLengthN1H: time.Hour, api.SeriesBucketLengthN1D: 24 * time.Hour,
}

// defaultBuckets is the number of buckets if the request does not specify a start.
const defaultBuckets = 24

// period reads the range of creation times. By default it is the most recent period.
func (s *Handlers) period(from, to *time.Time, span time.Duration) (first, beyond time.Time, err error) {
	if beyond, err = httpkit.TimeOf("created_to", to); err != nil {
		return first, beyond, err
	}
	if to == nil {
		beyond = s.Now().UTC()
	}
	if first, err = httpkit.TimeOf("created_from", from); err != nil {
		return first, beyond, err
	}
	if from == nil {
		first = beyond.Add(-span)
	}
	if !first.Before(beyond) {
		return first, beyond, httpkit.BadParameter("created_from", "invalid", "must be before created_to")
	}
	return first, beyond, nil
}

// GetSagaSeries counts the sagas of a period in buckets of equal length.
func (s *Handlers) GetSagaSeries(ctx context.Context, in api.GetSagaSeriesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	length := api.SeriesBucketLengthN1H
	if in.Params.Bucket != nil {
		length = *in.Params.Bucket
	}
	f := statistics.SeriesFilter{WorkflowName: httpkit.Text(in.Params.WorkflowName), Bucket: bucketLengths[length]}
	from, to, err := s.period(in.Params.CreatedFrom, in.Params.CreatedTo, defaultBuckets*f.Bucket)
	if err != nil {
		return nil, err
	}
	f.From, f.To = from.Truncate(f.Bucket), to.Truncate(f.Bucket)
	if f.To.Before(to) {
		f.To = f.To.Add(f.Bucket)
	}
	switch {
	case in.Params.CreatedFrom == nil && f.Buckets() > defaultBuckets:
		f.From = f.From.Add(f.Bucket)
	case f.Buckets() > statistics.MostBuckets:
		return nil, httpkit.BadParameter("created_from", "invalid", "the period has %d buckets of %s, more than %d: "+
			"use longer buckets or a shorter period", f.Buckets(), length, statistics.MostBuckets)
	}
	if f.Bucket < time.Hour && f.From.Before(s.Now().Add(-statistics.MinutesKept)) {
		return nil, httpkit.BadParameter("created_from", "invalid", "sagas are counted by the minute for 3 days only: "+
			"use buckets of 1h or 1d")
	}
	found, err := s.Reports.Series(ctx, httpkit.RequestOf(ctx).Tenant.ID, f)
	if err != nil {
		return nil, err
	}
	out := api.SagaSeries{
		AsOf: found.AsOf, WorkflowName: in.Params.WorkflowName, Bucket: length, CreatedFrom: f.From, CreatedTo: f.To,
		Buckets: make([]api.SagaSeriesBucket, len(found.Buckets)),
	}
	for i := range found.Buckets {
		b := toAPIBucket(&found.Buckets[i], f.TimedEach())
		b.From = f.From.Add(time.Duration(i) * f.Bucket)
		b.To = b.From.Add(f.Bucket)
		out.Buckets[i] = b
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

func toAPIBucket(b *statistics.SeriesBucket, timed int) api.SagaSeriesBucket {
	out := api.SagaSeriesBucket{
		CreatedCount: b.Total(), CompletedCount: b.Count(saga.Completed), CompensatedCount: b.Count(saga.Compensated),
		FailedCount:    b.Count(saga.Failed, saga.Cancelled, saga.TimedOut),
		CancelledCount: b.Count(saga.Cancelled), TimedOutCount: b.Count(saga.TimedOut),
	}
	out.ActiveCount = out.CreatedCount - out.CompletedCount - out.CompensatedCount - out.FailedCount
	if d := b.Durations; d.Count > 0 {
		out.Duration = &api.SagaDurations{
			Sagas: int64(d.Count), Sampled: out.CreatedCount > int64(timed), P50Ms: millis(d.P50), P95Ms: millis(d.P95),
		}
	}
	return out
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// GetStepStatistics counts the attempts of a workflow's steps.
func (s *Handlers) GetStepStatistics(ctx context.Context, in api.GetStepStatisticsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	f := statistics.AttemptFilter{WorkflowName: in.Params.WorkflowName}
	if v := in.Params.WorkflowVersion; v != nil {
		f.WorkflowVersion = int(*v)
	}
	var err error
	if f.From, f.To, err = s.period(in.Params.CreatedFrom, in.Params.CreatedTo, 24*time.Hour); err != nil {
		return nil, err
	}
	found, err := s.Reports.Attempts(ctx, httpkit.RequestOf(ctx).Tenant.ID, f)
	if err != nil {
		return nil, err
	}
	out := api.StepStatisticsList{
		WorkflowName: f.WorkflowName, CreatedFrom: f.From, CreatedTo: f.To, Sagas: int64(found.Sagas),
		Attempts: int64(len(found.Attempts)), Sampled: found.Sampled, Steps: httpkit.Each(found.ByStep(), toAPIStep),
	}
	if f.WorkflowVersion != 0 {
		out.WorkflowVersion = &f.WorkflowVersion
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// mostCodes limits how many failure codes are shown per step.
const mostCodes = 10

func toAPIStep(s *statistics.StepStatistics) api.StepStatistics {
	return api.StepStatistics{
		StepName: s.StepName, StepIndex: s.StepIndex, Action: api.StepAction(s.Action), Sagas: int64(s.Sagas),
		Attempts: int64(s.Attempts), Running: int64(s.Running), Completed: int64(s.Completed), Failed: int64(s.Failed),
		GaveUp: int64(s.GaveUp), Retries: int64(s.Retries), ByOperator: int64(s.ByOperator),
		AttemptDuration: toAPIDurations(s.Each), StepDuration: toAPIDurations(s.Whole),
		Failures: httpkit.Each(s.Failures[:min(len(s.Failures), mostCodes)], toAPIStepFailures),
	}
}

func toAPIStepFailures(f *statistics.StepFailures) api.StepFailureStatistics {
	return api.StepFailureStatistics{
		Code: f.Code, Attempts: int64(f.Attempts), GaveUp: int64(f.GaveUp), LastAt: f.LastAt, SampleSagaID: f.SagaID,
	}
}

func toAPIDurations(d statistics.Durations) *api.DurationStatistics {
	if d.Count == 0 {
		return nil
	}
	return &api.DurationStatistics{
		Count: int64(d.Count), P50Ms: millis(d.P50), P95Ms: millis(d.P95), P99Ms: millis(d.P99), MaxMS: millis(d.Greatest),
	}
}
