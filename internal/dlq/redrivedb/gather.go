package redrivedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Gather implements dlq.Redrives, with the rights of the redrive's tenant. The gathered
// items and the cursor are stored together, under the lock of the redrive.
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
	var seq int64 // of the last item; nodes of the version before only count the matches
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

// begunRedrive are the columns that the start of a redrive changes.
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

// Sizes of a preview: samples and groups.
const (
	previewSample = 10
	previewGroups = 20
)

// blockedKeys counts keys by their oldest open letter, with the condition that
// TakeItems uses.
var blockedKeys = `
SELECT count(*) FROM (
	SELECT m.tenant_id,
	       m.original_topic, ` + dlqdb.KeyOf("m") + ` AS order_key,
	       NULL::bytea AS message_key,
	       max(m.seq) AS seq
	  FROM page p JOIN dlq.dlq_messages m ON m.id = p.id
	 WHERE m.ordered GROUP BY 1, 2, 3) AS m
 CROSS JOIN LATERAL (SELECT o.id FROM dlq.dlq_messages o WHERE ` + dlqdb.OlderOfKey + ` ORDER BY o.seq LIMIT 1) AS o
  LEFT JOIN page x ON x.id = o.id
 WHERE x.id IS NULL`

// Preview implements dlq.Redrives. Blocked keys are those of Ordered letters that wait
// for an older open letter outside the selection.
func (st *Redrives) Preview(ctx context.Context, tenant uuid.UUID, r dlq.Redrive) (dlq.Preview, error) {
	r.TenantID = tenant
	p := dlq.Preview{ByTopic: map[string]int64{}, ByGroup: map[string]int64{}, ByStatus: map[dlq.Status]int64{}}
	r = asIfRequested(r, r.CreatedAt)
	s := selected(&r, nil, r.Max)
	with := `WITH page AS MATERIALIZED (` + s.query + `) `
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, with+`
			SELECT m.original_topic, m.status, m.fingerprint, count(*)
			  FROM page p
			  JOIN dlq.dlq_messages m ON m.id = p.id
			 GROUP BY 1, 2, 3
			 ORDER BY 4 DESC, 1, 2, 3`, s.args...)
		if err != nil {
			return err
		}
		if err := postgres.EachRow(rows, func() error { return countPreview(&p, rows) }); err != nil {
			return err
		}
		err = tx.GetContext(ctx, &p.BlockedKeys, with+blockedKeys, s.args...)
		if err != nil {
			return err
		}
		rows, err = tx.QueryContext(ctx, with+`
			SELECT `+dlqdb.LetterColumns+`
			  FROM (SELECT p.at, p.id FROM page p ORDER BY p.at, p.id LIMIT `+fmt.Sprint(previewSample)+`) AS p
			  JOIN dlq.dlq_messages m ON m.id = p.id ORDER BY p.at, p.id`, s.args...)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			l, err := dlqdb.ScanLetter(st.db, rows)
			if err == nil {
				p.Sample = append(p.Sample, l)
			}
			return st.db.PassOver(ctx, err)
		})
	})
	return p, postgres.Wrap("preview redrive", err)
}

// countPreview adds a row of topic, status, fingerprint and count. Rows come with the
// largest counts first.
func countPreview(p *dlq.Preview, row postgres.Scanner) error {
	var topic, group string
	var status dlq.Status
	var n int64
	if err := row.Scan(&topic, &status, &group, &n); err != nil {
		return err
	}
	p.Matched += n
	p.ByTopic[topic] += n
	p.ByStatus[status] += n
	if _, known := p.ByGroup[group]; known || len(p.ByGroup) < previewGroups {
		p.ByGroup[group] += n
	}
	return nil
}
