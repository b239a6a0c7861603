package dlqdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// finishRow describes the end of a retry.
type finishRow struct{ *dlq.Finish }

// The columns for a batch of ended retries: the claims that end, the letters' new states, and their
// attempts.
var (
	finishedTable = postgres.NewTable(
		postgres.UUID("tenant_id", func(r *finishRow) *uuid.UUID { return &r.TenantID }),
		postgres.UUID("id", func(r *finishRow) *uuid.UUID { return &r.LetterID }),
		postgres.UUID("token", func(r *finishRow) *uuid.UUID { return &r.Token }),
	)
	endTable = postgres.NewTable(
		postgres.Text("status", func(r *finishRow) *dlq.Status { return &r.Status }),
		postgres.TextOrEmpty("resolution", func(r *finishRow) *dlq.Resolution { return &r.Resolution }),
		postgres.Int("retry_count", func(r *finishRow) *int { return &r.RetryCount }),
		postgres.TimeOrNil("next_retry_at", func(r *finishRow) **time.Time { return &r.NextRetryAt }),
		postgres.TimeOrNil("terminal_at", func(r *finishRow) **time.Time { return &r.TerminalAt }),
		postgres.Time("at", func(r *finishRow) *time.Time { return &r.At }),
	)

	theFinished = finishedTable.As("f")
	theEnds     = endTable.As("e")
	theAttempts = attemptTable.As("a")
)

// lockFinished locks the letters that are still held by their tokens, in a fixed order. It is a
// separate statement so that the next one sees what earlier holders of the locks wrote, for example
// that a letter has come back. The status is compared in a form that no index supports, so that
// letters are looked up by id instead of among all RETRYING ones.
var lockFinished = postgres.Named(`
SELECT m.id FROM `+postgres.Unnest("f", theFinished)+`
  JOIN dlq.dlq_messages m ON m.tenant_id = f.tenant_id AND m.id = f.id
 WHERE `+Leaves("m.status || ''", retryEnds...)+` AND m.retry_token = f.token
 ORDER BY m.id FOR NO KEY UPDATE OF m`, theFinished)

// finishLetters ends retries whose tokens still hold their letters (with @lapsed, only those whose
// leases have also expired), and stores the attempts. A letter that came back before its end was
// stored becomes BOUNCED immediately. An attempt recorded as abandoned gets its actual outcome when
// that is reported late.
//
// It returns the position in the batch of each end that is stored, whether now or earlier, and the
// resolution of the letter.
var finishLetters = postgres.Named(`
WITH f AS MATERIALIZED (
	SELECT * FROM `+postgres.UnnestNumbered("f", theFinished, theEnds, theAttempts)+`
), ended AS (
	UPDATE dlq.dlq_messages m
	   SET status = f.status, retry_count = f.retry_count, next_retry_at = f.next_retry_at, terminal_at = f.terminal_at,
	       resolution = CASE WHEN f.resolution = 'REDRIVEN' AND EXISTS (
	              SELECT 1 FROM dlq.dlq_messages b
	               WHERE b.tenant_id = m.tenant_id
	                 AND b.root_id = m.root_id
	                 AND b.generation > 0
	                 AND b.generation = m.generation + 1
	                 AND b.parent_id = m.id)
	         THEN 'BOUNCED' ELSE f.resolution END,
	       retry_token = NULL, retry_lease_until = NULL, updated_at = f.at, version = m.version + 1
	  FROM f
	 WHERE m.tenant_id = f.tenant_id
	   AND m.id = f.id
	   AND `+Leaves("m.status || ''", retryEnds...)+`
	   AND m.retry_token = f.token
	   AND (NOT @lapsed OR m.retry_lease_until < clock_timestamp())
	RETURNING f.n, coalesce(m.resolution, '') AS resolution
), noted AS (
	INSERT INTO dlq.dlq_attempts AS a (message_id, tenant_id, token, `+attemptTable.Inserted()+`)
	SELECT f.id, f.tenant_id, f.token, `+attemptTable.Stored("f")+`
	  FROM f JOIN dlq.dlq_messages m ON m.tenant_id = f.tenant_id AND m.id = f.id
	 WHERE NOT @lapsed OR f.n IN (SELECT e.n FROM ended e)
	ON CONFLICT (message_id, number) DO UPDATE
	   SET outcome = EXCLUDED.outcome,
	       error = EXCLUDED.error,
	       status_code = EXCLUDED.status_code,
	       ended_at = EXCLUDED.ended_at,
	       written_topic = EXCLUDED.written_topic,
	       written_partition = EXCLUDED.written_partition,
	       written_offset = EXCLUDED.written_offset
	 WHERE a.token = EXCLUDED.token AND a.outcome = '`+string(dlq.Abandoned)+`'
)
SELECT e.n, e.resolution FROM ended e
UNION ALL
SELECT f.n, coalesce(m.resolution, '') FROM f
  JOIN dlq.dlq_attempts a ON a.message_id = f.id AND a.tenant_id = f.tenant_id AND a.number = f.number
  JOIN dlq.dlq_messages m ON m.tenant_id = f.tenant_id AND m.id = f.id
 WHERE a.token = f.token
   AND a.outcome = f.outcome
   AND a.ended_at = f.ended_at
   AND f.n NOT IN (SELECT e.n FROM ended e)`, postgres.Single("lapsed"), theFinished, theEnds, theAttempts)

// Finished is the result for one end in a batch.
type Finished struct {
	Held       bool // it is stored
	Resolution dlq.Resolution
}

// Finish stores the ends of retries in tx, a transaction on one of the writers' connections.
func Finish(ctx context.Context, db *postgres.DB, tx *sqlx.Tx, lapsed bool, batch []dlq.Finish) ([]Finished, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	of, ends, attempts := finishedTable.Batch(len(batch)), endTable.Batch(len(batch)), attemptTable.Batch(len(batch))
	for i := range batch {
		f := finishRow{&batch[i]}
		of.Add(&f)
		ends.Add(&f)
		a, err := attemptOf(&f.Attempt)
		if err != nil {
			return nil, err
		}
		attempts.Add(a)
	}
	lock, err := db.PreparedIn(ctx, tx, lockFinished.Text)
	if err != nil {
		return nil, err
	}
	if _, err := lock.ExecContext(ctx, lockFinished.Args(of)...); err != nil {
		return nil, err
	}
	store, err := db.PreparedIn(ctx, tx, finishLetters.Text)
	if err != nil {
		return nil, err
	}
	rows, err := store.QueryContext(ctx, finishLetters.Args(postgres.Values{lapsed}, of, ends, attempts)...)
	if err != nil {
		return nil, err
	}
	out := make([]Finished, len(batch))
	err = postgres.EachRow(rows, func() error {
		var n int
		var resolution dlq.Resolution
		err := rows.Scan(&n, &resolution)
		out[n-1] = Finished{true, resolution}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, takeBack(ctx, tx, batch)
}

// Finish implements dlq.Queue.
func (st *Queue) Finish(ctx context.Context, batch []dlq.Finish) ([]bool, error) {
	done, err := st.end(ctx, false, batch)
	if err != nil {
		return nil, fmt.Errorf("finish retries of dead letters: %w", err)
	}
	held := make([]bool, len(batch))
	for i := range done {
		held[i] = done[i].Held
	}
	return held, nil
}

func (st *Queue) end(ctx context.Context, lapsed bool, batch []dlq.Finish) ([]Finished, error) {
	return postgres.RetryCollision(func() (done []Finished, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) (err error) {
			done, err = Finish(ctx, st.db, tx, lapsed, batch)
			return err
		})
		return done, err
	})
}

// endedSagas are the states of sagas that have ended.
var endedSagas = postgres.Literals(slices.DeleteFunc(slices.Clone(saga.States),
	func(s saga.State) bool { return !s.Terminal() }))

// lostRetries finds retries whose lease has expired, oldest first, and reports whether they were
// never handed over. A hand-over note is written while the lease is valid, so this statement sees
// it: its snapshot is not older than now(). Work that continues elsewhere is not lost; examples are
// a saga that is compensating and a webhook delivery in progress.
var lostRetries = `
SELECT m.id,
       m.tenant_id,
       m.source,
       m.error_class,
       m.original_topic,
       m.retry_count,
       m.max_retries,
       m.generation,
       m.retry_token,
       m.attempts,
       m.revision,
       m.target,
       coalesce(m.last_retry_at, m.updated_at), clock_timestamp(),
       substr(m.retry_token::text, 15, 1) = '8' AND NOT EXISTS (
	SELECT 1 FROM dlq.dlq_handovers h WHERE h.tenant_id = m.tenant_id AND m.retry_token = ANY (h.tokens)),
       (SELECT i.redrive_id
          FROM dlq.dlq_redrive_items i
         WHERE i.redrive_id = m.redrive_id
           AND i.message_id = m.id
           AND i.state` + postgres.Among(dlq.ItemsFrom(dlq.ItemSettled)) + `),
       CASE m.source
         WHEN 'SAGA' THEN EXISTS (SELECT 1
                                    FROM saga.saga_states s
                                   WHERE s.tenant_id = m.tenant_id
                                     AND s.id = m.saga_id
                                     AND s.state NOT IN (` + endedSagas + `))
         WHEN 'WEBHOOK' THEN EXISTS (SELECT 1 FROM saga.webhook_deliveries d
                WHERE d.tenant_id = m.tenant_id
                  AND d.webhook_id = m.webhook_id
                  AND d.id = m.delivery_id
                  AND d.status = 'pending')
         ELSE m.target->>'kind' = 'job_run' AND EXISTS (SELECT 1 FROM jobs.job_runs r
                WHERE r.tenant_id = m.tenant_id AND r.letter_id = m.id AND r.finished_at IS NULL) END
  FROM dlq.dlq_messages m
 WHERE ` + Leaves("m.status", retryEnds...) + ` AND m.retry_lease_until < now()
 ORDER BY m.retry_lease_until LIMIT $1`

// Reclaim implements dlq.Queue. It does not end a retry whose lease was extended in the meantime,
// because the statement checks the lease again.
func (st *Queue) Reclaim(ctx context.Context, limit int, chance dlq.Chance) (int, error) {
	if err := st.forget(ctx); err != nil {
		return 0, err
	}
	lost, going, err := st.lost(ctx, limit, chance)
	if err != nil {
		return 0, fmt.Errorf("look for lost retries: %w", err)
	}
	if len(going) > 0 {
		if _, err := st.Extend(ctx, going, dlq.Lease); err != nil {
			return 0, err
		}
	}
	if len(lost) == 0 {
		return 0, nil
	}
	done, err := st.end(ctx, true, lost)
	n := 0
	for i := range done {
		if done[i].Held {
			n++
		}
	}
	return n, postgres.Wrap("reclaim dead letters", err)
}

func (st *Queue) lost(ctx context.Context, limit int,
	chance dlq.Chance) (lost []dlq.Finish, going []uuid.UUID, err error) {
	rows, err := st.db.QueryRead(ctx, lostRetries, limit)
	if err != nil {
		return nil, nil, err
	}
	var drives []dlq.Drive
	var results []dlq.Result
	err = postgres.EachRow(rows, func() error {
		var d dlq.Drive
		var started, now time.Time
		var redrive uuid.NullUUID
		var target []byte
		var goesOn, unsent bool
		if err := rows.Scan(&d.ID, &d.TenantID, &d.Source, &d.Failure.Class, &d.OriginalTopic, &d.RetryCount, &d.MaxRetries,
			&d.Generation, &d.Token, &d.Number, &d.Revision, &target, &started, &now, &unsent, &redrive,
			&goesOn); err != nil {
			return err
		}
		if goesOn {
			going = append(going, d.Token)
			return nil
		}
		if err := ReadTarget(target, &d.To); err != nil {
			return err
		}
		d.RedriveID = redrive.UUID
		results = append(results, d.Lost(unsent, started.UTC(), now.UTC())) // this includes further changes of d
		drives = append(drives, d)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for i := range drives {
		d := &drives[i]
		p, err := st.PolicyOf(ctx, d.TenantID, d.OriginalTopic)
		if err != nil {
			return nil, nil, err
		}
		f, err := d.Finished(results[i], &p, chance.At(results[i].EndedAt))
		if err != nil {
			return nil, nil, fmt.Errorf("end the lost retry of dead letter %s: %w", d.ID, err)
		}
		lost = append(lost, f)
	}
	return lost, going, nil
}
