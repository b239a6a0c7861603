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
