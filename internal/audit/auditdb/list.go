package auditdb

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga"
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

// actionsQuery returns the queries for the page that f selects, newest first, and for the total
// count.
func actionsQuery(tenant uuid.UUID, f operator.Filter) (query string, args []any, count string, counted []any) {
	sources, args := sourcesOf(tenant, f)
	var parts []string
	for _, s := range sources {
		parts = append(parts, fmt.Sprintf("(SELECT %s %s LIMIT %d)", s.columns, s.newest, f.Offset+f.Limit+1))
	}
	query = fmt.Sprintf("SELECT %s FROM (%s) a ORDER BY a.at DESC, a.id DESC LIMIT %d OFFSET %d",
		actionTable.Selected("a"), strings.Join(parts, " UNION ALL "), f.Limit+1, f.Offset)
	most := ""
	if f.TotalCap > 0 {
		most = fmt.Sprintf("LIMIT %d", f.TotalCap+1)
	}
	f.After, parts = nil, nil
	sources, counted = sourcesOf(tenant, f)
	for _, s := range sources {
		parts = append(parts, fmt.Sprintf("(SELECT true %s %s)", s.newest, most))
	}
	return query, args, fmt.Sprintf("SELECT count(*) FROM (%s) AS few", strings.Join(parts, " UNION ALL ")), counted
}

// source is one of the tables from which the list is merged. It consists of the columns, which
// correspond to those of saga.audit_actions, and the rest of the query, newest first.
type source struct{ columns, newest string }

// sourcesOf returns the sources that may contain actions that f selects, and their parameters.
// Recorded actions are found by request or operation (indexes of migrations 0153 and 0165),
// otherwise by subject, otherwise by time. Actions on sagas are found by the saga, otherwise by
// time (migration 0390).
func sourcesOf(tenant uuid.UUID, f operator.Filter) (sources []source, args []any) {
	if f.Kind != operator.Saga {
		w := recorded(tenant, &f)
		sources = append(sources, source{actionTable.Selected("a"),
			"FROM saga.audit_actions a WHERE " + w.Text() + " ORDER BY a.at DESC, a.id DESC"})
		args = w.Args
	}
	w, some := operated(tenant, &f, args)
	if !some {
		return sources, args
	}
	for _, table := range []string{"saga.audit_events", "saga.audit_events_archive"} {
		sources = append(sources, source{operatedColumns,
			"FROM " + table + " e WHERE " + w.Text() + " ORDER BY e.timestamp DESC, e.id DESC"})
	}
	return sources, w.Args
}

// recorded selects the recorded actions, with alias a.
func recorded(tenant uuid.UUID, f *operator.Filter) postgres.Where {
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
	between(&w, "a.at", f)
	if f.After != nil {
		w.Add("(a.at, a.id) < (?, ?)", f.After.At, f.After.ID)
	}
	return w
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
		if read, err = actionTable.All(tx.QueryContext(ctx, query, args...)); err != nil {
			return err
		}
		return nameSubjects(ctx, tx, tenant, read)
	})
	for i := range read {
		a := &read[i]
		if a.Result == operator.Done {
			a.Result = ""
		}
		if err == nil {
			a.Detail, err = postgres.Canonical(a.Detail) // jsonb does not keep the canonical form
		}
		a.ActorName, a.Detail = principal.NameIn(a.Detail)
		if a.Kind == operator.Saga {
			done := saga.OperationOf(eventtype.Type(a.Verb), a.Detail, a.Actor, a.Operation)
			a.Verb, a.Reason, a.Detail, a.Operation = string(done.Verb), done.Reason, done.Detail, ""
		}
	}
	found := page.Cut(f.ByTime, read)
	found.Total = total
	found.CapTotal(f.TotalCap)
	return found, postgres.Wrap("list operators' actions", err)
}
