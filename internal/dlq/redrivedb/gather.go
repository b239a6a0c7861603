package redrivedb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Gather implements dlq.Redrives with the rights of the redrive's tenant. The gathered items and
// the cursor are stored in one transaction, under the lock of the redrive.
func (st *Redrives) Gather(ctx context.Context, r dlq.Redrive, limit int) (done bool, err error) {
	done, err = postgres.RetryCollision(func() (done bool, err error) {
		err = st.db.InTenant(ctx, r.TenantID, func(tx *sqlx.Tx) error {
			done, err = st.gather(ctx, tx, r.TenantID, r.ID, limit)
			return err
		})
		return done, err
	})
	return done, postgres.Wrap("gather letters of a redrive", err)
}

func (st *Redrives) gather(ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID,
	limit int) (done bool, err error) {
	var now time.Time
	var at sql.NullTime
	var last uuid.NullUUID
	var seq int64 // of the last item; nodes of the previous version only count the matches
	var snapshot page.Snapshot
	r, err := redriveTable.One(tx.QueryRowContext(ctx, `
		SELECT `+redriveColumns+`,
		       clock_timestamp(),
		       pg_current_snapshot()::text,
		       d.gathered_at,
		       d.gathered_id,
		       greatest(d.gathered_seq, d.matched)
		  FROM dlq.dlq_redrives d
		 WHERE d.tenant_id = $1 AND d.id = $2
		 FOR NO KEY UPDATE`, tenant, id), &now, &snapshot, &at, &last, &seq)
	if errors.Is(err, sql.ErrNoRows) {
		return false, noRedrive(id)
	}
	if err != nil || !r.Active() {
		return true, err
	}
	now = now.UTC()
	if begun, begins := r.Begun(snapshot, now); begins {
		r = begun
		_, err = tx.ExecContext(ctx, beginRedrive.Text, beginRedrive.Args(begunRedrive.Row(&r))...)
	}
	if err != nil || r.Gathered {
		return true, err
	}
	var after *page.TimeID
	if at.Valid && last.Valid {
		after = &page.TimeID{At: at.Time, ID: last.UUID}
	}
	return st.gatherMore(ctx, tx, &r, after, seq, now, limit)
}

// begunRedrive contains the columns that the start of a redrive changes.
var begunRedrive = redriveTable.Only("tenant_id", "id", "state", "started_at", "covers", "version",
	"updated_at", "progress_at")

var beginRedrive = postgres.Named(`UPDATE dlq.dlq_redrives SET `+begunRedrive.Set("r", "tenant_id", "id")+`
 WHERE tenant_id = @r.tenant_id AND id = @r.id`, begunRedrive.As("r"))

// gatherMore stores one page of the letters of r, numbered after seq.
func (st *Redrives) gatherMore(ctx context.Context, tx *sqlx.Tx, r *dlq.Redrive, after *page.TimeID, seq int64,
	now time.Time, limit int) (done bool, err error) {
	size := r.PageSize(limit)
	var found, stored int64
	at, last := sql.NullTime{}, uuid.NullUUID{}
	if size > 0 {
		s := selected(r, after, size)
		query := `
WITH page AS MATERIALIZED (` + s.query + `
), stored AS (
	INSERT INTO dlq.dlq_redrive_items (redrive_id, tenant_id, seq, message_id, updated_at)
	SELECT ` + s.arg(r.ID) + `, ` + s.arg(r.TenantID) + `, ` + s.arg(seq) + ` + row_number() OVER (ORDER BY p.at, p.seq),
	       p.id,
	       clock_timestamp()
	  FROM page p
	ON CONFLICT (redrive_id, message_id) DO NOTHING
	RETURNING 1
)
SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM stored), l.at, l.id
  FROM (SELECT 1) AS one LEFT JOIN (SELECT p.at, p.id FROM page p ORDER BY p.at DESC, p.id DESC LIMIT 1) AS l ON true`
		if err := tx.QueryRowContext(ctx, query, s.args...).Scan(&found, &stored, &at, &last); err != nil {
			return false, err
		}
	}
	done = r.GatheredBy(size, found, stored)
	_, err = tx.ExecContext(ctx, storeGathered.Text, storeGathered.Args(
		postgres.Values{r.TenantID, r.ID, done, stored, at, last, seq + found, now})...)
	if err != nil {
		return done, err
	}
	collected, halted := r.Collected(stored, done, now)
	if !halted {
		return done, nil
	}
	return done, storeVerdict(ctx, tx, &collected, st.db.NewID)
}

var storeGathered = postgres.Named(`
UPDATE dlq.dlq_redrives SET gathered = @gathered, matched = matched + @more, gathered_at = coalesce(@at, gathered_at),
       gathered_id = coalesce(@last, gathered_id), gathered_seq = @seq, updated_at = @now
 WHERE tenant_id = @tenant AND id = @redrive`,
	postgres.Single("tenant", "redrive", "gathered", "more", "at", "last", "seq", "now"))
