package redrivedb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// finishItems stores the results for letters that were taken, and counts them. An item that is no
// longer TAKEN is already counted, or is waiting again.
//
// Items are looked up one by one and updated by ctid. The planner has no statistics yet for a
// redrive that was just gathered, and would compare each of its items with each item of the batch.
//
// It counts in SQL, in the same way as dlq.Progress.Count. The rule needs the number of times that
// each letter was handed over before, and reading that first would cost every batch a round trip
// and hold the lock longer. TestFinishedItemsAreCountedAsTheRuleSays compares both implementations.
var finishItems = postgres.Named(`
WITH f AS MATERIALIZED (
	SELECT f.state, f.detail, f.reach, x.place
	  FROM `+postgres.Unnest("f", endedItems.As("f"), reachTable.As("f"))+`
	 CROSS JOIN LATERAL (SELECT i.ctid AS place FROM dlq.dlq_redrive_items i
	        WHERE i.tenant_id = @tenant AND i.redrive_id = @redrive AND i.message_id = f.message_id OFFSET 0) AS x
), moved AS (
	UPDATE dlq.dlq_redrive_items i SET state = f.state, detail = f.detail, updated_at = clock_timestamp(),
	       hands = i.hands + CASE f.reach WHEN 'nothing' THEN 0 ELSE 1 END,
	       lease_until = CASE f.state WHEN 'TAKEN' THEN clock_timestamp() + interval '1 second' END
	  FROM f WHERE i.ctid = f.place AND i.tenant_id = @tenant AND `+taken("i.state || ''")+`
	RETURNING i.state, i.hands, f.reach
), n AS (
	SELECT count(*) FILTER (WHERE moved.state IN ('DONE', 'BOUNCED')) AS done,
	       count(*) FILTER (WHERE moved.state = 'FAILED') AS failed,
	       count(*) FILTER (WHERE moved.state = 'BOUNCED') AS bounced,
	       count(*) FILTER (WHERE moved.state = 'SKIPPED') AS skipped,
	       count(*) FILTER (WHERE moved.reach = 'answered') AS sent,
	       count(*) FILTER (WHERE moved.reach = 'unknown'
	                        AND moved.hands = 1) - count(*) FILTER (WHERE moved.reach = 'answered'
	              AND moved.hands > 1) AS maybe,
	       count(*) FILTER (WHERE moved.reach <> 'nothing' AND moved.hands = 2) AS repeated FROM moved
)
UPDATE dlq.dlq_redrives d
   SET done = d.done + n.done,
       failed = d.failed + n.failed,
       bounced = d.bounced + n.bounced,
       skipped = d.skipped + n.skipped,
       updated_at = clock_timestamp(),
       sent = d.sent + n.sent,
       maybe_sent = d.maybe_sent + n.maybe,
       repeated = d.repeated + n.repeated,
       progress_at = CASE WHEN n.done + n.failed + n.skipped > 0 THEN clock_timestamp() ELSE d.progress_at END,
       last_error = coalesce(nullif(@problem::text, ''), d.last_error),
       last_error_at = CASE @problem::text WHEN '' THEN d.last_error_at ELSE clock_timestamp() END
  FROM n WHERE d.tenant_id = @tenant AND d.id = @redrive`,
	postgres.Single("tenant", "redrive"), endedItems.As("f"), reachTable.As("f"), postgres.Single("problem"))

// FinishItems implements dlq.Redrives. The letters belong to one tenant. A letter whose lease was
// lost is left to Judge, as is one that its target has accepted. Judge checks the latter soon, and
// not only when its lease expires.
func (st *Redrives) FinishItems(ctx context.Context, r uuid.UUID, batch []dlq.Finish) error {
	if len(batch) == 0 {
		return nil
	}
	var ended, accepted []dlq.Finish
	for i := range batch {
		if batch[i].Status == dlq.Retrying {
			accepted = append(accepted, batch[i])
		} else {
			ended = append(ended, batch[i])
		}
	}
	_, err := postgres.RetryCollision(func() (struct{}, error) {
		return struct{}{}, st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			done, err := dlqdb.Finish(ctx, st.db, tx, false, ended)
			if err != nil {
				return err
			}
			items, reaches := endedItems.Batch(len(batch)), reachTable.Batch(len(batch))
			var problem string // the last error
			add := func(f *dlq.Finish, stored dlq.Resolution) {
				item, reach := f.Item(stored)
				items.Add(&item)
				reaches.Add(&reach)
				problem = cmp.Or(f.Attempt.Error, problem)
			}
			for i := range ended {
				if done[i].Held {
					add(&ended[i], done[i].Resolution)
				}
			}
			for i := range accepted {
				add(&accepted[i], "")
			}
			if items.Len() == 0 {
				return nil
			}
			_, err = tx.ExecContext(ctx, finishItems.Text,
				finishItems.Args(postgres.Values{batch[0].TenantID, r}, items, reaches, postgres.Values{problem})...)
			if err != nil {
				return err
			}
			return pause(ctx, tx, batch[0].TenantID, r, batch)
		})
	})
	return postgres.Wrap("finish letters of a redrive", err)
}

// pause stores the times until which targets have asked not to be called, if any. The redrive is
// locked, because its progress was just stored.
func pause(ctx context.Context, tx *sqlx.Tx, tenant, redrive uuid.UUID, ends []dlq.Finish) error {
	if !slices.ContainsFunc(ends, func(f dlq.Finish) bool { return f.RetryAfter > 0 }) {
		return nil
	}
	var now time.Time
	r, err := redriveTable.One(tx.QueryRowContext(ctx, `
		SELECT `+redriveColumns+`, clock_timestamp()
		  FROM dlq.dlq_redrives d
		 WHERE d.tenant_id = $1 AND d.id = $2
		 FOR NO KEY UPDATE`,
		tenant, redrive), &now)
	if err != nil {
		return err
	}
	var longer bool
	if r.Pauses, longer = r.Pauses.After(ends, now.UTC()); !longer {
		return nil
	}
	_, err = tx.ExecContext(ctx, storePauses.Text, storePauses.Args(pausedRedrive.Row(&r))...)
	return err
}

var pausedRedrive = redriveTable.Only("tenant_id", "id", "pauses")

var storePauses = postgres.Named(`UPDATE dlq.dlq_redrives SET `+pausedRedrive.Set("r", "tenant_id", "id")+`
 WHERE tenant_id = @r.tenant_id AND id = @r.id`, pausedRedrive.As("r"))

// lockLost locks letters that were taken and whose leases have expired, and returns their current
// state. Letters are looked up one by one, for the same reason as in finishItems.
var lockLost = `
WITH lost AS MATERIALIZED (
	SELECT i.seq, i.message_id, i.hands FROM dlq.dlq_redrive_items i
	 WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND ` + taken("i.state") + ` AND i.lease_until < clock_timestamp()
	 ORDER BY i.seq FOR NO KEY UPDATE OF i SKIP LOCKED
)
SELECT l.seq, l.hands, g.hands AS gone, coalesce(m.status, '') AS status, coalesce(m.resolution, '') AS resolution,
       coalesce(a.redrive_id = $2, false) AS ours, coalesce(a.outcome, '') AS outcome, coalesce(a.error, '') AS error
  FROM lost l
  LEFT JOIN LATERAL (SELECT m.status, m.resolution, m.attempts
                       FROM dlq.dlq_messages m
                      WHERE m.tenant_id = $1 AND m.id = l.message_id
                      OFFSET 0) AS m ON true
  LEFT JOIN LATERAL (SELECT a.redrive_id, a.outcome, a.error
                       FROM dlq.dlq_attempts a
                      WHERE a.tenant_id = $1 AND a.message_id = l.message_id AND a.number = m.attempts
                      OFFSET 0) AS a ON true
 CROSS JOIN LATERAL (SELECT count(*)::integer AS hands FROM dlq.dlq_attempts a
        WHERE a.tenant_id = $1 AND a.message_id = l.message_id AND a.redrive_id = $2 AND a.outcome = 'ABANDONED') AS g`

// settleLost stores the results for lost letters and counts them. Letters that are still in
// progress are checked again soon.
var settleLost = postgres.Named(`
WITH moved AS (
	UPDATE dlq.dlq_redrive_items i
	   SET state = n.state, hands = n.hands, detail = n.detail, updated_at = clock_timestamp(),
	       lease_until = CASE n.state WHEN 'TAKEN' THEN clock_timestamp() + interval '2 seconds' END
	  FROM unnest(@seqs::bigint[], @states::text[], @details::text[], @hands::bigint[]) AS n (seq, state, detail, hands)
	 WHERE i.tenant_id = @tenant AND i.redrive_id = @redrive AND i.seq = n.seq
)
UPDATE dlq.dlq_redrives d
   SET done = d.done + @done::bigint,
       failed = d.failed + @failed::bigint,
       bounced = d.bounced + @bounced::bigint,
       updated_at = clock_timestamp(),
       sent = d.sent + @sent::bigint,
       maybe_sent = d.maybe_sent + @maybe::bigint,
       repeated = d.repeated + @repeated::bigint,
       progress_at = CASE WHEN @done::bigint + @failed::bigint > 0 THEN clock_timestamp() ELSE d.progress_at END
 WHERE d.tenant_id = @tenant
   AND d.id = @redrive
   AND (@done::bigint + @failed::bigint > 0 OR @maybe::bigint <> 0 OR @repeated::bigint > 0)`,
	postgres.Single("tenant", "redrive", "seqs", "states", "details", "hands"),
	postgres.Single("done", "failed", "bounced", "sent", "maybe", "repeated"))

// settle settles the lost letters of a redrive, whose row must be locked.
func settle(ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID) error {
	var lost []dlq.Lost
	if err := tx.SelectContext(ctx, &lost, lockLost, tenant, id); err != nil || lost == nil {
		return err
	}
	var seqs, handed []int64
	var states, details []string
	var p dlq.Progress
	for i := range lost {
		item, hands := lost[i].Settled()
		p.Count(item.State, item.State.Ended(), lost[i].Hands, hands)
		seqs, handed = append(seqs, item.Seq), append(handed, int64(hands))
		states, details = append(states, string(item.State)), append(details, item.Detail)
	}
	_, err := tx.ExecContext(ctx, settleLost.Text, settleLost.Args(
		postgres.Values{tenant, id, pq.Array(seqs), pq.Array(states), pq.Array(details), pq.Array(handed)},
		postgres.Values{p.Done, p.Failed, p.Bounced, p.Sent, p.MaybeSent, p.Repeated})...)
	return err
}

var lockRedrive = `
SELECT ` + redriveColumns + `, clock_timestamp(),
       (SELECT count(*)
          FROM dlq.dlq_redrive_items i
         WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND ` + taken("i.state") + `)
  FROM dlq.dlq_redrives d WHERE d.tenant_id = $1 AND d.id = $2`

// judgedRedrive contains the columns that a verdict changes.
var judgedRedrive = redriveTable.Only("tenant_id", "id", "version", "state", "halt_reason", "watched_at", "canary_ok",
	"ended_at", "updated_at", "halts", "last_halt_reason", "last_halted_at")

var storeJudged = postgres.Named(`UPDATE dlq.dlq_redrives SET `+judgedRedrive.Set("r", "tenant_id", "id")+`
 WHERE tenant_id = @r.tenant_id AND id = @r.id`, judgedRedrive.As("r"))

// Judge implements dlq.Redrives. Only running redrives are judged; others are returned unchanged.
func (st *Redrives) Judge(ctx context.Context, tenant, id uuid.UUID, chance dlq.Chance) (dlq.Redrive, error) {
	r, err := postgres.RetryCollision(func() (r dlq.Redrive, err error) {
		err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
			r, err = judge(ctx, tx, tenant, id, chance)
			return err
		})
		return r, err
	})
	return r, postgres.Wrap("judge redrive", err)
}

func judge(ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID, chance dlq.Chance) (r dlq.Redrive, err error) {
	// The row is locked first, and a separate statement counts: a statement that waits for the lock
	// would count from a snapshot older than the row.
	var state dlq.RedriveState
	err = tx.GetContext(ctx, &state, `SELECT d.state
	  FROM dlq.dlq_redrives d
	 WHERE d.tenant_id = $1 AND d.id = $2
	 FOR NO KEY UPDATE`, tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return r, noRedrive(id)
	}
	if err == nil && state == dlq.RedriveRunning {
		err = settle(ctx, tx, tenant, id)
	}
	if err != nil {
		return r, err
	}
	var now time.Time
	var busy int64
	if r, err = redriveTable.One(tx.QueryRowContext(ctx, lockRedrive, tenant, id), &now, &busy); err != nil {
		return r, err
	}
	after, changed := r.Judge(busy, now.UTC())
	if !changed {
		return r, nil
	}
	return after, storeVerdict(ctx, tx, &after, chance.NewID)
}

// storeVerdict stores the verdict of the rules on a redrive; newID generates the id of the action
// that records a halt.
func storeVerdict(ctx context.Context, tx *sqlx.Tx, after *dlq.Redrive, newID func() uuid.UUID) error {
	_, err := tx.ExecContext(ctx, storeJudged.Text, storeJudged.Args(judgedRedrive.Row(after))...)
	if err != nil || after.State != dlq.RedriveHalted {
		return err
	}
	return auditdb.PutAction(ctx, tx, after.AuditHalt(newID()))
}
