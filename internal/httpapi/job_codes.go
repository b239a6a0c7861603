package httpapi

import "github.com/skald-saga/skald/internal/jobrun"

// jobProblems lists every code of job runs, in the order of the document. What a worker must
// do is described with the codes that it receives (docs/workers.md).
var jobProblems = []problemKind{
	{jobrun.CodeNotFound, []int{404, 422}, "No such job definition", "The tenant has no job definition with this id or name. 404 where the path names it, 422 where a body or a filter does. A deleted definition can still be read by its id."},
	{jobrun.CodeRunNotFound, []int{404}, "No such job run", "The tenant has no job run with this id."},
	{jobrun.CodeEventNotFound, []int{404}, "No such event", "The tenant has no event with this id."},
	{jobrun.CodeInvalid, []int{413, 422}, "Invalid job", "The job definition, arguments, event or worker report is invalid. `errors` lists every error. 413 for a log that is too long."},
	{jobrun.CodeNoBulk, []int{404}, "No such backfill or bulk operation", "The tenant has no backfill, or no bulk of job runs, with this id."},
	{jobrun.CodeNameTaken, []int{409}, "Name taken", "The tenant has another job definition with this name."},
	{jobrun.CodeStale, []int{412}, "The resource has changed", "If-Match named another version than the current one of the job definition, the settings or the worker. Read it again and decide again."},
	{jobrun.CodeUnreadable, []int{409}, "Definition unreadable", "What is stored of the job definition is damaged, for example by a bad restore, and the request needs it. Restore its row from a backup, or delete it and create it again."},
	{jobrun.CodeClosed, []int{409}, "Content unreadable", "Encrypted content of the job run cannot be decrypted, and the request needs it: its key is not configured, or it was tampered with."},
	{jobrun.CodeConflict, []int{409}, "The state forbids this", "The action is not possible in the current state of the job run, or of the other resource that the action is for. `allowed_actions` lists those that are. To a worker it means that the run has ended: discard its result and do not report again."},
	{jobrun.CodeForbidden, []int{409}, "Another run is still active", "The definition allows one run at a time, and `detail` names the one that has not ended. `respect_concurrency: false` starts another anyway."},
	{jobrun.CodeActiveRuns, []int{409}, "The job definition has active runs", "The job definition has runs that have not ended. `force` cancels them."},
	{jobrun.CodeBuiltIn, []int{409}, "Built-in job definition", "The job definition is built in: it can be paused and run, but not deleted or renamed."},
	{jobrun.CodeFenceLost, []int{409}, "The run is no longer yours", "Another attempt has the run, or the leader has ended this attempt. Stop the process, discard its result, and do not report again."},
	{jobrun.CodeStaleEpoch, []int{409}, "Stale leader epoch", "The run was assigned under another leader epoch than the call names. Stop the process, discard its result, and do not report again."},
	{jobrun.CodeNotStarted, []int{409}, "The run has not been started", "The run is assigned to the worker but was not started. This is a bug in the worker: call start first."},
	{jobrun.CodeCancelWins, []int{409}, "The run was already canceled", "The run was canceled before its result arrived. Discard the result."},
	{jobrun.CodeWorkerGone, []int{410}, "Worker detached or unknown", "The worker was detached, or no worker has this id. Stop every run that was not confirmed, and register again: the process gets a new id."},
	{jobrun.CodeWorkerUnknown, []int{404}, "No such worker", "The tenant has no worker with this id."},
	{jobrun.CodeNotConfirming, []int{409}, "The run is not awaiting confirmation", "The run is not waiting to be confirmed."},
	{jobrun.CodeLogGap, []int{409}, "Log chunk conflict", "Another chunk of the log is stored under this number. Continue with the number after the last accepted chunk."},
	{jobrun.CodeNoLeader, []int{409}, "No leader", "No node is the leader of the scheduler right now. Retry after the next election."},
	{jobrun.CodeFenceNotFound, []int{404}, "No such fence", "No fencing token was checked for this key, or the fence was reset, or not checked for `run_retention_days`."},
	{jobrun.CodeFenceNotIssued, []int{422}, "Not a fencing token of this tenant", "No run of the tenant holds this fencing token, so it was not stored. Refuse the write. The token is made up, comes from another tenant or installation, or was issued after the point in time the database was restored to. If its run has ended or is with another worker, send `run_id`, too."},
	{jobrun.CodeSetting, []int{422}, "Invalid setting", "No setting has this name, or the value is not allowed. `errors` lists every error."},
	{jobrun.CodeUnavailable, []int{503}, "Job runs unavailable", "The server was started with `--store memory`, which has no job runs."},
}

// problemKind is a code's entry in docs/problems.md.
type problemKind struct {
	code    string
	status  []int
	title   string
	meaning string
}
