package sagaapi

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// ListSagaStatistics returns, for each definition, the number of sagas in each state.
func (s *Handlers) ListSagaStatistics(ctx context.Context,
	in api.ListSagaStatisticsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, byVersion, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	filter := statistics.StatisticsFilter{WorkflowName: httpkit.Text(p.WorkflowName)}
	if filter.CreatedFrom, err = httpkit.TimeOf("created_from", p.CreatedFrom); err != nil {
		return nil, err
	}
	if filter.CreatedTo, err = fullHour("created_to", p.CreatedTo); err != nil {
		return nil, err
	}
	if p.CreatedFrom != nil && p.CreatedTo != nil {
		if wrong := httpkit.InOrder("created_from", "created_to", *p.CreatedFrom, *p.CreatedTo); wrong != nil {
			return nil, wrong
		}
	}
	filter.CreatedFrom = filter.CreatedFrom.Truncate(time.Hour)
	found, err := s.Reports.Statistics(ctx, req.Tenant.ID, filter)
	if err != nil {
		return nil, err
	}
	listed := page.In(asked.Request, found.Definitions, func(d *statistics.DefinitionStatistics, after version) bool {
		return cmp.Or(strings.Compare(d.WorkflowName, after.name), cmp.Compare(d.WorkflowVersion, after.number)) > 0
	})
	out := api.SagaStatisticsList{AsOf: found.AsOf, Statistics: httpkit.Each(listed.Items, toAPIStatistics),
		Pagination: httpkit.Pagination(asked, listed, func(d *statistics.DefinitionStatistics) version {
			return version{d.WorkflowName, d.WorkflowVersion}
		})}
	if p.CreatedFrom != nil {
		out.CreatedFrom = &filter.CreatedFrom
	}
	if p.CreatedTo != nil {
		out.CreatedTo = &filter.CreatedTo
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// fullHour returns TimeOf, rounded up to a full hour.
func fullHour(name string, in *time.Time) (time.Time, error) {
	t, err := httpkit.TimeOf(name, in)
	if err != nil || t.IsZero() || t.Equal(t.Truncate(time.Hour)) {
		return t, err
	}
	t = t.Truncate(time.Hour).Add(time.Hour)
	return httpkit.TimeOf(name, &t)
}

// version is the position of a definition in the list of statistics.
type version struct {
	name   string
	number int
}

var byVersion = httpkit.Order[version]{
	Keys: func(v version) []byte {
		//nolint:gosec // versions are positive 32-bit numbers
		return append(binary.BigEndian.AppendUint32(nil, uint32(v.number)), v.name...)
	},
	Place: func(keys []byte) (version, error) {
		if len(keys) < 4 {
			return version{}, httpkit.BadCursor()
		}
		return version{string(keys[4:]), int(binary.BigEndian.Uint32(keys))}, nil
	},
}

func toAPIStatistics(d *statistics.DefinitionStatistics) api.SagaStatistics {
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
