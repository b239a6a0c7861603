package jobdb

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

var readChunks = `
SELECT ` + logChunkColumns + ` FROM jobs.job_run_logs l
 WHERE l.tenant_id = $1 AND l.run_id = $2 AND (l.attempt, l.seq) >= ($3, $4)
 ORDER BY l.attempt, l.seq LIMIT $5`

// Logs implements jobrun.Runs.
func (st *Jobs) Logs(
	ctx context.Context, tenant, id uuid.UUID, from jobrun.LogPosition, limit int,
) (chunks []jobrun.LogChunk, err error) {
	sealer := st.db.Keys.SealerFor(tenant, id)
	err = st.db.ListTenant(ctx, tenant, readChunks, func(rows *sql.Rows) error {
		c, err := scanChunk(rows, &sealer)
		chunks = append(chunks, c)
		return err
	}, tenant, id, from.Attempt, from.Seq, limit)
	return chunks, postgres.Wrap("read the log of a job run", err)
}

// tailOfLog adds up the sizes of the chunks from the last one backwards, and stops once they
// suffice. The length of a compressed body is known without reading it.
const tailOfLog = `
SELECT attempt, seq FROM (
	SELECT l.attempt, l.seq, sum(octet_length(l.body)) OVER (ORDER BY l.attempt DESC, l.seq DESC) AS bytes
	  FROM jobs.job_run_logs l
	 WHERE l.tenant_id = $1 AND l.run_id = $2 AND (l.attempt, l.seq) < ($3, $4) AND (l.attempt = $5 OR $5 = 0)
	   AND (l.stream = $7 OR $7 = '')
	 ORDER BY l.attempt DESC, l.seq DESC) AS ends
 WHERE bytes >= $6 LIMIT 1`

// LogTail implements jobrun.Runs.
func (st *Jobs) LogTail(
	ctx context.Context, tenant, id uuid.UUID, attempt int, end jobrun.LogPosition, bytes int, stream string,
) (at jobrun.LogPosition, err error) {
	at.Attempt = attempt
	err = st.db.ListTenant(ctx, tenant, tailOfLog, func(rows *sql.Rows) error {
		return rows.Scan(&at.Attempt, &at.Seq)
	}, tenant, id, end.Attempt, end.Seq, attempt, bytes, stream)
	return at, postgres.Wrap("find the end of the log of a job run", err)
}
