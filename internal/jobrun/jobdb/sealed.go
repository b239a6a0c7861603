package jobdb

import (
	"context"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// SealedTables lists the tables of job runs with sealed content. It does not include logs outside
// of the database, which never change.
func SealedTables() []postgres.SealedTable {
	return []postgres.SealedTable{
		{Name: "jobs.job_runs", Key: []string{"id"}, Place: "id", Values: []postgres.SealedValue{
			{Column: "args", Field: fieldRunArgs.Name}, {Column: "checkpoint", Field: fieldRunCheckpoint.Name},
			{Column: "result", Field: fieldRunResult.Name}, {Column: "error", Field: fieldRunError.Name},
		}},
		{
			Name: "jobs.job_run_logs", Key: []string{"run_id", "attempt", "seq"}, Place: "run_id",
			Step: "seq", Attempt: "attempt",
			Values: []postgres.SealedValue{
				{Column: "body", Form: postgres.SealedBytes, Field: fieldRunLog(jobrun.LogPosition{}).Name},
			},
		},
		{Name: "jobs.events", Key: []string{"id"}, Place: "id", Values: []postgres.SealedValue{
			{Column: "payload_json", Field: fieldEventPayload.Name},
		}},
	}
}

// logsBeforeKey counts runs whose log may have left the database before a key was in use. These are
// the runs that ended before the key's first use or within the following hour, during which other
// nodes may still have used the previous key.
const logsBeforeKey = `
SELECT count(*) FROM jobs.job_runs r
 WHERE r.log_ref IS NOT NULL
   AND r.finished_at < (SELECT s.created_at
                          FROM saga.deployment_secrets s
                         WHERE s.name = 'envelope:' || $1) + interval '1 hour'`

// LogsBeforeKey counts the logs in the log store that may be sealed with a key older than the given
// one. They are never resealed.
func (st *Jobs) LogsBeforeKey(ctx context.Context, key string) (n int64, err error) {
	err = st.db.Read.GetContext(ctx, &n, logsBeforeKey, key)
	return n, postgres.Wrap("count the logs in the log store", err)
}
