package engine

import (
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// written reports whether a saga, read after a commit with an unknown outcome, contains the change.
func written(change saga.Change, now saga.Loaded) bool {
	if len(change.Logs) == 0 {
		a := &change.After
		return now.Saga.Version == a.Version && now.Saga.State == a.State && now.Saga.UpdatedAt.Equal(a.UpdatedAt)
	}
	mine := change.Logs[0]
	for _, l := range now.Logs {
		sameCall := l.StepIndex == mine.StepIndex && l.Action == mine.Action && l.Attempt == mine.Attempt
		if l.ID == mine.ID || mine.Completes && sameCall && l.Status == mine.Status && l.UpdatedAt.Equal(mine.UpdatedAt) {
			return true
		}
	}
	return false
}

// withoutContent replaces an outcome whose content the database rejects by one that can be stored.
// A success without its output is an unusable answer, so its outcome becomes unknown. Any other
// outcome is kept without its content.
func withoutContent(event saga.Event) saga.Event {
	a, ok := event.(saga.Answered)
	if !ok {
		return event
	}
	if a.Verdict == saga.Done {
		a.Verdict, a.Class, a.Code = saga.Unknown, retry.BadResponse, "unstorable_response"
	}
	a.Message = "the participant's response cannot be stored"
	a.Output, a.Response, a.Request, a.Parts, a.StackTrace, a.Cause = nil, nil, nil, nil, "", nil
	return a
}
