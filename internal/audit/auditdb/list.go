package auditdb

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Actions is operator.Log on PostgreSQL.
type Actions struct{ db *postgres.DB }

// NewActions returns the audit trail of operators' actions in db.
func NewActions(db *postgres.DB) *Actions { return &Actions{db} }

// Record implements operator.Log.
func (st *Actions) Record(ctx context.Context, a operator.Action) error {
	return postgres.Wrap("record an action",
		st.db.InTenant(ctx, a.TenantID, func(tx *sqlx.Tx) error { return PutAction(ctx, tx, a) }))
}

// actionsQuery returns the page that f selects, newest first, and the total count. Actions are
// found by request or operation (indexes of migrations 0153 and 0165), else by subject, else by
// time.
func actionsQuery(tenant uuid.UUID, f operator.Filter) (query string, args []any, count string, counted []any) {
	w := postgres.Where{}
	w.Add("a.tenant_id = ?", tenant)
	for _, eq := range []struct{ column, value string }{
		{"a.kind", string(f.Kind)}, {"a.subject", f.Subject}, {"a.actor", f.Actor}, {"a.verb", f.Verb},
		{"a.operation", f.Operation}, {"a.request_id", f.RequestID},
	} {
		if eq.value != "" {
			w.Add(eq.column+" = ?", eq.value)
		}
	}
	if !f.From.IsZero() {
		w.Add("a.at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.Add("a.at < ?", f.To)
	}
	const newest = " ORDER BY a.at DESC, a.id DESC"
	most := ""
	if f.TotalCap > 0 {
		most = fmt.Sprintf("%s LIMIT %d", newest, f.TotalCap+1)
	}
	count, counted = fmt.Sprintf(`SELECT count(*)
	  FROM (SELECT a.id FROM saga.audit_actions a WHERE %s%s) AS few`, w.Text(), most), w.Args
	if f.After != nil {
		w.Add("(a.at, a.id) < (?, ?)", f.After.At, f.After.ID)
	}
	query = fmt.Sprintf(`SELECT %s FROM saga.audit_actions a WHERE %s%s LIMIT %d OFFSET %d`,
		actionTable.Selected("a"), w.Text(), newest, f.Limit+1, f.Offset)
	return query, w.Args, count, counted
}

// Actions implements operator.Log.
func (st *Actions) Actions(ctx context.Context, tenant uuid.UUID, f operator.Filter) (page.Of[operator.Action], error) {
	var total int64
	var read []operator.Action
	query, args, count, counted := actionsQuery(tenant, f)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		if f.Total {
			if err := tx.GetContext(ctx, &total, count, counted...); err != nil {
				return err
			}
		}
		read, err = actionTable.All(tx.QueryContext(ctx, query, args...))
		return err
	})
	for i := range read {
		a := &read[i]
		if a.Result == operator.Done {
			a.Result = ""
		}
		if err == nil {
			a.Detail, err = postgres.Canonical(a.Detail) // canonical again, as before it was stored as jsonb
		}
	}
	found := page.Cut(f.ByTime, read)
	found.Total = total
	found.CapTotal(f.TotalCap)
	return found, postgres.Wrap("list operators' actions", err)
}
