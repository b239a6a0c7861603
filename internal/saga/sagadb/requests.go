package sagadb

import (
	"slices"

	"github.com/skald-saga/skald/internal/saga"
)

// withSources selects the logs of given ids, $3, and those of which saga.MakeRequests makes their requests.
const withSources = ` AND (l.id = ANY ($3::uuid[]) OR l.action = 'EXECUTE' AND l.status = 'SUCCESS')`

// whole reports whether requests are wanted.
func whole(want saga.Logs) bool { return len(want.IDs) > 0 || !want.Brief && !want.Explained }

// withRequests returns the logs that are wanted, complete, of those that were read.
func withRequests(head *saga.Saga, logs []saga.StepLog, want saga.Logs) []saga.StepLog {
	saga.MakeRequests(head, logs)
	if len(want.IDs) > 0 {
		logs = slices.DeleteFunc(logs, func(l saga.StepLog) bool { return !slices.Contains(want.IDs, l.ID) })
	}
	return logs
}
