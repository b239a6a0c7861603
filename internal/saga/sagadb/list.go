package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/rest/page"
	"github.com/skald-saga/skald/internal/saga"
)

// List implements saga.Store.
func (st *Sagas) List(ctx context.Context, tenant uuid.UUID, f saga.Filter) (page.Of[saga.Saga], error) {
	var read []saga.Saga
	query, args := listSagas(tenant, f)
	err := st.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		s, err := scanSaga(st.db, rows)
		read = append(read, s)
		return err
	}, args...)
	if err != nil {
		return page.Of[saga.Saga]{}, fmt.Errorf("list sagas: %w", err)
	}
	found := page.Cut(f.ByTime, read)
	if f.Total {
		if err := postgres.CountPage(ctx, st.db, tenant, f.ByTime, &found,
			func() (string, []any) { return countSagas(tenant, f) }); err != nil {
			return found, fmt.Errorf("count sagas: %w", err)
		}
	}
	return found, nil
}

// listSagas returns the query for one page and one more row, which shows whether there
// is a next page. Values are parameters; only fixed text is concatenated.
func listSagas(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	const newest = " ORDER BY s.created_at DESC, s.id DESC"
	tail := fmt.Sprint(newest, " LIMIT ", f.Limit+1, " OFFSET ", f.Offset)
	switch {
	case f.UpdatedFrom.IsZero() && f.Offset > 0:
		// Where possible, the rows before the page are skipped in the index.
		parts, args := selectSagas(tenant, f, "s.id, s.tenant_id", tail)
		return "SELECT " + sagaColumns + " FROM " + parts[0] + " AS page JOIN saga.saga_states s ON s.id = page.id AND s.tenant_id = page.tenant_id" + newest, args
	case f.UpdatedFrom.IsZero(): // then it is one part
		parts, args := selectSagas(tenant, f, sagaColumns, tail)
		return parts[0], args
	}
	parts, args := selectSagas(tenant, f, sagaColumns, fmt.Sprint(newest, " LIMIT ", f.Offset+f.Limit+1))
	return "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") AS s" + tail, args
}

// countSagas returns the query for a total. Up to a bound it reads as the list does:
// without an order the planner would scan the table from its start and hope to find
// enough matches early.
func countSagas(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	f.After = nil
	count, tail := "count(*)", ""
	if f.TotalCap > 0 {
		count = fmt.Sprintf("least(count(*), %d)", f.TotalCap+1)
		tail = fmt.Sprint(" ORDER BY s.created_at DESC, s.id DESC LIMIT ", f.TotalCap+1)
	}
	parts, args := selectSagas(tenant, f, "s.created_at, s.id", tail)
	return "SELECT " + count + " FROM (" + strings.Join(parts, " UNION ALL ") + ") AS found", args
}

// longSettled is the time after its creation by which most sagas have been changed for
// the last time. The predicate of idx_saga_updated_at contains it too. It is also more
// than the clocks of two nodes differ.
const longSettled = time.Minute

// selectSagas returns the queries that together select each saga of the filter once,
// each with tail at its end.
//
// updated_at changes at every step and so has no index. It is fixed only for an ended
// saga: then it is the time of its end, unless the saga failed and was changed again.
// Most sagas end soon, and those are found by their creation time, in the order of the
// list. The others are small groups: sagas that ended after more than a minute,
// unfinished sagas, and failed sagas.
func selectSagas(tenant uuid.UUID, f saga.Filter, columns, tail string) (parts []string, args []any) {
	add := func(from string, w sagaWhere) {
		w.sagas(tenant, f)
		parts = append(parts, "(SELECT "+columns+" FROM "+from+" s WHERE "+w.Text()+tail+")")
		args = w.Args
	}
	table := "saga.saga_states"
	if byMetadata(f) {
		table = "saga.tenant_metadata"
	}
	if f.UpdatedFrom.IsZero() {
		add(table, sagaWhere{})
		return parts, args
	}
	soon := f.UpdatedFrom.Add(-longSettled)
	w := sagaWhere{}
	w.Add("s.created_at >= ?", soon)
	add(table, w)
	if holds(f.States, saga.State.Terminal) {
		late := sagaWhere{postgres.Where{Args: args}}
		late.Add("s.tenant_id = ? AND s.created_at < ? AND s.completed_at - s.created_at > interval '1 minute' AND s.ended_state <> 6 AND s.completed_at >= ?",
			tenant, soon, f.UpdatedFrom)
		if !f.UpdatedTo.IsZero() {
			late.Add("s.completed_at < ?", f.UpdatedTo)
		}
		// Collected first (OFFSET 0) and filtered afterwards. The planner does not see
		// that they are few, and would read all rows that match the other filters.
		add("(SELECT s.* FROM saga.saga_states s WHERE "+late.Text()+" OFFSET 0)", sagaWhere{postgres.Where{Args: late.Args, Few: true}})
	}
	if holds(f.States, func(s saga.State) bool { return !s.Terminal() }) {
		w := sagaWhere{postgres.Where{Args: args, Few: true}}
		w.Add("s.created_at < ? AND s.completed_at IS NULL", soon)
		add("saga.saga_states", w)
	}
	if holds(f.States, func(s saga.State) bool { return s == saga.Failed }) {
		w := sagaWhere{postgres.Where{Args: args, Few: true}}
		w.Add("s.created_at < ? AND s.ended_state = 6", soon)
		add("saga.saga_states", w)
	}
	return parts, args
}

// byMetadata reports whether the metadata's index finds the sagas of f. PostgreSQL uses
// it only where no row-level policy applies: through the views tenant_metadata
// (migration 0090). Unfinished sagas are few and are found without it.
func byMetadata(f saga.Filter) bool {
	return f.Metadata != nil && (f.States == nil || holds(f.States, saga.State.Terminal))
}

// holds reports whether a filter by states, nil for none, allows a state of that kind.
func holds(states []saga.State, kind func(saga.State) bool) bool {
	return states == nil || slices.ContainsFunc(states, kind)
}

// sagaWhere collects conditions on sagas.
type sagaWhere struct{ postgres.Where }

func (w *sagaWhere) sagas(tenant uuid.UUID, f saga.Filter) {
	w.Add("s.tenant_id = ?", tenant)
	for _, eq := range []struct{ column, value string }{
		{"s.workflow_name", f.WorkflowName},
		{"s.correlation_id", f.CorrelationID},
		{"s.initiated_by", f.InitiatedBy},
		{"s.trace_id", f.TraceID},
		{"s.business_key", f.BusinessKey},
	} {
		if eq.value != "" {
			w.Add(eq.column+" = ?", eq.value)
		}
	}
	if f.States != nil {
		w.states(f.States)
	}
	switch {
	case f.Metadata == nil:
	case w.Few || !byMetadata(f):
		// IS TRUE keeps the planner from reading all rows that ever had this metadata.
		w.Add("(s.metadata @> ?::jsonb) IS TRUE", string(f.Metadata))
	default:
		w.Add("s.metadata IS NOT NULL AND s.metadata @> ?::jsonb", string(f.Metadata))
	}
	if f.WorkflowVersion != 0 {
		w.Add("s.workflow_version = ?", f.WorkflowVersion)
	}
	if f.Lifecycles != nil {
		w.Add("s.lifecycle = ANY (?)", pq.Array(f.Lifecycles))
	}
	switch {
	case f.NeedsAttention == nil:
	case *f.NeedsAttention:
		w.Add("s.needs_attention")
	default:
		w.Add("NOT s.needs_attention")
	}
	for _, r := range []struct {
		condition string
		at        time.Time
	}{
		{"s.created_at >= ?", f.CreatedFrom},
		{"s.created_at < ?", f.CreatedTo},
		{"s.updated_at >= ?", f.UpdatedFrom},
		{"s.updated_at < ?", f.UpdatedTo},
	} {
		if !r.at.IsZero() {
			w.Add(r.condition, r.at)
		}
	}
	if !f.UpdatedTo.IsZero() {
		w.Add("s.created_at < ?", f.UpdatedTo.Add(longSettled)) // no saga is changed before it is created
	}
	if f.After != nil {
		w.Add("(s.created_at, s.id) < (?, ?)", f.After.At, f.After.ID)
	}
}

// states restricts to states with the predicates of the partial indexes: unfinished
// ones through completed_at, ended ones through ended_state (migration 0002). They are
// literals, not parameters, so that the planner always knows which index contains them,
// and that a single state keeps the order.
func (w *sagaWhere) states(states []saga.State) {
	live := among("s.state", states, func(s saga.State) bool { return !s.Terminal() })
	ended := among("s.ended_state", states, saga.State.Terminal)
	switch {
	case live == "" && ended == "":
		w.Add("false")
	case ended == "":
		w.Add("s.completed_at IS NULL AND " + live)
	case live == "":
		w.Add(ended)
	default:
		w.Add("(s.completed_at IS NULL AND " + live + " OR " + ended + ")")
	}
}

// among returns the condition that column is one of the states of that kind; "" when
// there is none.
func among(column string, states []saga.State, kind func(saga.State) bool) string {
	var numbers []string
	for _, s := range states {
		if kind(s) {
			numbers = append(numbers, strconv.Itoa(int(s)))
		}
	}
	switch len(numbers) {
	case 0:
		return ""
	case 1:
		return column + " = " + numbers[0]
	}
	return column + " IN (" + strings.Join(numbers, ", ") + ")"
}
