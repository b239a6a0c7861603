package jobrun

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// Problems are the problem types of job runs. docs/workers.md describes, for each code, what a
// worker that receives it must do.
var Problems fault.Catalogue

// These are the codes of the problems. They are stable and part of the API.
var (
	CodeNotFound = Problems.Add("JOB_DEFINITION_NOT_FOUND", "No such job definition",
		"The tenant has no job definition with this id or name. 404 if the path names it, 422 if a body or "+
			"a filter does. A deleted definition can still be read by its id.", 404, 422)
	CodeRunNotFound = Problems.Add("JOB_RUN_NOT_FOUND", "No such job run",
		"The tenant has no job run with this id.", 404)
	CodeEventNotFound = Problems.Add("JOB_EVENT_NOT_FOUND", "No such event",
		"The tenant has no event with this id.", 404)
	CodeInvalid = Problems.Add("JOB_INVALID", "Invalid job",
		"The job definition, arguments, event or worker report is invalid. `errors` lists every error. 413 for a "+
			"log that is too long.", 413, 422)
	CodeNoBulk = Problems.Add("JOB_BULK_NOT_FOUND", "No such backfill or bulk operation",
		"The tenant has no backfill or bulk operation with this id.", 404)
	CodeNameTaken = Problems.Add("JOB_NAME_TAKEN", "Name taken",
		"The tenant has another job definition with this name.", 409)
	CodeStale = Problems.Add("JOB_VERSION_CONFLICT", "The resource has changed",
		"If-Match named a version other than the current one of the job definition, the settings or the worker. "+
			"Read it again, and repeat the request if it still applies.", 412)
	CodeUnreadable = Problems.Add("JOB_DEFINITION_UNREADABLE", "Definition unreadable",
		"The request requires a job definition whose stored form is damaged, for example by a bad restore. "+
			"Restore its row from a backup, or delete it and create it again.", 409)
	CodeClosed = Problems.Add("JOB_CONTENT_UNREADABLE", "Content unreadable",
		"The request requires encrypted content of the job run that cannot be decrypted: its key is not "+
			"configured, or it was tampered with.", 409)
	CodeConflict = Problems.Add("JOB_STATE_CONFLICT", "The state forbids this",
		"The action is not possible in the current state of the job run or other resource. `allowed_actions` "+
			"lists those that are. For a worker, this means that the run has ended: discard its result and do not "+
			"report again.", 409)
	CodeForbidden = Problems.Add("JOB_CONCURRENCY_FORBID", "Another run is still active",
		"The definition allows one run at a time, and `detail` names the one that has not ended. "+
			"Set `respect_concurrency: false` to start another run anyway.", 409)
	CodeActiveRuns = Problems.Add("JOB_ACTIVE_RUNS", "The job definition has active runs",
		"The job definition has runs that have not ended. Set `force` to cancel them.", 409)
	CodeBuiltIn = Problems.Add("JOB_BUILT_IN", "Built-in job definition",
		"The job definition is built in: it can be paused and run, but not deleted or renamed.", 409)
	CodeFenceLost = Problems.Add("JOB_FENCE_LOST", "The run is no longer yours",
		"Another attempt holds the run, or the leader has ended this attempt. Stop the process, discard its "+
			"result, and do not report again.", 409)
	CodeStaleEpoch = Problems.Add("JOB_STALE_EPOCH", "Stale leader epoch",
		"The run was assigned under a leader epoch other than the one in the call. Stop the process, discard its "+
			"result, and do not report again.", 409)
	CodeNotStarted = Problems.Add("JOB_NOT_STARTED", "The run has not been started",
		"The run is assigned to the worker but has not been started. This is a bug in the worker: call start first.", 409)
	CodeCancelWins = Problems.Add("JOB_CANCEL_WINS", "The run was already canceled",
		"The run was canceled before its result arrived. Discard the result.", 409)
	CodeWorkerGone = Problems.Add("JOB_WORKER_GONE", "Worker detached or unknown",
		"The worker was detached, or no worker has this id. Stop every run that was not confirmed, and register "+
			"again: the process gets a new id.", 410)
	CodeWorkerUnknown = Problems.Add("JOB_WORKER_NOT_FOUND", "No such worker",
		"The tenant has no worker with this id.", 404)
	CodeOtherResult = Problems.Add("JOB_RESULT_CONFLICT", "Another result was already reported",
		"The attempt has already ended with a different result, which stands. A repeated report is acknowledged "+
			"only if it has the same content. Discard this result and do not report again.", 409)
	CodeNotConfirming = Problems.Add("JOB_NOT_CONFIRMING", "The run is not awaiting confirmation",
		"The run is not in doubt, so there is nothing to confirm.", 409)
	CodeLogGap = Problems.Add("JOB_LOG_CONFLICT", "Log chunk conflict",
		"Another chunk of the log is stored under this number, or chunks before it are missing. Continue with the "+
			"number that `detail` names.", 409)
	CodeNoLeader = Problems.Add("JOB_NO_LEADER", "No leader",
		"The scheduler has no leader right now. Retry after the next election.", 409)
	CodeFenceNotFound = Problems.Add("JOB_FENCE_NOT_FOUND", "No such fence",
		"No fencing token was ever checked for this key, its fence was reset, or it was not checked for "+
			"`run_retention_days`.", 404)
	CodeFenceNotIssued = Problems.Add("JOB_FENCE_NOT_ISSUED", "Not a fencing token of this tenant",
		"No run of the tenant holds this fencing token, so it was not stored. Reject the write. The token was "+
			"invented, comes from another tenant or installation, or was issued after the point in time to which "+
			"the database was restored. If its run has ended or is with another worker, send `run_id` as well.", 422)
	CodeSetting = Problems.Add("JOB_SETTING_INVALID", "Invalid setting",
		"No setting has this name, or the value is not allowed. `errors` lists every error.", 422)
	CodeUnavailable = Problems.Add("JOB_UNAVAILABLE", "Job runs unavailable",
		"The server was started with `--store memory`, which has no job runs.", 503)
)

// Call is a kind of worker call about a run.
type Call string

// These are the calls that carry a fence.
const (
	CallStart    Call = "start"
	CallProgress Call = "progress"
	CallLogs     Call = "logs"
	CallComplete Call = "complete"
	CallFail     Call = "fail"
	CallRelease  Call = "release"
	CallCancel   Call = "cancel-ack"
	CallConfirm  Call = "confirm-continuation"
)

// outcome returns the state to which a call that ends a run moves it.
var outcome = map[Call][]State{
	CallComplete: {Succeeded}, CallFail: {Failed, TimedOut}, CallCancel: {Canceled},
}

// Judge decides why the store did not apply a worker's call to r. If replayed is true, the call
// repeats one that was already applied, so it is acknowledged again, which makes it safe to retry
// over a bad network. If retry is true, r satisfies the call and merely changed while the call was
// being applied, so the store applies the call again (S12). Otherwise refusal is a fault whose
// detail tells the worker what to do.
func Judge(r *Run, f Fence, c Call) (replayed, retry bool, refusal error) {
	if r.WorkerID != f.WorkerID || r.Attempt != f.Attempt || r.LeaseToken != f.LeaseToken {
		return false, false, fault.New(fault.Conflict, CodeFenceLost,
			"attempt %d of this run is no longer yours; the run is %s: stop the process and discard its result", f.Attempt, r.State)
	}
	if r.LeaderEpoch != f.LeaderEpoch {
		return false, false, fault.New(fault.Conflict, CodeStaleEpoch,
			"the run was assigned under epoch %d, not %d: stop it and discard its result", r.LeaderEpoch, f.LeaderEpoch)
	}
	switch {
	case r.State.Terminal():
		for _, s := range outcome[c] {
			if r.State == s {
				return true, false, nil
			}
		}
		if r.State == Canceled && (c == CallComplete || c == CallFail) {
			return false, false, fault.New(fault.Conflict, CodeCancelWins, "the run has already been canceled: discard its result")
		}
		if c == CallLogs {
			return false, true, nil // the last lines of an ended run are accepted
		}
		return false, false, fault.New(fault.Conflict, CodeConflict, "the run is already %s: discard its result", r.State)
	case r.State == Orphaned:
		if c == CallRelease {
			return true, false, nil
		}
		return false, false, fault.New(fault.Conflict, CodeFenceLost, "the leader has taken the run from this attempt: stop the process and discard its result")
	case r.State == Running && c == CallStart:
		return true, false, nil
	case r.State == Assigned && c != CallStart && c != CallRelease && c != CallCancel:
		return false, false, fault.New(fault.Conflict, CodeNotStarted, "the run is assigned to you but has not been started")
	case c == CallConfirm && r.Continuation != Confirming:
		return true, false, nil // the doubt has already ended
	case c == CallCancel && r.CancelRequestedAt == nil:
		return false, false, fault.New(fault.Conflict, CodeConflict, "no cancellation was requested for this run")
	}
	return false, true, nil
}

// Conflict returns the fault for an operator's action that the state of a run does not allow.
func (r *Run) Conflict(what string) *fault.Error {
	return fault.New(fault.Conflict, CodeConflict, "the job run is %s and cannot be %s", r.State, what).Allowing(r.Actions())
}

// NameTaken returns the fault for a definition whose name is already taken.
func (d *Definition) NameTaken() *fault.Error {
	return fault.New(fault.Conflict, CodeNameTaken, "a job definition named %q already exists", d.Name)
}

// NotEnded returns the fault for deleting a definition that has unfinished runs.
func NotEnded(run uuid.UUID) *fault.Error {
	return fault.New(fault.Conflict, CodeActiveRuns, "run %s of the job definition, and possibly others, has not ended", run)
}

// NoLeader returns the fault for making the leader step down while there is none.
func NoLeader() *fault.Error {
	return fault.New(fault.Conflict, CodeNoLeader, "the scheduler has no leader right now: retry after the next election")
}

// Actions lists the actions that an operator can currently perform on a run.
func (r *Run) Actions() []string {
	switch r.State {
	case Pending:
		return []string{"cancel"}
	case Assigned, Orphaned, Running:
		return []string{"cancel", "reassign"}
	case Succeeded, Failed, TimedOut, Canceled, Skipped:
		return []string{"rerun"}
	}
	return nil
}

// mistakes collects the errors in a definition.
type mistakes struct{ fault.Mistakes }

// within checks that a number is within its bounds.
func (w *mistakes) within(pointer string, n, least, most int64) {
	if n < least || n > most {
		w.Add(pointer, "out_of_range", "must be from %d to %d", least, most)
	}
}

func isNull(doc json.RawMessage) bool { return string(doc) == "null" }

// fault returns nil if there are no mistakes. Otherwise the detail of the fault describes the first
// mistake.
func (w mistakes) fault() error {
	if len(w.Mistakes) == 0 {
		return nil
	}
	f := fault.New(fault.Invalid, CodeInvalid, "%s", strings.TrimSpace(w.Mistakes[0].Pointer+" "+w.Mistakes[0].Message))
	if n := len(w.Mistakes) - 1; n > 0 {
		f.Detail += fmt.Sprintf(" (and %d more)", n)
	}
	return f.With(w.Mistakes...)
}
