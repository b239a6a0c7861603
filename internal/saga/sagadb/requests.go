package sagadb

import (
	"slices"

	"github.com/skald-saga/skald/internal/saga"
)

// withSources selects the logs with the given ids ($3) and the logs from which saga.MakeRequests
// builds their requests.
const withSources = ` AND (l.id = ANY ($3::uuid[]) OR l.action = 'EXECUTE' AND l.status = 'SUCCESS')`

// whole reports whether the caller wants requests.
func whole(want saga.Logs) bool { return len(want.IDs) > 0 || !want.Brief && !want.Explained }

// withRequests fills in the requests and returns the logs that the caller wants.
func withRequests(head *saga.Saga, logs []saga.StepLog, want saga.Logs) []saga.StepLog {
	saga.MakeRequests(head, logs)
	if len(want.IDs) > 0 {
		logs = slices.DeleteFunc(logs, func(l saga.StepLog) bool { return !slices.Contains(want.IDs, l.ID) })
	}
	return logs
}
