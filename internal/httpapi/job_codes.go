package httpapi

import "github.com/skald-saga/skald/internal/jobrun"

// jobProblems is every code of job runs, in the order of the document. What a
// worker is to do stands with the codes that it gets (docs/workers.md).
var jobProblems = []problemKind{
	{jobrun.CodeNotFound, []int{404, 422}, "No such job definition", "The tenant has no job definition of this id or name. 404 where the path names it, 422 where a body or a filter does. A definition that was deleted is found by its id."},
	{jobrun.CodeRunNotFound, []int{404}, "No such job run", "The tenant has no job run of this id."},
	{jobrun.CodeEventNotFound, []int{404}, "No such event", "The tenant has no event of this id."},
	{jobrun.CodeInvalid, []int{413, 422}, "Invalid job", "What was sent cannot be a job definition, a run's arguments, an event or what a worker reports. `errors` lists every mistake. 413 for a log that is too long."},
	{jobrun.CodeNoMass, []int{404}, "No such backfill or bulk", "The tenant has no backfill, or no bulk of job runs, of this id."},
	{jobrun.CodeNameTaken, []int{409}, "Name taken", "The tenant has another job definition of this name."},
	{jobrun.CodeStale, []int{412}, "It has changed", "If-Match named another version than the present one of the job definition, the settings or the worker. Read it again and decide again."},
	{jobrun.CodeConflict, []int{409}, "The state forbids this", "The action is not possible in the present state of the job run, or of what else it was asked of. `allowed_actions` lists those that are. To a worker it means that the run has ended: discard its result and do not report again."},
	{jobrun.CodeForbidden, []int{409}, "Another run has not ended", "The definition allows one run at a time, and `detail` names the one that has not ended. `respect_concurrency: false` starts another all the same."},
	{jobrun.CodeActiveRuns, []int{409}, "Runs have not ended", "The job definition has runs that have not ended. `force` cancels them."},
	{jobrun.CodeBuiltIn, []int{409}, "Built in", "The job definition is Skald's own: it can be paused and run, not deleted or renamed."},
	{jobrun.CodeFenceLost, []int{409}, "The run is no longer yours", "Another attempt has the run, or the leader has given this one up. Stop the process, discard its result, and do not report again."},
	{jobrun.CodeStaleEpoch, []int{409}, "Another epoch", "The run was assigned under another epoch of leadership than the call names. Stop the process, discard its result, and do not report again."},
	{jobrun.CodeNotStarted, []int{409}, "Not started", "The run is assigned to the worker, which has not started it: an error of the worker. Call start first."},
	{jobrun.CodeCancelWins, []int{409}, "The cancel was first", "The run was canceled before the result came. Discard it."},
	{jobrun.CodeWorkerGone, []int{410}, "The worker is gone", "The worker was detached, or there never was one of this id. Stop everything that was not confirmed, and register anew: the process gets a new id."},
	{jobrun.CodeWorkerUnknown, []int{404}, "No such worker", "The tenant has no worker of this id."},
	{jobrun.CodeNotConfirming, []int{409}, "Not in doubt", "The run is not waiting to be confirmed."},
	{jobrun.CodeLogGap, []int{409}, "Another chunk has this number", "Another chunk of the log is stored under this number. Go on with the number after the last one that was taken."},
	{jobrun.CodeNoLeader, []int{409}, "Nobody leads", "No node leads the scheduler right now."},
	{jobrun.CodeFenceNotFound, []int{404}, "No such fence", "No fencing token was checked for this key, or the fence was reset, or not checked for `run_retention_days`."},
	{jobrun.CodeFenceNotIssued, []int{422}, "Not a fencing token of this server", "No run was ever given this fencing token, so it was not remembered. Refuse the write. Whoever showed it made it up, or has it from another installation, or from after the moment that the database was restored to."},
	{jobrun.CodeSetting, []int{422}, "Impossible setting", "There is no setting of this name, or the value is not one that it may have. `errors` lists every mistake."},
	{jobrun.CodeUnavailable, []int{503}, "No job runs", "The server was started with `--store memory`, which has no job runs."},
}
