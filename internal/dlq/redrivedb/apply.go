package redrivedb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// Apply implements dlq.Redrives. Letters, actions, items and progress are stored in one
// transaction, so that a batch is applied completely or not at all if the node dies.
func (st *Redrives) Apply(ctx context.Context, r dlq.Redrive, limit int, chance dlq.Chance) (int, error) {
	n, err := postgres.RetryCollision(func() (n int, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			a := applying{st: st, tx: tx, chance: chance}
			if err := a.begin(ctx, r, limit); err != nil {
				return err
			}
			n = len(a.items)
			return a.apply(ctx)
		})
		return n, err
	})
	if errors.Is(err, errNotRunning) {
		return 0, nil
	}
	return n, postgres.Wrap("apply redrive", err)
}

// applying is the state of one call of Apply. The redrive's row and the letters are locked.
type applying struct {
	st     *Redrives
	tx     *sqlx.Tx
	chance dlq.Chance
	r      dlq.Redrive
	at     time.Time
	items  []item

	changed struct {
		letters *postgres.Batch[appliedRow]
		deleted []uuid.UUID
		actions []operator.Action
	}
}

func (a *applying) begin(ctx context.Context, r dlq.Redrive, limit int) (err error) {
	a.r, a.at, _, err = scanRunning(a.tx.QueryRowContext(ctx, lockRunning, r.TenantID, r.ID))
	if err != nil {
		return err
	}
	a.at = a.at.UTC()
	return a.load(ctx, limit)
}

// waitingLetters selects the next letters of a redrive, and reports which of them no longer exist.
// Letters that another transaction is changing are left for the next call.
var waitingLetters = `
WITH waiting AS MATERIALIZED (
	SELECT i.seq, i.message_id FROM dlq.dlq_redrive_items i
	 WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND ` + waiting("i.state") + ` ORDER BY i.seq LIMIT $3
), locked AS MATERIALIZED (
	SELECT m.id, ` + waitingTable.Selected("m") + `
	  FROM waiting w JOIN dlq.dlq_messages m ON m.tenant_id = $1 AND m.id = w.message_id
	   FOR NO KEY UPDATE OF m SKIP LOCKED
)
SELECT ` + waitingTable.Selected("m") + `, w.seq, w.message_id
  FROM waiting w LEFT JOIN locked m ON m.id = w.message_id
 WHERE m.id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM dlq.dlq_messages x WHERE x.tenant_id = $1 AND x.id = w.message_id)
 ORDER BY w.seq`

func (a *applying) load(ctx context.Context, limit int) error {
	rows, err := a.tx.QueryContext(ctx, waitingLetters, a.r.TenantID, a.r.ID, limit)
	if err != nil {
		return err
	}
	return postgres.EachRow(rows, func() error {
		i := item{letter: dlq.Letter{TenantID: a.r.TenantID}}
		err := waitingTable.Scan(rows, &i, &i.seq, &i.letter.ID)
		if i.createdAt != nil {
			i.letter.CreatedAt = *i.createdAt
		}
		a.items = append(a.items, i)
		return err
	})
}

func (a *applying) apply(ctx context.Context) error {
	if len(a.items) == 0 {
		return nil
	}
	judged := judgedItems.Batch(len(a.items))
	a.changed.letters = appliedTable.Batch(len(a.items))
	for i := range a.items {
		it := &a.items[i]
		v, err := a.one(ctx, it)
		if err != nil {
			return err
		}
		judged.Add(&v.Item)
	}
	if err := a.storeLetters(ctx); err != nil {
		return err
	}
	_, err := a.tx.ExecContext(ctx, applyItems.Text, applyItems.Args(postgres.Values{a.r.TenantID, a.r.ID}, judged)...)
	return err
}

// applyItems finds items in the same way as finishItems.
var applyItems = postgres.Named(`
WITH s AS MATERIALIZED (
	SELECT s.state, s.detail, x.place FROM `+postgres.Unnest("s", judgedItems.As("s"))+`
	 CROSS JOIN LATERAL (SELECT i.ctid AS place
	                       FROM dlq.dlq_redrive_items i
	                      WHERE i.tenant_id = @tenant AND i.redrive_id = @redrive AND i.seq = s.seq
	                      OFFSET 0) AS x
), moved AS (
	UPDATE dlq.dlq_redrive_items i SET state = s.state, detail = s.detail, updated_at = clock_timestamp()
	  FROM s WHERE i.ctid = s.place AND i.tenant_id = @tenant AND `+waiting("i.state || ''")+`
	RETURNING i.state
), n AS (
	SELECT count(*) FILTER (WHERE moved.state = 'DONE') AS done, count(*) FILTER (WHERE moved.state = 'SKIPPED') AS skipped
	  FROM moved
)
UPDATE dlq.dlq_redrives d
   SET done = d.done + n.done,
       skipped = d.skipped + n.skipped,
       updated_at = clock_timestamp(),
       progress_at = clock_timestamp()
  FROM n WHERE d.tenant_id = @tenant AND d.id = @redrive`, postgres.Single("tenant", "redrive"), judgedItems.As("s"))

// one applies the rules to one letter, and collects what must be stored.
func (a *applying) one(ctx context.Context, it *item) (v dlq.Verdict, err error) {
	var p dlq.Policy
	if a.r.Action == dlq.BulkRequeue {
		if p, err = a.st.queue.PolicyOf(ctx, a.r.TenantID, it.letter.OriginalTopic); err != nil {
			return v, err
		}
	}
	v = a.r.Act(it.seq, &it.letter, &p, a.chance.At(a.at))
	if v.State == dlq.ItemDone {
		a.gather(&it.letter, &v)
	}
	return v, nil
}

func (a *applying) gather(before *dlq.Letter, v *dlq.Verdict) {
	a.changed.actions = append(a.changed.actions, a.r.AuditLetter(v, before, a.chance.NewID()))
	if v.Deleted {
		a.changed.deleted = append(a.changed.deleted, before.ID)
		return
	}
	a.changed.letters.Add(&appliedRow{&v.After, before.Version})
}

var applyLetters = postgres.Named(`
UPDATE dlq.dlq_messages m
   SET version = c.version + 1,
       status = c.status,
       resolution = c.resolution,
       retry_count = c.retry_count,
       max_retries = c.max_retries,
       next_retry_at = c.next_retry_at, held_retry_at = NULL, retry_asked = false,
       terminal_at = c.terminal_at, updated_at = c.updated_at
  FROM `+postgres.Unnest("c", appliedTable.As("c"))+`
 WHERE m.tenant_id = @tenant
   AND m.id = c.id
   AND m.version = c.version`, postgres.Single("tenant"), appliedTable.As("c"))

// deleteLetters deletes letters with their attempts and revisions.
const deleteLetters = `
WITH attempts AS (
	DELETE FROM dlq.dlq_attempts a WHERE a.tenant_id = $1 AND a.message_id = ANY ($2::uuid[])
), revisions AS (
	DELETE FROM dlq.dlq_revisions r WHERE r.tenant_id = $1 AND r.message_id = ANY ($2::uuid[])
)
DELETE FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.id = ANY ($2::uuid[])`

func (a *applying) storeLetters(ctx context.Context) error {
	if n := a.changed.letters.Len(); n > 0 {
		if err := a.mustChange(ctx, n, applyLetters.Text,
			applyLetters.Args(postgres.Values{a.r.TenantID}, a.changed.letters)...); err != nil {
			return err
		}
	}
	if n := len(a.changed.deleted); n > 0 {
		if err := a.mustChange(ctx, n, deleteLetters, a.r.TenantID, pq.Array(a.changed.deleted)); err != nil {
			return err
		}
	}
	return auditdb.PutActions(ctx, a.tx, a.changed.actions)
}

// mustChange runs a statement that must change n letters, all of which are locked.
func (a *applying) mustChange(ctx context.Context, n int, query string, args ...any) error {
	res, err := a.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	if got, err := res.RowsAffected(); err != nil || got != int64(n) {
		return fmt.Errorf("changed %d of %d locked letters: %w", got, n, errors.Join(err, errNotAllChanged))
	}
	return nil
}

var errNotAllChanged = errors.New("not all locked rows were changed")
