// Package redrivedb keeps redrives on PostgreSQL: what they are (redrives.go), which
// letters they take up (gather.go), the next ones to send (take.go), how those ended
// (finish.go), and redrives that only change letters (apply.go).
package redrivedb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/rest/page"
)

// Redrives is dlq.Redrives on PostgreSQL. Its loops lock rows in one order:
// letters, which nobody waits for who holds a redrive; items; the redrive.
type Redrives struct {
	db    *postgres.DB
	queue *dlqdb.Queue
}

// NewRedrives returns the redrives of the letters of queue.
func NewRedrives(db *postgres.DB, queue *dlqdb.Queue) *Redrives { return &Redrives{db, queue} }

// redriveColumns are the columns of dlq_redrives, alias d, in the order of
// scanRedrive.
const redriveColumns = `d.id, d.tenant_id, d.version, d.action, d.state, d.halt_reason, d.ids, d.filter, d.query, d.max_messages, d.rate, d.concurrency,
	d.key_order, d.target, d.transform, d.force, d.canary, d.stop_on, d.scheduled_for, d.approval, d.request_hash, d.reason, d.actor, d.approved_by,
	d.gathered, d.matched, d.done, d.failed, d.skipped, d.bounced, d.created_at, d.started_at, d.watched_at, d.canary_ok, d.ended_at, d.updated_at,
	d.sent, d.maybe_sent, d.repeated, d.done_before, d.failed_before, d.halts, d.last_halt_reason, d.last_halted_at,
	d.progress_at, d.waiting_for, d.waiting_at, d.last_error, d.last_error_at`

func scanRedrive(row postgres.Scanner, more ...any) (r dlq.Redrive, err error) {
	var ids []uuid.UUID
	var filter, query, target, transform, canary, stopOn []byte
	dest := []any{
		&r.ID, &r.TenantID, &r.Version, &r.Action, &r.State, &r.HaltReason, pq.Array(&ids), &filter, &query, &r.Max,
		&r.Rate, &r.Concurrency,
		&r.Order, &target, &transform, &r.Force, &canary, &stopOn, &r.ScheduledFor, &r.Approval, &r.RequestHash, &r.Reason,
		&r.Actor, &r.ApprovedBy,
		&r.Gathered, &r.Matched, &r.Done, &r.Failed, &r.Skipped, &r.Bounced, &r.CreatedAt, &r.StartedAt, &r.WatchedAt,
		&r.CanaryOK, &r.EndedAt, &r.UpdatedAt,
		&r.Sent, &r.MaybeSent, &r.Repeated, &r.DoneBefore, &r.FailedBefore, &r.Halts, &r.LastHalt, &r.LastHaltedAt,
		&r.ProgressAt, &r.WaitingFor, &r.WaitingAt, &r.LastError, &r.LastErrorAt,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return r, err
	}
	postgres.UTC(r.ScheduledFor, &r.CreatedAt, r.StartedAt, r.WatchedAt, r.EndedAt, &r.UpdatedAt, r.LastHaltedAt,
		r.ProgressAt, r.WaitingAt, r.LastErrorAt)
	r.IDs, r.Query, r.Transform = ids, query, transform
	for _, doc := range []struct {
		stored []byte
		to     any
	}{{filter, &r.Filter}, {target, &r.Target}, {canary, &r.Canary}, {stopOn, &r.StopOn}} {
		if doc.stored == nil {
			continue
		}
		if err := json.Unmarshal(doc.stored, doc.to); err != nil {
			return r, fmt.Errorf("stored redrive: %w", err)
		}
	}
	return r, nil
}

// redriveDocs are the members of a redrive that are stored as JSON, NULL when
// they are not there.
func redriveDocs(r *dlq.Redrive) (docs map[string]sql.NullString, err error) {
	docs = map[string]sql.NullString{"query": postgres.NullText(r.Query), "transform": postgres.NullText(r.Transform)}
	for name, doc := range map[string]struct {
		value any
		there bool
	}{
		"filter": {r.Filter, r.Filter != nil}, "target": {r.Target, r.Target != nil}, "canary": {r.Canary, r.Canary != nil},
		"stop_on": {r.StopOn, true},
	} {
		if !doc.there {
			continue
		}
		b, err := json.Marshal(doc.value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		docs[name] = postgres.NullText(b)
	}
	return docs, nil
}

// Create implements dlq.Redrives.
func (st *Redrives) Create(ctx context.Context, r dlq.Redrive, by operator.Action) error {
	docs, err := redriveDocs(&r)
	if err != nil {
		return err
	}
	var ids any
	if r.IDs != nil {
		ids = pq.Array(r.IDs)
	}
	return postgres.Outage("create redrive", st.db.InTenant(ctx, r.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `
			INSERT INTO dlq.dlq_redrives (id, tenant_id, version, action, state, ids, filter, query, max_messages, rate, concurrency, key_order,
			       target, transform, force, canary, stop_on, scheduled_for, approval, request_hash, reason, actor, approved_by, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8::jsonb, $9, $10, $11, $12, $13::jsonb, $14::jsonb, $15, $16::jsonb, $17::jsonb, $18, $19, $20, $21, $22, $23, $24, $25)
			ON CONFLICT (id) DO NOTHING`,
			r.ID, r.TenantID, r.Version, r.Action, r.State, ids, docs["filter"], docs["query"], r.Max, r.Rate,
			r.Concurrency, r.Order,
			docs["target"], docs["transform"], r.Force, docs["canary"], docs["stop_on"], r.ScheduledFor, r.Approval,
			r.RequestHash, r.Reason, r.Actor, r.ApprovedBy,
			r.CreatedAt, r.UpdatedAt)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 0:
			return fault.New(fault.Conflict, dlq.CodeRedriveExists, "redrive %s already exists", r.ID)
		}
		return auditdb.PutAction(ctx, tx, by)
	}))
}

func noRedrive(id uuid.UUID) error {
	return fault.New(fault.NotFound, dlq.CodeRedriveNotFound, "there is no redrive %s", id)
}

var getRedrive = postgres.OfTenant(`SELECT `+redriveColumns+` FROM dlq.dlq_redrives d WHERE d.tenant_id = tenant.id AND d.id = $2`, "")

// Get implements dlq.Redrives.
func (st *Redrives) Get(ctx context.Context, tenant, id uuid.UUID) (r dlq.Redrive, err error) {
	err = st.db.ReadOne(ctx, tenant, getRedrive, noRedrive(id), func(rows *sql.Rows) (err error) {
		r, err = scanRedrive(rows)
		return err
	}, id)
	return r, postgres.Outage("get redrive", err)
}

// List implements dlq.Redrives. Redrives are few: they are counted to the end.
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
		found, err = postgres.ReadFew(ctx, tx, l, &w, p,
			func(row postgres.Scanner) (dlq.Redrive, error) { return scanRedrive(row) })
		return err
	})
	return found, postgres.Outage("list redrives", err)
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
		if err := tx.GetContext(ctx, &there, `SELECT EXISTS (SELECT 1 FROM dlq.dlq_redrives d WHERE d.tenant_id = $1 AND d.id = $2)`, tenant, id); err != nil {
			return err
		}
		if !there {
			return noRedrive(id)
		}
		rows, err := tx.QueryContext(ctx, `
			SELECT i.seq, i.message_id, i.state, i.detail, i.updated_at FROM dlq.dlq_redrive_items i
			 WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND i.seq > $3 AND (cardinality($4::text[]) = 0 OR i.state = ANY ($4::text[]))
			 ORDER BY i.seq LIMIT $5`, tenant, id, p.Start(), pq.Array(names), p.Limit+1)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			var i dlq.Item
			err := rows.Scan(&i.Seq, &i.LetterID, &i.State, &i.Detail, &i.UpdatedAt)
			postgres.UTC(&i.UpdatedAt)
			items = append(items, i)
			return err
		})
	})
	return page.Cut(p, items), postgres.Outage("list letters of a redrive", err)
}

// changeRedrive stores what people change. What the loops count, and how far
// they have come, stays as it is. A halted redrive that goes on counts anew from
// what it has at this moment.
var changeRedrive = `
UPDATE dlq.dlq_redrives
   SET version = $4, state = $5::text, halt_reason = $6, rate = $7, concurrency = $8, stop_on = $9::jsonb, scheduled_for = $10, approved_by = $11,
       canary_ok = $12, watched_at = $13, ended_at = $14, updated_at = $15,
       done_before = CASE WHEN ` + recounts + ` THEN done ELSE done_before END,
       failed_before = CASE WHEN ` + recounts + ` THEN failed ELSE failed_before END
 WHERE tenant_id = $1 AND id = $2 AND version = $3`

// Change implements dlq.Redrives.
func (st *Redrives) Change(ctx context.Context, r dlq.Redrive, by operator.Action) error {
	docs, err := redriveDocs(&r)
	if err != nil {
		return err
	}
	return postgres.Outage("change redrive", st.db.InTenant(ctx, r.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, changeRedrive, r.TenantID, r.ID, r.Version-1, r.Version, r.State, r.HaltReason,
			r.Rate, r.Concurrency, docs["stop_on"],
			r.ScheduledFor, r.ApprovedBy, r.CanaryOK, r.WatchedAt, r.EndedAt, r.UpdatedAt)
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
		err = tx.GetContext(ctx, &present, `SELECT version FROM dlq.dlq_redrives WHERE tenant_id = $1 AND id = $2`, r.TenantID, r.ID)
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
func (st *Redrives) Active(ctx context.Context, limit int) ([]dlq.Redrive, error) {
	rows, err := st.db.QueryRead(ctx, `
		SELECT `+redriveColumns+` FROM dlq.dlq_redrives d
		 WHERE `+active+` AND (`+running+` OR d.scheduled_for IS NULL OR d.scheduled_for <= clock_timestamp())
		 ORDER BY d.created_at LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("find active redrives: %w", err)
	}
	var all []dlq.Redrive
	err = postgres.EachRow(rows, func() error {
		r, err := scanRedrive(rows)
		all = append(all, r)
		return err
	})
	return all, postgres.Outage("find active redrives", err)
}

// Waits implements dlq.Redrives.
func (st *Redrives) Waits(ctx context.Context, tenant, id uuid.UUID, what string) error {
	return postgres.Outage("record what a redrive waits for", st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE dlq.dlq_redrives SET waiting_for = left($3::text, 300), waiting_at = now(), progress_at = CASE $3::text WHEN '' THEN now() ELSE progress_at END
			 WHERE tenant_id = $1 AND id = $2 AND `+dlqdb.IsOneOf("state", dlq.Running), tenant, id, what)
		return err
	}))
}
