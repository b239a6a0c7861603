package workerapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/rest"
)

// WorkerHeartbeat renews the leases of a worker (W2).
func (s *Handlers) WorkerHeartbeat(ctx context.Context, in api.WorkerHeartbeatRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, in.WorkerID); err != nil {
		return nil, err
	}
	settings, err := s.Current(ctx)
	if err != nil {
		return nil, err
	}
	b, load := in.Body, 0.0
	if b.Load != nil {
		load = *b.Load
	}
	w, leases, err := s.Work.Heartbeat(ctx, rest.RequestOf(ctx).Tenant.ID, in.WorkerID, b.Seq, load,
		toBeats(in.WorkerID, b.Running))
	if err != nil {
		return nil, err
	}
	s.waits.NoteHeartbeat(rest.RequestOf(ctx).Tenant.ID, in.WorkerID)
	return rest.Answer{Status: http.StatusOK, Body: toHeartbeat(&w, settings, leases)}, nil
}

// StartRuns starts many runs, each on its own.
func (s *Handlers) StartRuns(ctx context.Context, in api.StartRunsRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, in.WorkerID); err != nil {
		return nil, err
	}
	fences := toFences(in.WorkerID, in.Body)
	if err := onceEach(len(fences), func(i int) uuid.UUID { return fences[i].RunID }); err != nil {
		return nil, err
	}
	lease, err := s.runLease(ctx)
	if err != nil {
		return nil, err
	}
	done, err := s.Work.Start(ctx, rest.RequestOf(ctx).Tenant.ID, fences)
	if err != nil {
		return nil, err
	}
	return resultsAnswer(lease, done, func(i int) uuid.UUID { return fences[i].RunID })
}

// CompleteRuns ends many runs, each on its own.
func (s *Handlers) CompleteRuns(ctx context.Context, in api.CompleteRunsRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, in.WorkerID); err != nil {
		return nil, err
	}
	results, err := toResults(rest.RequestOf(ctx).Tenant.ID, in.WorkerID, in.Body)
	if err != nil {
		return nil, err
	}
	if err := onceEach(len(results), func(i int) uuid.UUID { return results[i].RunID }); err != nil {
		return nil, err
	}
	done := make([]jobrun.Done, len(results))
	var allowed []jobrun.Result
	var places []int // indexes in the list
	for i := range results {
		if done[i].Err = mayEmit(ctx, &results[i]); done[i].Err == nil {
			allowed, places = append(allowed, results[i]), append(places, i)
		}
	}
	if len(allowed) > 0 {
		ended, err := s.Work.Finish(ctx, allowed)
		if err != nil {
			return nil, err
		}
		for i, at := range places {
			done[at] = ended[i]
		}
	}
	return resultsAnswer(0, done, func(i int) uuid.UUID { return results[i].RunID })
}

// resultsAnswer returns a result for each of many runs. If the outcome of one is
// unknown, that of the whole batch is: the worker repeats it, and the runs that were
// done are answered as repetitions.
func resultsAnswer(lease int64, done []jobrun.Done, id func(i int) uuid.UUID) (rest.Answer, error) {
	for i := range done {
		if err := done[i].Err; err != nil && fault.As(err) == nil {
			return rest.Answer{}, err
		}
	}
	return rest.Answer{Status: http.StatusOK, Body: toRunResults(lease, done, id)}, nil
}

// onceEach refuses a batch that names a run twice. Fault: Invalid.
func onceEach(n int, id func(i int) uuid.UUID) error {
	seen := make(map[uuid.UUID]struct{}, n)
	for i := range n {
		if _, twice := seen[id(i)]; twice {
			return rest.SchemaFault(fault.Field{Pointer: fmt.Sprintf("/runs/%d/run_id", i), Code: "repeated",
				Message: "must not be repeated"})
		}
		seen[id(i)] = struct{}{}
	}
	return nil
}
