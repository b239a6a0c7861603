package workerapi

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/rest"
)

// toFences converts a StartBatch.
func toFences(worker uuid.UUID, b *api.StartBatch) []jobrun.RunFence {
	out := make([]jobrun.RunFence, len(b.Runs))
	for i := range b.Runs {
		r := &b.Runs[i]
		out[i] = jobrun.RunFence{RunID: r.RunID, Fence: fenceOf(worker, r.Attempt, r.LeaseToken, r.LeaderEpoch)}
	}
	return out
}

// toResults converts a CompleteBatch, and checks what involves several members. Fault:
// that of the schema.
func toResults(tenant, worker uuid.UUID, b *api.CompleteBatch) ([]jobrun.Result, error) {
	out := make([]jobrun.Result, len(b.Runs))
	var wrong fault.Mistakes
	for i := range b.Runs {
		r, at := &b.Runs[i], "/runs/"+strconv.Itoa(i)
		res := &out[i]
		*res = jobrun.Result{
			TenantID: tenant, RunID: r.RunID, Fence: fenceOf(worker, r.Attempt, r.LeaseToken, r.LeaderEpoch),
			Value: rest.UnlessNull(r.Result), ExitCode: rest.AsInt(r.ExitCode), Resources: resourcesOf(r.Resources),
			TimedOut: r.TimedOut != nil && *r.TimedOut, Emit: emittedOf(r.Emit, at, &wrong),
		}
		if r.Error != nil {
			res.Error = runErrorOf(r.Error)
		}
		switch {
		case res.Error == nil && res.TimedOut:
			wrong.Add(at+"/error", "required", "is required with timed_out")
		case res.Error != nil && (res.Value != nil || res.Emit != nil):
			wrong.Add(at+"/error", "excluded", "cannot be combined with result or emit")
		}
		checkResult(res, at, &wrong)
	}
	if wrong != nil {
		return nil, rest.SchemaFault(wrong...)
	}
	return out, nil
}

// toBeats converts the runs of a heartbeat.
func toBeats(worker uuid.UUID, runs []api.HeartbeatRun) []jobrun.Beat {
	out := make([]jobrun.Beat, len(runs))
	for i := range runs {
		r := &runs[i]
		out[i] = jobrun.Beat{
			RunID: r.RunID, Fence: fenceOf(worker, r.Attempt, r.LeaseToken, r.LeaderEpoch),
			Checkpoint: rest.UnlessNull(r.Checkpoint),
		}
		if p := r.Progress; p != nil {
			out[i].Progress = &jobrun.Progress{Percent: p.Percent, Message: rest.Text(p.Message), Counters: p.Counters}
		}
	}
	return out
}

func toClaimedRuns(lease int64, state jobrun.WorkerState, offers []jobrun.Offer) api.ClaimedRuns {
	out := api.ClaimedRuns{State: api.WorkerState(state), LeaseMS: lease, Runs: make([]api.ClaimedRun, len(offers))}
	for i := range offers {
		o := &offers[i]
		out.Runs[i] = api.ClaimedRun{
			RunID: o.ID, Definition: o.DefinitionName, DefinitionID: rest.UnlessNil(o.DefinitionID),
			Command: o.CommandName, Args: o.Args, Checkpoint: o.LastCheckpoint,
			Attempt:    int32(o.Attempt), //nolint:gosec // counts assignments
			LeaseToken: o.LeaseToken, LeaderEpoch: o.LeaderEpoch, FencingToken: o.FencingToken(),
			Version: o.Version, State: api.JobRunState(o.State),
			LeaseExpiresAt: *inUTC(o.LeaseExpiresAt), ScheduledFor: o.ScheduledFor.UTC(), TimeoutMS: o.TimeoutMS,
			Trigger: string(o.Trigger), Queue: o.Queue,
			Priority:       int32(o.Priority), //nolint:gosec // jobrun.MaxPriority bounds it
			IdempotencyKey: o.IdempotencyKey, ConcurrencyKey: rest.UnlessEmpty(o.ConcurrencyKey),
			CorrelationID: rest.UnlessEmpty(o.CorrelationID), TraceID: rest.UnlessEmpty(o.TraceID),
			SagaID: rest.UnlessNil(o.SagaID), EventID: rest.UnlessNil(o.EventID),
		}
	}
	return out
}

// toRunResults converts the results of many runs; lease 0: left out. ids are those of
// the items, in order.
func toRunResults(lease int64, done []jobrun.Done, id func(i int) uuid.UUID) api.RunResults {
	out := api.RunResults{Results: make([]api.RunResult, len(done))}
	if lease > 0 {
		out.LeaseMS = &lease
	}
	for i := range done {
		d, r := &done[i], &out.Results[i]
		r.RunID = id(i)
		if f := fault.As(d.Err); f != nil {
			r.Status, r.Problem = int32(rest.StatusOf(f.Kind)), rest.ItemProblem(f) //nolint:gosec // three digits
			continue
		}
		r.Status, r.State, r.Version = 200, new(api.JobRunState(d.Run.State)), &d.Run.Version
		if !d.Run.State.Terminal() {
			r.LeaseExpiresAt = inUTC(d.Run.LeaseExpiresAt)
			r.CancelRequested = rest.UnlessFalse(d.Run.CancelRequestedAt != nil)
		}
		r.Replayed, r.DlqMessageID = rest.UnlessFalse(d.Replayed), rest.UnlessNil(d.LetterID)
		r.RetryRunID, r.RetryAt = rest.UnlessNil(d.RetryID), d.RetryAt
	}
	return out
}

func toHeartbeat(w *jobrun.WorkerProcess, settings jobrun.Settings, leases []jobrun.Lease) api.Heartbeat {
	out := api.Heartbeat{
		State: api.WorkerState(w.State), SettingsVersion: settings.Version,
		HeartbeatIntervalMS: settings.Seconds(jobrun.HeartbeatInterval).Milliseconds(),
		LeaseMS:             settings.Seconds(jobrun.RunLease).Milliseconds(), Leases: make([]api.LeaseState, len(leases)),
	}
	for i := range leases {
		l := &leases[i]
		out.Leases[i] = api.LeaseState{
			RunID: l.RunID, Ok: l.OK, CancelRequested: rest.UnlessFalse(l.CancelRequested),
			Reason: rest.UnlessEmpty(l.Reason),
		}
		if l.OK {
			out.Leases[i].LeaseExpiresAt = new(l.ExpiresAt.UTC())
		}
	}
	return out
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC().Truncate(time.Microsecond))
}

// fenceOf makes the fence of a call.
func fenceOf(worker uuid.UUID, attempt int32, token uuid.UUID, epoch int64) jobrun.Fence {
	return jobrun.Fence{WorkerID: worker, Attempt: int(attempt), LeaseToken: token, LeaderEpoch: epoch}
}

func resourcesOf(r *api.RunResources) jobrun.Resources {
	if r == nil {
		return jobrun.Resources{}
	}
	return jobrun.Resources{CPUSecondsTotal: r.CPUSecondsTotal, PeakRSSBytes: r.PeakRssBytes, IOReadBytes: r.IoReadBytes,
		IOWriteBytes: r.IoWriteBytes}
}

func runErrorOf(e *api.RunErrorInput) *jobrun.Error {
	return &jobrun.Error{
		Code: e.Code, Type: rest.Text(e.Type), Message: rest.Text(e.Message), Stack: rest.Text(e.Stack),
		Retryable: e.Retryable == nil || *e.Retryable,
	}
}

// emittedOf converts what a run emits; at is the pointer of its result in the body.
func emittedOf(list []api.EmittedItem, at string, wrong *fault.Mistakes) (out []jobrun.Emitted) {
	for i := range list {
		e := &list[i]
		if (e.Event == nil) == (e.Run == nil) {
			wrong.Add(at+"/emit/"+strconv.Itoa(i), "required", "must have either event or run")
			continue
		}
		if e.Run != nil {
			out = append(out, jobrun.Emitted{Run: &jobrun.NextRun{
				Definition: e.Run.Definition, Args: rest.UnlessNull(e.Run.Args), ScheduledFor: inUTC(e.Run.ScheduledFor),
				Key: rest.Text(e.Run.IdempotencyKey),
			}})
			continue
		}
		out = append(out, jobrun.Emitted{Event: &jobrun.NewEvent{
			Type: e.Event.EventType, Payload: rest.UnlessNull(e.Event.Payload), DedupeKey: rest.Text(e.Event.DedupeKey),
			CorrelationID: rest.Text(e.Event.CorrelationID),
			OccurredAt:    inUTC(e.Event.OccurredAt),
		}})
	}
	return out
}

// checkResult reports the parts of a result that are too large; at is its pointer in
// the body.
func checkResult(r *jobrun.Result, at string, wrong *fault.Mistakes) {
	if len(r.Value) > jobrun.MaxResult {
		wrong.Add(at+"/result", "maxLength", "must have at most %d bytes", jobrun.MaxResult)
	}
}
