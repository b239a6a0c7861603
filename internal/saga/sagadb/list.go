package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// List implements saga.Store.
func (st *Sagas) List(ctx context.Context, tenant uuid.UUID, f saga.Filter) (page.Of[saga.Saga], error) {
	var read []saga.Saga
	query, args := listSagas(tenant, f)
	err := st.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		s, err := scanSaga(st.db, rows)
		read = append(read, s)
		return shown(err)
	}, args...)
	if err != nil {
		return page.Of[saga.Saga]{}, fmt.Errorf("list sagas: %w", err)
	}
	found := page.Cut(f.ByTime, read)
	if f.Total {
		if err := postgres.CountPage(ctx, st.db, tenant, f.ByTime, &found,
			func() (string, []any) { f.After = nil; return countSagas(tenant, f) }); err != nil {
			return found, fmt.Errorf("count sagas: %w", err)
		}
	}
	return found, nil
}

// Look counts the sagas of a filter that follow f.After, in a transaction of their tenant.
func (st *Sagas) Look(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, f saga.Filter) (bulk.Seen, error) {
	query, args := countSagas(tenant, f)
	at, visible, n, err := postgres.Look(ctx, tx, query, args...)
	return bulk.Seen{At: at, Snapshot: visible, Count: n}, err
}

// listSagas returns the query for one page plus one row, which shows whether there is a next page.
// Values are parameters; only fixed text is concatenated.
func listSagas(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	order := orderOf(f)
	tail := fmt.Sprint(order, " LIMIT ", f.Limit+1, " OFFSET ", f.Offset)
	switch {
	case inOnePart(f) && f.Offset > 0:
		// Where possible, the index skips the rows before the page.
		parts, args := selectSagas(tenant, f, "s.id, s.tenant_id", tail)
		return "SELECT " + sagaColumns + " FROM " + parts[0] + " AS page JOIN saga.saga_states s ON s.id = page.id AND s.tenant_id = page.tenant_id" + order, args
	case inOnePart(f):
		parts, args := selectSagas(tenant, f, sagaColumns, tail)
		return parts[0], args
	}
	parts, args := selectSagas(tenant, f, sagaColumns, fmt.Sprint(order, " LIMIT ", f.Offset+f.Limit+1))
	return "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") AS s" + tail, args
}

// orderOf returns the order of a list.
func orderOf(f saga.Filter) string {
	direction, _ := postgres.Direction(f.Ascending)
	at := "s.created_at"
	if f.Sort == saga.ByEnd {
		at = "s.completed_at"
	}
	order := " ORDER BY "
	if f.Sort.OfText() { // byte order, as in the index
		_, before := postgres.Direction(!f.Ascending)
		order += "s." + string(f.Sort) + " USING ~" + before + "~, "
	}
	return order + at + direction + ", s.id" + direction
}

// inOnePart reports whether selectSagas returns one query.
func inOnePart(f saga.Filter) bool {
	return f.UpdatedFrom.IsZero() && (f.EndedFrom.IsZero() || f.Sort == saga.ByEnd) && !f.OfError() &&
		(f.WaitsFor == "" || f.Assignee != "")
}

// countSagas returns the query for a total. Up to a bound it reads sagas as the list does: without
// an order, the planner would scan the table from its start and hope to find enough matches early.
func countSagas(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	count, tail := "count(*)", ""
	if f.TotalCap > 0 {
		count = fmt.Sprintf("least(count(*), %d)", f.TotalCap+1)
		tail = fmt.Sprint(orderOf(f), " LIMIT ", f.TotalCap+1)
	}
	parts, args := selectSagas(tenant, f, "s.created_at, s.id", tail)
	return "SELECT " + count + " FROM (" + strings.Join(parts, " UNION ALL ") + ") AS found", args
}

// selectSagas returns the queries that together select each saga of the filter exactly once. Each
// query ends with tail.
//
// updated_at has no index because it changes at every step. Once a saga has ended it is fixed, and
// equals the time of its end unless the saga failed and was changed again. Most sagas end soon
// after they are created, and are found by their creation time, in the order of the list. The
// others form small groups: sagas that took more than a minute, unfinished sagas, and failed sagas.
func selectSagas(tenant uuid.UUID, f saga.Filter, columns, tail string) (parts []string, args []any) {
	add := func(from string, w sagaWhere) {
		w.sagas(tenant, f)
		parts = append(parts, "(SELECT "+columns+" FROM "+from+" s WHERE "+w.Text()+tail+")")
		args = w.Args
	}
	if f.Assignee != "" {
		from, w := assigned("saga.saga_states", tenant, f)
		w.ofError(tenant, f)
		w.waits(f.WaitsFor)
		add(from, w)
		return parts, args
	}
	if f.WaitsFor != "" {
		from, few := waiting(tenant, f)
		few.ofError(tenant, f)
		add(from, few)
		many := sagaWhere{Where: postgres.Where{Args: args, Few: true}}
		many.manyWait(tenant, f)
		many.ofError(tenant, f)
		add("saga.saga_states", many)
		return parts, args
	}
	table := "saga.saga_states"
	if byMetadata(f) {
		table = "saga.tenant_metadata"
	}
	switch {
	case f.OfError():
		for _, w := range ofError(tenant, f) {
			f.States = w.states
			add("saga.saga_states", w.after(args))
		}
		return parts, args
	case inOnePart(f):
		add(table, sagaWhere{})
		return parts, args
	case f.EndedFrom.After(f.UpdatedFrom):
		soon := f.EndedFrom.Add(-longSettled)
		w := sagaWhere{}
		w.Add("s.created_at >= ?", soon)
		add(table, w)
		add(endedLate(tenant, soon, f.EndedFrom, f.EndedTo, "", args))
		return parts, args
	}
	soon := f.UpdatedFrom.Add(-longSettled)
	w := sagaWhere{}
	w.Add("s.created_at >= ?", soon)
	add(table, w)
	if holds(f.States, saga.State.Terminal) {
		add(endedLate(tenant, soon, f.UpdatedFrom, f.UpdatedTo, " AND "+isNot("s.ended_state", saga.Failed), args))
	}
	if holds(f.States, func(s saga.State) bool { return !s.Terminal() }) {
		w := sagaWhere{Where: postgres.Where{Args: args, Few: true}}
		w.Add("s.created_at < ? AND s.completed_at IS NULL", soon)
		add("saga.saga_states", w)
	}
	if holds(f.States, func(s saga.State) bool { return s == saga.Failed }) {
		w := sagaWhere{Where: postgres.Where{Args: args, Few: true}}
		w.Add("s.created_at < ? AND "+is("s.ended_state", saga.Failed), soon)
		add("saga.saga_states", w)
	}
	return parts, args
}

// assigned returns a FROM item with the sagas of a table that are assigned to f's assignee. They
// are found by their notes, in the order of the list, because a note has the creation time of its
// saga. The conditions are marked as Few, so that no other index is used, as it would be for many
// sagas.
func assigned(table string, tenant uuid.UUID, f saga.Filter) (from string, w sagaWhere) {
	n := postgres.Where{}
	n.Add("n.tenant_id = ? AND n.assignee = ? AND n.assignee <> ''", tenant, f.Assignee)
	if f.After != nil && f.Sort == saga.ByCreation {
		_, than := postgres.Direction(f.Ascending)
		n.Add("(n.created_at, n.saga_id) "+than+" (?, ?)", f.After.At, f.After.ID)
	}
	return "(SELECT s.* FROM saga.saga_notes n JOIN " + table +
			" s ON s.id = n.saga_id AND s.tenant_id = n.tenant_id AND s.created_at = n.created_at WHERE " + n.Text() + ")",
		sagaWhere{Where: postgres.Where{Args: n.Args, Few: true}}
}

// endedLate returns a FROM item with the sagas that were created before soon, took more than a
// minute, and ended between two times; to may be zero. They are collected first (OFFSET 0) and
// filtered afterwards, because the planner does not see that they are few and would otherwise read
// all rows that match the other filters.
func endedLate(tenant uuid.UUID, soon, from, to time.Time, but string, args []any) (table string, w sagaWhere) {
	late := sagaWhere{Where: postgres.Where{Args: args}}
	// The pair is compared in idx_saga_updated_at. If only the time were compared, the planner
	// would use the retention index and read all sagas that have ended since then.
	late.Add("s.tenant_id = ? AND s.created_at < ? AND s.completed_at - s.created_at > interval '1 minute'"+but+
		" AND (s.tenant_id, s.completed_at) >= (?, ?)", tenant, soon, tenant, from)
	if !to.IsZero() {
		late.Add("s.completed_at < ?", to)
	}
	return "(SELECT s.* FROM saga.saga_states s WHERE " + late.Text() + " OFFSET 0)",
		sagaWhere{Where: postgres.Where{Args: late.Args, Few: true}}
}
