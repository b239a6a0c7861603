// Package failpoint defines the points at which tests can kill, delay or fail Skald
// (requirements/invariants.md 3.4). Ordinary binaries contain no failpoints; build with -tags
// failpoints and set SKALD_FAILPOINTS, for example
//
//	step.after_reply=kill@3;commit.unknown=exec_err%0.01;lease.renew_before=pause(5s)
//
// to kill the process after the third answer to a call, to lose the answer to one commit in a
// hundred, and to delay every lease renewal by five seconds.
package failpoint

import (
	"errors"
	"slices"
)

// Name is the name of a failpoint.
type Name string

// All failpoints. A test reaches every one of them.
const (
	CreateBeforeTx    Name = "create.before_tx"
	CreateAfterCommit Name = "create.after_commit"
	CreateBeforeReply Name = "create.before_reply"
	ClaimBefore       Name = "claim.before"
	ClaimAfterCommit  Name = "claim.after_commit"
	StepBeforeSend    Name = "step.before_send"
	StepAfterSend     Name = "step.after_send" // also for a compensation: the request has been sent, but no answer read
	StepAfterReply    Name = "step.after_reply"
	StepBeforeCommit  Name = "step.before_commit"
	StepAfterCommit   Name = "step.after_commit"
	CompBeforeSend    Name = "comp.before_send"
	CompAfterReply    Name = "comp.after_reply"
	CompBeforeCommit  Name = "comp.before_commit"
	CompAfterCommit   Name = "comp.after_commit"
	CommitUnknown     Name = "commit.unknown"
	LeaseRenewBefore  Name = "lease.renew_before"
	LeaseRenewAfter   Name = "lease.renew_after"
	LeaseTakeover     Name = "lease.takeover_after" // a claim of another owner's sagas has been committed
	ReaperSelect      Name = "reaper.select"
	ReaperBeforeFlag  Name = "reaper.before_commit"
	CancelBefore      Name = "cancel.before"
	CancelAfter       Name = "cancel.after"

	IngestAfterPoll     Name = "dlq.after_poll"
	IngestAfterInsert   Name = "dlq.after_insert"
	IngestBeforeCommit  Name = "dlq.before_commit_offset"
	LetterAfterClaim    Name = "dlq.claim_after"
	LetterAfterHandOver Name = "dlq.hand_over_after"
	LetterAfterDrive    Name = "dlq.after_drive"
	LetterBeforeFinish  Name = "dlq.before_finish"
	LetterMidArchive    Name = "dlq.archive_mid"

	SchedTickBefore    Name = "sched.tick_before"
	SchedTickInserted  Name = "sched.tick_after_insert"
	SchedAdmit         Name = "sched.admit"
	SchedSweep         Name = "sched.sweep"
	LeaderAcquireAfter Name = "leader.acquire_after"
	LeaderRenew        Name = "leader.renew"
	WorkerStart        Name = "worker.start"     // starts are committed, but their workers have no answer yet
	WorkerComplete     Name = "worker.complete"  // ends are committed, but their workers have no answer yet
	WorkerExchange     Name = "worker.exchange"  // ends and starts are committed, but their workers have no answer yet
	LogAfterWrite      Name = "log.after_write"  // the bytes are stored, but not yet under the log's name
	LogAfterRename     Name = "log.after_rename" // the log has its final name, but the database has no record of it yet
	LogBeforeTx        Name = "log.before_tx"
	LogAfterTx         Name = "log.after_tx"
)

// Jobs lists the failpoints in the life of a job run, in chronological order.
var Jobs = []Name{
	SchedTickBefore, SchedTickInserted, SchedAdmit, SchedSweep, LeaderAcquireAfter, LeaderRenew,
	WorkerStart, WorkerComplete, WorkerExchange, LogAfterWrite, LogAfterRename, LogBeforeTx, LogAfterTx,
}

// Letters lists the failpoints in the life of a dead letter, in chronological order.
var Letters = []Name{
	IngestAfterPoll, IngestAfterInsert, IngestBeforeCommit,
	LetterAfterClaim, LetterAfterHandOver, LetterAfterDrive, LetterBeforeFinish, LetterMidArchive,
}

// All lists every failpoint.
var All = slices.Concat(Sagas, Letters, Jobs)

// Sagas lists the failpoints in the life of a saga, in chronological order.
var Sagas = []Name{
	CreateBeforeTx, CreateAfterCommit, CreateBeforeReply, ClaimBefore, ClaimAfterCommit,
	StepBeforeSend, StepAfterSend, StepAfterReply, StepBeforeCommit, StepAfterCommit,
	CompBeforeSend, CompAfterReply, CompBeforeCommit, CompAfterCommit,
	CommitUnknown, LeaseRenewBefore, LeaseRenewAfter, ReaperSelect, ReaperBeforeFlag, CancelBefore, CancelAfter,
	LeaseTakeover,
}

// ErrInjected is the error that a failpoint returns in mode err or exec_err.
var ErrInjected = errors.New("injected by a failpoint")

var errNotBuilt = errors.New("this binary was built without failpoints: build it with -tags failpoints")
