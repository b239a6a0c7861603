package workerapi

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// found is the outcome for one item of a list before it goes to the store.
type found struct {
	id       uuid.UUID // uuid.Nil: the item names no run
	refused  *fault.Error
	adjusted []string
}

// foundIn returns the outcome for item i, and the id of its run if it could be decoded. goOn
// reports whether the item goes to the store.
func foundIn[T any](req *httpkit.Request, i int, item *api.Item[T], id uuid.UUID) (f found, goOn bool) {
	j := req.Item(i, item.Err)
	if id == uuid.Nil {
		id, _ = uuid.Parse(j.ID)
	}
	if id == uuid.Nil && item.Err != nil {
		var named struct {
			RunID uuid.UUID `json:"run_id"`
		}
		if json.Unmarshal(item.Text, &named) == nil {
			id = named.RunID
		}
	}
	return found{id, j.Refused, j.Adjusted}, j.Refused == nil || j.Kept
}

// outcome is a worker's report about a run: its result, or that it was canceled.
type outcome struct {
	jobrun.Result
	canceled bool
}

// toOutcome converts an item of a report and checks constraints that involve several members. The
// fault is the same as for a violation of the schema.
func toOutcome(tenant, worker uuid.UUID, r *api.CompleteItem, texts *plaintext.Members) (outcome, *fault.Error) {
	var wrong fault.Mistakes
	res := jobrun.Result{
		TenantID: tenant, RunID: r.RunID, Fence: fenceOf(worker, r.Attempt, r.LeaseToken, r.LeaderEpoch),
		Value: httpkit.UnlessNull(r.Result), ExitCode: httpkit.AsInt(r.ExitCode), Resources: resourcesOf(r.Resources),
		TimedOut: r.TimedOut != nil && *r.TimedOut, Emit: emittedOf(r.Emit, &wrong),
	}
	if r.Error != nil {
		res.Error = runErrorOf(r.Error, texts)
	}
	canceled := r.Canceled != nil && *r.Canceled
	switch {
	case res.Error == nil && res.TimedOut:
		wrong.Add("/error", "required", "is required with timed_out")
	case res.Error != nil && (res.Value != nil || res.Emit != nil):
		wrong.Add("/error", "excluded", "cannot be combined with result or emit")
	case canceled && (res.Error != nil || res.Value != nil || res.Emit != nil ||
		res.ExitCode != nil || r.Resources != nil):
		wrong.Add("/canceled", "excluded", "cannot be combined with result, error, exit_code, resources or emit")
	}
	checkResult(&res, &wrong)
	if wrong != nil {
		return outcome{Result: res}, httpkit.SchemaFault(wrong...)
	}
	return outcome{res, canceled}, nil
}

// toBeat converts a run of a heartbeat.
func toBeat(worker uuid.UUID, r *api.HeartbeatRun, texts *plaintext.Members) jobrun.Beat {
	b := jobrun.Beat{
		RunID: r.RunID, Fence: fenceOf(worker, r.Attempt, r.LeaseToken, r.LeaderEpoch),
		Checkpoint: httpkit.UnlessNull(r.Checkpoint),
	}
	if p := r.Progress; p != nil {
		told := jobrun.Progress{Percent: p.Percent, Message: httpkit.Text(p.Message), Counters: p.Counters}
		b.Progress = told.Storable("/progress", texts)
	}
	return b
}

func toClaimedRuns(lease int64, state jobrun.WorkerState, offers []jobrun.Offer) api.ClaimedRuns {
	return api.ClaimedRuns{State: api.WorkerState(state), LeaseMS: lease, Runs: toRuns(offers)}
}

func toRuns(offers []jobrun.Offer) []api.ClaimedRun {
	out := make([]api.ClaimedRun, len(offers))
	for i := range offers {
		o := &offers[i]
		out[i] = api.ClaimedRun{
			RunID: o.ID, Definition: o.DefinitionName, DefinitionID: httpkit.UnlessNil(o.DefinitionID),
			Command: o.CommandName, Args: o.Args, Checkpoint: o.LastCheckpoint,
			Attempt:    int32(o.Attempt), //nolint:gosec // counts assignments
			LeaseToken: o.LeaseToken, LeaderEpoch: o.LeaderEpoch, FencingToken: o.FencingToken(),
			Version: o.Version, State: api.JobRunState(o.State),
			LeaseExpiresAt: *inUTC(o.LeaseExpiresAt), ScheduledFor: o.ScheduledFor.UTC(), TimeoutMS: o.TimeoutMS,
			Trigger: string(o.Trigger), Queue: o.Queue,
			Priority:       int32(o.Priority), //nolint:gosec // jobrun.MaxPriority bounds it
			IdempotencyKey: o.IdempotencyKey, ConcurrencyKey: httpkit.UnlessEmpty(o.ConcurrencyKey),
			CorrelationID: httpkit.UnlessEmpty(o.CorrelationID), TraceID: httpkit.UnlessEmpty(o.TraceID),
			Tracestate: httpkit.UnlessEmpty(o.TraceState), Baggage: httpkit.UnlessEmpty(o.Baggage),
			SagaID: httpkit.UnlessNil(o.SagaID), EventID: httpkit.UnlessNil(o.EventID),
		}
	}
	return out
}

// toRunResults converts the results for many runs, together with the outcomes of their items. If
// lease is 0, it is omitted.
func toRunResults(lease int64, done []jobrun.Done, items []found) api.RunResults {
	out := api.RunResults{Results: make([]api.RunResult, len(done))}
	if lease > 0 {
		out.LeaseMS = &lease
	}
	for i := range done {
		d, r := &done[i], &out.Results[i]
		r.RunID, r.Adjusted = httpkit.UnlessNil(items[i].id), items[i].adjusted
		if f := fault.As(d.Err); f != nil {
			r.Status, r.Problem = int32(httpkit.StatusOf(f.Kind)), httpkit.ItemProblem(f) //nolint:gosec // three digits
			continue
		}
		r.Status, r.State, r.Version = 200, new(api.JobRunState(d.Run.State)), &d.Run.Version
		if !d.Run.State.Terminal() {
			r.LeaseExpiresAt = inUTC(d.Run.LeaseExpiresAt)
			r.CancelRequested = httpkit.UnlessFalse(d.Run.CancelRequestedAt != nil)
		}
		r.Replayed, r.DlqMessageID = httpkit.UnlessFalse(d.Replayed), httpkit.UnlessNil(d.LetterID)
		r.RetryRunID, r.RetryAt = httpkit.UnlessNil(d.RetryID), d.RetryAt
	}
	return out
}

// toHeartbeat converts the answer to a heartbeat, which has a lease for each item that went to the
// store, in order.
func toHeartbeat(w *jobrun.WorkerProcess, settings jobrun.Settings, leases []jobrun.Lease, items []found,
	places []int) api.Heartbeat {
	out := api.Heartbeat{
		State: api.WorkerState(w.State), SettingsVersion: settings.Version,
		HeartbeatIntervalMS: settings.Seconds(jobrun.HeartbeatInterval).Milliseconds(),
		LeaseMS:             settings.Seconds(jobrun.RunLease).Milliseconds(), Leases: make([]api.LeaseState, len(items)),
	}
	for i := range items {
		f, l := &items[i], &out.Leases[i]
		l.RunID, l.Adjusted = httpkit.UnlessNil(f.id), f.adjusted
		if f.refused != nil {
			l.Problem, l.Reason = httpkit.ItemProblem(f.refused), &f.refused.Code
		}
	}
	for i := range leases {
		l, to := &leases[i], &out.Leases[places[i]]
		to.Ok, to.CancelRequested, to.Reason = l.OK, httpkit.UnlessFalse(l.CancelRequested), httpkit.UnlessEmpty(l.Reason)
		if l.OK {
			to.LeaseExpiresAt = new(l.ExpiresAt.UTC())
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

// fenceOf returns the fence in a call.
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

func runErrorOf(e *api.RunErrorInput, texts *plaintext.Members) *jobrun.Error {
	told := jobrun.Error{
		Code: e.Code, Type: httpkit.Text(e.Type), Message: httpkit.Text(e.Message), Stack: httpkit.Text(e.Stack),
		Retryable: e.Retryable == nil || *e.Retryable,
	}
	return told.Storable("/error", texts)
}

// emittedOf converts the emissions of a run.
func emittedOf(list []api.EmittedItem, wrong *fault.Mistakes) (out []jobrun.Emitted) {
	for i := range list {
		e := &list[i]
		if (e.Event == nil) == (e.Run == nil) {
			wrong.Add("/emit/"+strconv.Itoa(i), "required", "must have either event or run")
			continue
		}
		if e.Run != nil {
			out = append(out, jobrun.Emitted{Run: &jobrun.NextRun{
				Definition: e.Run.Definition, Args: httpkit.UnlessNull(e.Run.Args), ScheduledFor: inUTC(e.Run.ScheduledFor),
				Key: httpkit.Text(e.Run.IdempotencyKey),
			}})
			continue
		}
		out = append(out, jobrun.Emitted{Event: &jobrun.NewEvent{
			Type: e.Event.EventType, Payload: httpkit.UnlessNull(e.Event.Payload), DedupeKey: httpkit.Text(e.Event.DedupeKey),
			CorrelationID: httpkit.Text(e.Event.CorrelationID),
			OccurredAt:    inUTC(e.Event.OccurredAt),
		}})
	}
	return out
}

// checkResult reports the parts of a result that are too large.
func checkResult(r *jobrun.Result, wrong *fault.Mistakes) {
	if len(r.Value) > jobrun.MaxResult {
		wrong.Add("/result", "maxLength", "must have at most %d bytes", jobrun.MaxResult)
	}
}
