package jobrun

import (
	"encoding/json"

	"github.com/skald-saga/skald/internal/fault"
)

// Codes of problems.
const (
	CodeNotFound      = "JOB_DEFINITION_NOT_FOUND"
	CodeRunNotFound   = "JOB_RUN_NOT_FOUND"
	CodeEventNotFound = "JOB_EVENT_NOT_FOUND"
	CodeNoBulk        = "JOB_BULK_NOT_FOUND"
	CodeInvalid       = "JOB_INVALID"
	CodeNameTaken     = "JOB_NAME_TAKEN"
	CodeStale         = "JOB_VERSION_CONFLICT" // another request was faster
	CodeUnreadable    = "JOB_DEFINITION_UNREADABLE"
	CodeClosed        = "JOB_CONTENT_UNREADABLE"
	CodeConflict      = "JOB_STATE_CONFLICT" // its state forbids it; to a worker: it has ended
	CodeForbidden     = "JOB_CONCURRENCY_FORBID"
	CodeActiveRuns    = "JOB_ACTIVE_RUNS"
	CodeBuiltIn       = "JOB_BUILT_IN"
	CodeFenceLost     = "JOB_FENCE_LOST"  // another attempt has it: kill the process, discard the result
	CodeStaleEpoch    = "JOB_STALE_EPOCH" // assigned under an epoch that the run no longer carries
	CodeNotStarted    = "JOB_NOT_STARTED" // complete before start: an error of the worker
	CodeCancelWins    = "JOB_CANCEL_WINS" // the cancel was there first
	CodeWorkerGone    = "JOB_WORKER_GONE" // 410: register again
	CodeWorkerUnknown = "JOB_WORKER_NOT_FOUND"
	CodeNotConfirming = "JOB_NOT_CONFIRMING"
	CodeLogGap        = "JOB_LOG_CONFLICT" // another chunk has that number
	CodeNoLeader      = "JOB_NO_LEADER"
	CodeFenceNotFound = "JOB_FENCE_NOT_FOUND"
	// CodeFenceNotIssued: no run was ever given this fencing token.
	CodeFenceNotIssued = "JOB_FENCE_NOT_ISSUED"
	CodeSetting        = "JOB_SETTING_INVALID"
	CodeUnavailable    = "JOB_UNAVAILABLE" // there are no job runs without PostgreSQL
)

// Call is what a worker asks for a run.
type Call string

// Calls that carry a fence.
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

// outcome is the state in which a call leaves a run that it ends.
var outcome = map[Call][]State{
	CallComplete: {Succeeded}, CallFail: {Failed, TimedOut}, CallCancel: {Canceled},
}

// Judge says why the store did not apply a worker's call to r. replayed: the call
// repeats one that was applied, so it is acknowledged again (retries over a bad
// network are safe). retry: the run satisfies the call after all and only changed
// while the call was being applied, so the store applies it once more (S12). Otherwise
// refusal is a fault whose detail tells the worker what to do.
func Judge(r *Run, f Fence, c Call) (replayed, retry bool, refusal error) {
	if r.WorkerID != f.WorkerID || r.Attempt != f.Attempt || r.LeaseToken != f.LeaseToken {
		return false, false, fault.New(fault.Conflict, CodeFenceLost,
			"attempt %d of this run is no longer yours, the run is %s: stop it and discard its result", f.Attempt, r.State)
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
			return false, false, fault.New(fault.Conflict, CodeCancelWins, "the run was already canceled: discard its result")
		}
		if c == CallLogs {
			return false, true, nil // the last lines of a run that has ended are welcome
		}
		return false, false, fault.New(fault.Conflict, CodeConflict, "the run is already %s: discard its result", r.State)
	case r.State == Orphaned:
		if c == CallRelease {
			return true, false, nil
		}
		return false, false, fault.New(fault.Conflict, CodeFenceLost, "the run was given up by the leader: stop it and discard its result")
	case r.State == Running && c == CallStart:
		return true, false, nil
	case r.State == Assigned && c != CallStart && c != CallRelease && c != CallCancel:
		return false, false, fault.New(fault.Conflict, CodeNotStarted, "the run is assigned to you, but was not started")
	case c == CallConfirm && r.Continuation != Confirming:
		return true, false, nil // it is no longer in doubt
	case c == CallCancel && r.CancelRequestedAt == nil:
		return false, false, fault.New(fault.Conflict, CodeConflict, "no cancel was requested for this run")
	}
	return false, true, nil
}

// Conflict is the fault of a run whose state forbids an operator's action.
func (r *Run) Conflict(what string) *fault.Error {
	return fault.New(fault.Conflict, CodeConflict, "the job run is %s and cannot be %s", r.State, what).Allowing(r.Actions())
}

// Actions lists what an operator can do to a run now.
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

// mistakes gathers what is wrong with a definition.
type mistakes struct{ fault.Mistakes }

func isNull(doc json.RawMessage) bool { return string(doc) == "null" }
