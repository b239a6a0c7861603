package jobapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
)

// ListJobRuns returns a page of runs, newest first unless the request specifies another order.
func (s *Handlers) ListJobRuns(ctx context.Context, in api.ListJobRunsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByKeyAndTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f, err := s.runFilter(ctx, &p)
	if err != nil {
		return nil, err
	}
	if f.Sort, err = httpkit.SortOf(p.Sort, f.SortOfPrefix()); err != nil {
		return nil, err
	}
	f.Ascending = httpkit.Ascending(p.Order, f.Sort.OfText())
	at, key := page.SplitKey(asked.Request)
	f.AfterKey = key
	found, err := s.Runs.ListRuns(ctx, req.Tenant.ID, f, at)
	if err != nil {
		return nil, err
	}
	full := p.View != nil && *p.View == api.ListJobRunsParamsViewFull
	return httpkit.Answer{Status: http.StatusOK, Body: api.JobRunList{
		JobRuns:    httpkit.Each(found.Items, func(r *jobrun.Run) api.JobRun { return toAPIRun(r, full) }),
		Pagination: httpkit.Pagination(asked, found, f.Sort.Place),
	}}, nil
}

// runFilter reads the filters of a list. A deleted definition is found by its id. Faults:
// Malformed; Invalid (jobrun.CodeNotFound) if there is no such definition, because an empty list
// would suggest that the definition has no runs.
func (s *Handlers) runFilter(ctx context.Context, p *api.ListJobRunsParams) (jobrun.Filter, error) {
	f, none, wrong, err := s.filterOfRuns(ctx, &api.JobRunFilter{
		States: p.State, Triggers: p.Trigger, Definition: p.Definition, Worker: p.Worker, Queue: p.Queue, Label: p.Label,
		CorrelationID: p.CorrelationID, CorrelationIDPrefix: p.CorrelationIDPrefix,
		SagaID: p.SagaID, RootRunID: p.RootRunID, BackfillID: p.BackfillID, ErrorCode: p.ErrorCode,
		ScheduledFrom: p.ScheduledFrom, ScheduledTo: p.ScheduledTo,
		CreatedFrom: p.CreatedFrom, CreatedTo: p.CreatedTo, FinishedFrom: p.FinishedFrom, FinishedTo: p.FinishedTo,
		LateByMin: p.LateByMin, GaveUp: p.GaveUp,
	})
	if wrong != nil {
		return f, httpkit.ParameterFault(httpkit.CodeInvalidParameter, wrong...)
	}
	if err == nil && none {
		return f, noDefinitionIn(fault.Field{Parameter: "definition"}, *p.Definition)
	}
	return f, err
}

// filterOfRuns converts filters that have been validated against the contract. wrong contains
// further mistakes, by parameter name.
func (s *Handlers) filterOfRuns(ctx context.Context,
	p *api.JobRunFilter) (f jobrun.Filter, none bool, wrong []fault.Field, err error) {
	f = jobrun.Filter{
		States: httpkit.Enums[jobrun.State](p.States), Triggers: httpkit.Enums[jobrun.Trigger](p.Triggers),
		Queue: httpkit.Text(p.Queue), Label: httpkit.Text(p.Label),
		CorrelationID: httpkit.Text(p.CorrelationID), CorrelationPrefix: httpkit.Text(p.CorrelationIDPrefix),
		ErrorCode: httpkit.Text(p.ErrorCode),
		GaveUp:    p.GaveUp,
	}
	if p.LateByMin != nil {
		f.LateByMS = int64(*p.LateByMin) * time.Minute.Milliseconds()
	}
	for _, id := range []struct {
		name string
		in   *uuid.UUID
		out  *uuid.UUID
	}{{"worker", p.Worker, &f.WorkerID}, {"saga_id", p.SagaID, &f.SagaID}, {"root_run_id", p.RootRunID, &f.RootRunID},
		{"backfill_id", p.BackfillID, &f.BackfillID}} {
		switch {
		case id.in == nil:
		case *id.in == uuid.Nil: // a zero id does not filter
			wrong = append(wrong, fault.Field{Parameter: id.name, Code: "invalid", Message: "must not be the nil UUID"})
		default:
			*id.out = *id.in
		}
	}
	for _, bound := range []struct {
		name string
		in   *time.Time
		out  *time.Time
	}{
		{"scheduled_from", p.ScheduledFrom, &f.ScheduledFrom}, {"scheduled_to", p.ScheduledTo, &f.ScheduledTo},
		{"created_from", p.CreatedFrom, &f.CreatedFrom}, {"created_to", p.CreatedTo, &f.CreatedTo},
		{"finished_from", p.FinishedFrom, &f.FinishedFrom}, {"finished_to", p.FinishedTo, &f.FinishedTo},
	} {
		if *bound.out, err = httpkit.TimeOf(bound.name, bound.in); err != nil {
			wrong = append(wrong, fault.As(err).Fields...)
		}
	}
	for _, p := range []struct {
		name     string
		from, to time.Time
	}{
		{"scheduled", f.ScheduledFrom, f.ScheduledTo}, {"created", f.CreatedFrom, f.CreatedTo},
		{"finished", f.FinishedFrom, f.FinishedTo},
	} {
		if bad := httpkit.InOrder(p.name+"_from", p.name+"_to", p.from, p.to); bad != nil {
			wrong = append(wrong, bad.Fields...)
		}
	}
	if wrong != nil || p.Definition == nil {
		return f, false, wrong, nil
	}
	f.DefinitionID, none, err = s.definitionNamed(ctx, *p.Definition)
	return f, none, nil, err
}

// definitionNamed returns the id of a definition; none reports that there is no definition with
// this id or name.
func (s *Handlers) definitionNamed(ctx context.Context, ref string) (id uuid.UUID, none bool, err error) {
	d, err := s.Definitions.Definition(ctx, httpkit.RequestOf(ctx).Tenant.ID, ref)
	if fault.KindOf(err) == fault.NotFound {
		return uuid.Nil, true, nil
	}
	return d.ID, false, err
}

// ListJobRunAttempts returns the attempts of a run.
func (s *Handlers) ListJobRunAttempts(ctx context.Context,
	in api.ListJobRunAttemptsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	attempts, err := s.Runs.Attempts(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID)
	if err != nil {
		return nil, err
	}
	out := api.JobAttemptList{Attempts: make([]api.JobAttempt, len(attempts))}
	for i := range attempts {
		out.Attempts[i] = toAPIJobAttempt(&attempts[i])
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// ListJobRunEvents returns the events of a run.
func (s *Handlers) ListJobRunEvents(ctx context.Context, in api.ListJobRunEventsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	events, err := s.Runs.Events(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.JobEventList{Events: toAPIJobEvents(events)}}, nil
}
