package sagaapi

import (
	"context"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga"
)

// ListSagaStatistics answers how many sagas of each definition became what.
func (s *Handlers) ListSagaStatistics(ctx context.Context,
	in api.ListSagaStatisticsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := rest.RequestOf(ctx)
	p := in.Params
	paging, err := s.PagingOf(req.List(), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	filter := saga.StatisticsFilter{WorkflowName: rest.Text(p.WorkflowName)}
	if filter.CreatedFrom, err = rest.TimeOf("created_from", p.CreatedFrom); err != nil {
		return nil, err
	}
	filter.CreatedFrom = filter.CreatedFrom.Truncate(time.Hour)
	if filter.CreatedTo, err = fullHour("created_to", p.CreatedTo); err != nil {
		return nil, err
	}
	found, err := s.Reports.Statistics(ctx, req.Tenant.ID, filter)
	if err != nil {
		return nil, err
	}
	rows := found.Definitions
	skip := min(paging.Offset(), len(rows))
	if paging.Page == 0 {
		if skip, err = statisticsAfter(rows, paging.After); err != nil {
			return nil, err
		}
	}
	end := min(skip+paging.Size, len(rows))
	out := api.SagaStatisticsList{AsOf: found.AsOf, Statistics: make([]api.SagaStatistics, 0, end-skip)}
	if p.CreatedFrom != nil {
		out.CreatedFrom = &filter.CreatedFrom
	}
	if p.CreatedTo != nil {
		out.CreatedTo = &filter.CreatedTo
	}
	for i := skip; i < end; i++ {
		out.Statistics = append(out.Statistics, toAPIStatistics(&rows[i]))
	}
	out.Pagination = paging.Answer(end < len(rows), int64(len(rows)), func() []byte {
		return statisticsKeys(&rows[end-1])
	})
	return rest.Answer{Status: http.StatusOK, Body: out}, nil
}

// fullHour is TimeOf, rounded up to an hour.
func fullHour(name string, in *time.Time) (time.Time, error) {
	t, err := rest.TimeOf(name, in)
	if err != nil || t.IsZero() || t.Equal(t.Truncate(time.Hour)) {
		return t, err
	}
	t = t.Truncate(time.Hour).Add(time.Hour)
	return rest.TimeOf(name, &t)
}

// statisticsKeys are the sort keys of a row.
func statisticsKeys(d *saga.DefinitionStatistics) []byte {
	//nolint:gosec // versions are positive and 32 bits long
	return append(binary.BigEndian.AppendUint32(nil, uint32(d.WorkflowVersion)), d.WorkflowName...)
}

// statisticsAfter returns where the page after the row of these keys begins.
func statisticsAfter(rows []saga.DefinitionStatistics, keys []byte) (int, error) {
	if len(keys) < 4 {
		return 0, rest.BadCursor()
	}
	version, name := int(binary.BigEndian.Uint32(keys)), string(keys[4:])
	for i := range rows {
		if c := strings.Compare(rows[i].WorkflowName, name); c > 0 || c == 0 && rows[i].WorkflowVersion > version {
			return i, nil
		}
	}
	return len(rows), nil
}

func toAPIStatistics(d *saga.DefinitionStatistics) api.SagaStatistics {
	out := api.SagaStatistics{
		DefinitionID: definitionID(d.WorkflowName, d.WorkflowVersion), WorkflowName: d.WorkflowName,
		WorkflowVersion: d.WorkflowVersion,
		TotalInstances:  d.Total(), PendingCount: d.Count(saga.Pending),
		ActiveCount:    d.Count(saga.Running, saga.StepCompleted, saga.Compensating),
		CompletedCount: d.Count(saga.Completed), CompensatedCount: d.Count(saga.Compensated),
		FailedCount:    d.Count(saga.Failed, saga.Cancelled, saga.TimedOut),
		CancelledCount: d.Count(saga.Cancelled), TimedOutCount: d.Count(saga.TimedOut), NeedsAttentionCount: d.NeedsAttention,
		LastExecution: d.LastExecution,
	}
	if ended := out.CompletedCount + out.CompensatedCount + out.FailedCount; ended > 0 {
		rate := float64(out.CompensatedCount+out.FailedCount-out.CancelledCount) / float64(ended)
		out.FailureRate = &rate
	}
	if d.Timed > 0 {
		mean := d.Duration.Seconds() / float64(d.Timed)
		out.AvgDurationSeconds = &mean
	}
	return out
}
