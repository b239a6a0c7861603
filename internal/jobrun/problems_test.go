package jobrun_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestJudgeTellsARepetitionFromALateCall(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mine := jobrun.Fence{WorkerID: uuid.New(), Attempt: 2, LeaseToken: uuid.New(), LeaderEpoch: 7}
	other := mine
	other.LeaseToken = uuid.New()
	elder := mine
	elder.LeaderEpoch = 6
	run := func(s jobrun.State) *jobrun.Run {
		return &jobrun.Run{
			State: s, WorkerID: mine.WorkerID, Attempt: mine.Attempt, LeaseToken: mine.LeaseToken, LeaderEpoch: mine.LeaderEpoch,
			Continuation: jobrun.NoDoubt,
		}
	}
	doubted := run(jobrun.Running)
	doubted.Continuation = jobrun.Confirming
	canceling := run(jobrun.Running)
	canceling.CancelRequestedAt = &now
	for name, tt := range map[string]struct {
		run      *jobrun.Run
		fence    jobrun.Fence
		call     jobrun.Call
		replayed bool
		again    bool
		code     string
	}{
		"another attempt has it":               {run(jobrun.Running), other, jobrun.CallComplete, false, false, jobrun.CodeFenceLost},
		"another epoch":                        {run(jobrun.Running), elder, jobrun.CallComplete, false, false, jobrun.CodeStaleEpoch},
		"complete, done before":                {run(jobrun.Succeeded), mine, jobrun.CallComplete, true, false, ""},
		"complete of one that failed":          {run(jobrun.Failed), mine, jobrun.CallComplete, false, false, jobrun.CodeConflict},
		"fail, done before":                    {run(jobrun.TimedOut), mine, jobrun.CallFail, true, false, ""},
		"complete after the cancel":            {run(jobrun.Canceled), mine, jobrun.CallComplete, false, false, jobrun.CodeCancelWins},
		"cancel acknowledged twice":            {run(jobrun.Canceled), mine, jobrun.CallCancel, true, false, ""},
		"start twice":                          {run(jobrun.Running), mine, jobrun.CallStart, true, false, ""},
		"complete before start":                {run(jobrun.Assigned), mine, jobrun.CallComplete, false, false, jobrun.CodeNotStarted},
		"given up by the leader":               {run(jobrun.Orphaned), mine, jobrun.CallComplete, false, false, jobrun.CodeFenceLost},
		"release twice":                        {run(jobrun.Orphaned), mine, jobrun.CallRelease, true, false, ""},
		"confirm what is in doubt":             {doubted, mine, jobrun.CallConfirm, false, true, ""},
		"confirm what nobody doubts":           {run(jobrun.Running), mine, jobrun.CallConfirm, true, false, ""},
		"acknowledge what nobody asked for":    {run(jobrun.Running), mine, jobrun.CallCancel, false, false, jobrun.CodeConflict},
		"acknowledge a cancel":                 {canceling, mine, jobrun.CallCancel, false, true, ""},
		"only the version has changed":         {run(jobrun.Running), mine, jobrun.CallComplete, false, true, ""},
		"the last lines of one that has ended": {run(jobrun.Succeeded), mine, jobrun.CallLogs, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			replayed, again, err := jobrun.Judge(tt.run, tt.fence, tt.call)
			if replayed != tt.replayed || again != tt.again || (tt.code == "") != (err == nil) || tt.code != "" &&
				!fault.IsCode(err, tt.code) {
				t.Errorf("Judge = %v, %v, %v; want %v, %v, %s", replayed, again, err, tt.replayed, tt.again, tt.code)
			}
		})
	}
}
