package jobdb

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// maxStream is the maximum length of job_run_logs.stream in characters.
const maxStream = 10

// putChunk stores a chunk unless its number is taken, and adds it to the run's totals.
var putChunk = postgres.Named(`
WITH put AS (
	INSERT INTO jobs.job_run_logs (`+logChunkTable.Inserted()+`) VALUES (`+logChunkTable.Values("l")+`)
	ON CONFLICT (run_id, attempt, seq) DO NOTHING
	RETURNING seq
)
UPDATE jobs.job_runs r SET log_bytes = r.log_bytes + @bytes
 WHERE r.tenant_id = @l.tenant_id
   AND r.id = @l.run_id
   AND EXISTS (SELECT FROM put)`, logChunkTable.As("l"), postgres.Single("bytes"))

var readChunk = `
SELECT ` + logChunkColumns + `
  FROM jobs.job_run_logs l
 WHERE l.run_id = $1 AND l.tenant_id = $2 AND l.attempt = $3 AND l.seq = $4`

const nextChunk = `
SELECT coalesce(max(l.seq), -1) + 1
  FROM jobs.job_run_logs l
 WHERE l.run_id = $1 AND l.tenant_id = $2 AND l.attempt = $3`

// AppendLog implements jobrun.Work (W6). It accepts the last lines of an ended run until the run's
// log is moved to an object store. In addition to the faults of Judge it returns TooLarge for a
// chunk or a log, and Conflict (CodeLogGap).
func (st *Jobs) AppendLog(
	ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence, c jobrun.LogChunk,
) (next int, err error) {
	if len(c.Body) > jobrun.MaxLogChunk {
		return 0, fault.New(fault.TooLarge, jobrun.CodeInvalid, "a chunk of a log may have at most %d bytes", jobrun.MaxLogChunk)
	}
	if c.Seq < 0 || c.Seq > math.MaxInt32 {
		return 0, fault.New(fault.Invalid, jobrun.CodeInvalid, "the number of a chunk must be from 0 to %d", math.MaxInt32)
	}
	c.Attempt = f.Attempt
	call := workerCall{tenant, run, f, jobrun.CallLogs}
	_, _, err = st.decide(ctx, call, func(tx *sqlx.Tx, r jobrun.Run, _ time.Time) (_ jobrun.Run, err error) {
		next, err = st.append(ctx, tx, &r, &c)
		return r, err
	})
	return next, postgres.Wrap("append to the log of a job run", err)
}

func (st *Jobs) append(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, c *jobrun.LogChunk) (next int, err error) {
	if r.LogRef != "" {
		return 0, fault.New(fault.Conflict, jobrun.CodeConflict, "the run has ended and its log is closed")
	}
	if err := tx.QueryRowContext(ctx, nextChunk, r.ID, r.TenantID, c.Attempt).Scan(&next); err != nil {
		return 0, err
	}
	if c.Seq > next {
		return 0, fault.New(fault.Conflict, jobrun.CodeLogGap,
			"chunk %d of attempt %d arrived before chunk %d, which is missing: continue with chunk %[3]d", c.Seq, c.Attempt, next)
	}
	sealer := st.db.Keys.SealerFor(r.TenantID, r.ID)
	stream := dlq.Storable(c.Stream, maxStream)
	known, err := st.chunk(ctx, tx, r, c.LogPosition)
	switch {
	case err == nil && (known.Stream != stream || !bytes.Equal(known.Body, c.Body)):
		return 0, fault.New(fault.Conflict, jobrun.CodeLogGap,
			"chunk %d of attempt %d already exists with different content: continue with chunk %d", c.Seq, c.Attempt, next)
	case errors.Is(err, sql.ErrNoRows):
		if r.LogBytes+int64(len(c.Body)) > jobrun.MaxLog {
			return 0, fault.New(fault.TooLarge, jobrun.CodeInvalid, "the log of a run may have at most %d bytes", jobrun.MaxLog)
		}
		row := logChunk{r.ID, r.TenantID, jobrun.LogChunk{LogPosition: c.LogPosition, Stream: stream, Body: c.Body}}
		if row.Body == nil {
			row.Body = []byte{}
		}
		if row.Body, err = sealer.SealBytes(fieldRunLog(c.LogPosition), row.Body); err != nil {
			return 0, err
		}
		args := putChunk.Args(logChunkTable.Row(&row), postgres.Values{len(c.Body)})
		if err := st.db.ExecIn(ctx, tx, putChunk.Text, args...); err != nil {
			return 0, err
		}
	case err != nil:
		return 0, err
	}
	return max(next, c.Seq+1), nil
}

// chunk reads a stored chunk, or returns sql.ErrNoRows.
func (st *Jobs) chunk(
	ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, at jobrun.LogPosition,
) (c jobrun.LogChunk, err error) {
	sealer := st.db.Keys.SealerFor(r.TenantID, r.ID)
	return scanChunk(tx.QueryRowContext(ctx, readChunk, r.ID, r.TenantID, at.Attempt, at.Seq), &sealer)
}

// scanChunk reads a log chunk in the form in which its worker sent it.
func scanChunk(row postgres.Scanner, sealer *envelope.Sealer) (jobrun.LogChunk, error) {
	c, err := logChunkTable.One(row)
	if err == nil {
		c.Body, err = sealer.OpenBytes(fieldRunLog(c.LogPosition), c.Body)
	}
	return c.LogChunk, err
}
