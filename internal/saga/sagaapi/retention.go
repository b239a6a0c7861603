package sagaapi

import (
	"context"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/saga"
)

const (
	// retentionWork limits the duration of one request. A batch that has begun is finished.
	retentionWork = 5 * time.Second
	// maxCounted limits the counts of a dry run per kind and workflow, and maxCountedWorkflows
	// limits how many workflows the store returns.
	maxCounted          = 10_000
	maxCountedWorkflows = 1000
)

// RunRetention archives the tenant's expired sagas, or counts them.
func (s *Handlers) RunRetention(ctx context.Context, in api.RunRetentionRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	e := saga.Expiry{Tenant: httpkit.RequestOf(ctx).Tenant.ID, Default: s.Retention}
	began := s.Now()
	if in.Body != nil && in.Body.OlderThan != nil {
		e.Before = in.Body.OlderThan.UTC()
		if e.Before.After(began) || e.Before.Year() < 1970 {
			return nil, httpkit.SchemaFault(fault.Field{Pointer: "/older_than", Code: "invalid", Message: "must be in the past, and not before 1970"})
		}
	}
	if in.Params.DryRun != nil && *in.Params.DryRun {
		return s.dryRetention(ctx, e)
	}
	if s.Actions != nil { // otherwise nothing is recorded
		asked := s.Did(ctx, began, operator.Retention, "sagas", "run", "", map[string]any{"older_than": e.Before})
		asked.Result = operator.Asked
		if err := s.Actions.Record(ctx, asked); err != nil {
			return nil, err
		}
	}
	out := api.RetentionResult{More: true}
	for s.Now().Sub(began) < min(retentionWork, s.Limits.RequestTimeout/2) {
		n, err := s.Archive.ArchiveExpired(ctx, e, s.RetentionBatch)
		out.Archived += n
		if err != nil {
			return nil, err // archived sagas stay archived; a repeated request continues from there
		}
		if n == 0 {
			out.More = false
			break
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

func (s *Handlers) dryRetention(ctx context.Context, e saga.Expiry) (api.Response, error) {
	counts, err := s.Archive.CountExpired(ctx, e, maxCounted)
	if err != nil {
		return nil, err
	}
	out := api.RetentionResult{DryRun: true, More: len(counts) == maxCountedWorkflows, Workflows: []api.ExpiredSagas{}}
	expired := int64(0)
	for _, c := range counts {
		out.Workflows = append(out.Workflows, api.ExpiredSagas{WorkflowName: c.WorkflowName, Completed: c.Completed,
			Failed: c.Failed})
		expired += int64(c.Completed) + int64(c.Failed)
		out.More = out.More || max(c.Completed, c.Failed) == maxCounted
	}
	sum := dryrun.Many{Of: string(api.PlannedChangeOfSaga)}
	sum.Add(dryrun.List{{Member: "place", From: "live", To: "archive"}}, expired)
	out.Changes = httpkit.PlannedChanges(sum.List())
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}
