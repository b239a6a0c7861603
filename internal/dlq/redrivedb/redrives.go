// Package redrivedb stores redrives in PostgreSQL: their rows (tables.go), the letters that they
// cover (cover.go), creating, reading and changing them (redrives.go), previewing them
// (preview.go), gathering their letters (gather.go), taking the next letters to send (take.go),
// storing the results (finish.go), and redrives that only change letters (apply.go).
package redrivedb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Redrives implements dlq.Redrives on PostgreSQL. Its loops lock rows in a fixed order: first
// letters, then items, then the redrive. A transaction that holds a redrive's lock never waits for
// letters.
type Redrives struct {
	db    *postgres.DB
	queue *dlqdb.Queue
}

// NewRedrives returns the redrives of the letters in queue.
func NewRedrives(db *postgres.DB, queue *dlqdb.Queue) *Redrives { return &Redrives{db, queue} }

var createRedrive = postgres.Named(`
INSERT INTO dlq.dlq_redrives (`+redriveTable.Inserted()+`) VALUES (`+redriveTable.Values("r")+`)
ON CONFLICT (id) DO NOTHING`, redriveTable.As("r"))

// Create implements dlq.Redrives. A repeated request is found before the letters are counted again.
func (st *Redrives) Create(ctx context.Context, r dlq.Redrive, by operator.Action) (dlq.Redrive, error) {
	exists := fault.New(fault.Conflict, dlq.CodeRedriveExists, "redrive %s already exists", r.ID)
	err := st.db.InTenant(ctx, r.TenantID, func(tx *sqlx.Tx) error {
		var there bool
		if err := tx.GetContext(ctx, &there, `SELECT EXISTS (SELECT 1
		                                                       FROM dlq.dlq_redrives d
		                                                      WHERE d.id = $1)`, r.ID); err != nil {
			return err
		}
		if there {
			return exists
		}
		seen, err := look(ctx, tx, &r)
		if err != nil {
			return err
		}
		r = r.Requested(seen)
		res, err := tx.ExecContext(ctx, createRedrive.Text, createRedrive.Args(redriveTable.Row(&r))...)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 0:
			return exists
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	return r, postgres.Wrap("create redrive", err)
}

func noRedrive(id uuid.UUID) error {
	return fault.New(fault.NotFound, dlq.CodeRedriveNotFound, "there is no redrive %s", id)
}

var getRedrive = postgres.OfTenant(`SELECT `+redriveColumns+`
  FROM dlq.dlq_redrives d
 WHERE d.tenant_id = tenant.id AND d.id = $2`, "")

// Get implements dlq.Redrives.
func (st *Redrives) Get(ctx context.Context, tenant, id uuid.UUID) (r dlq.Redrive, err error) {
	err = st.db.ReadOne(ctx, tenant, getRedrive, noRedrive(id), func(rows *sql.Rows) error {
		return redriveTable.Scan(rows, &r)
	}, id)
	return r, postgres.Wrap("get redrive", err)
}

// List implements dlq.Redrives. There are few redrives, so the total is always exact.
func (st *Redrives) List(ctx context.Context, tenant uuid.UUID, states []dlq.RedriveState,
	p page.ByTime) (found page.Of[dlq.Redrive], err error) {
	var w postgres.Where
	w.Add("d.tenant_id = ?", tenant)
	if len(states) > 0 {
		names := make([]string, len(states))
		for i, s := range states {
			names[i] = string(s)
		}
		w.Add("d.state = ANY (?::text[])", pq.Array(names))
	}
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		l := postgres.NewestFirst{Columns: redriveColumns, From: "dlq.dlq_redrives d", At: "d.created_at", ID: "d.id"}
		found, err = postgres.ReadFew(ctx, tx, l, &w, p, redriveTable.One)
		return err
	})
	return found, postgres.Wrap("list redrives", err)
}

// Items implements dlq.Redrives.
func (st *Redrives) Items(ctx context.Context, tenant, id uuid.UUID, states []dlq.ItemState,
	p page.Request[int64]) (page.Of[dlq.Item], error) {
	var items []dlq.Item
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		var there bool
		if err := tx.GetContext(ctx, &there, `SELECT EXISTS (SELECT 1
		                                                       FROM dlq.dlq_redrives d
		                                                      WHERE d.tenant_id = $1
		                                                        AND d.id = $2)`, tenant, id); err != nil {
			return err
		}
		if !there {
			return noRedrive(id)
		}
		var err error
		items, err = itemTable.All(tx.QueryContext(ctx, `
			SELECT `+itemTable.Selected("i")+` FROM dlq.dlq_redrive_items i
			 WHERE i.tenant_id = $1
			   AND i.redrive_id = $2
			   AND i.seq > $3
			   AND (cardinality($4::text[]) = 0 OR i.state = ANY ($4::text[]))
			 ORDER BY i.seq LIMIT $5`, tenant, id, p.Start(), pq.Array(names), p.Limit+1))
		return err
	})
	return page.Cut(p, items), postgres.Wrap("list letters of a redrive", err)
}

// changeRedrive stores the fields that operators may change. The loops' counters and cursors stay
// unchanged. When a halted redrive is resumed, new failures are counted from its current counters.
var changeRedrive = postgres.Named(`
UPDATE dlq.dlq_redrives
   SET `+changedRedrive.Set("r", "tenant_id", "id")+`,
       done_before = CASE WHEN `+recounts+` THEN done ELSE done_before END,
       failed_before = CASE WHEN `+recounts+` THEN failed ELSE failed_before END
 WHERE tenant_id = @r.tenant_id AND id = @r.id AND version + 1 = @r.version`, changedRedrive.As("r"))

var changedRedrive = redriveTable.Only("tenant_id", "id", "version", "state", "halt_reason", "rate", "concurrency",
	"stop_on", "scheduled_for", "halts_above", "approved_by", "approved_by_name", "canary_ok", "watched_at",
	"ended_at", "updated_at")

// Change implements dlq.Redrives.
func (st *Redrives) Change(ctx context.Context, r dlq.Redrive, by operator.Action) error {
	return postgres.Wrap("change redrive", st.db.InTenant(ctx, r.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, changeRedrive.Text, changeRedrive.Args(changedRedrive.Row(&r))...)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 1:
			return auditdb.PutAction(ctx, tx, by)
		}
		var present int64
		err = tx.GetContext(ctx, &present, `SELECT version
		  FROM dlq.dlq_redrives
		 WHERE tenant_id = $1 AND id = $2`, r.TenantID, r.ID)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noRedrive(r.ID)
		case err != nil:
			return err
		}
		return fault.New(fault.Precondition, dlq.CodeStale, "redrive %s is at version %d", r.ID, present)
	}))
}

// Active implements dlq.Redrives.
func (st *Redrives) Active(ctx context.Context, after page.TimeID, limit int) ([]dlq.Redrive, error) {
	all, err := redriveTable.All(st.db.QueryRead(ctx, `
		SELECT `+redriveColumns+` FROM dlq.dlq_redrives d
		 WHERE `+active+` AND (`+running+` OR d.scheduled_for IS NULL OR d.scheduled_for <= clock_timestamp())
		   AND (d.created_at, d.id) > ($1, $2)
		 ORDER BY d.created_at, d.id LIMIT $3`, after.At, after.ID, limit))
	return all, postgres.Wrap("find active redrives", err)
}

// Waits implements dlq.Redrives.
func (st *Redrives) Waits(ctx context.Context, tenant, id uuid.UUID, what string) error {
	return postgres.Wrap("record what a redrive is waiting for", st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE dlq.dlq_redrives
			   SET waiting_for = left($3::text, 300),
			       waiting_at = now(),
			       progress_at = CASE $3::text WHEN '' THEN now() ELSE progress_at END
			 WHERE tenant_id = $1 AND id = $2 AND state`+postgres.Among(dlq.Running), tenant, id, what)
		return err
	}))
}
