package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
)

// List implements saga.Store.
func (st *Sagas) List(ctx context.Context, tenant uuid.UUID, f saga.Filter) (saga.Page, error) {
	var page saga.Page
	if f.Total {
		query, args := countSagas(tenant, f)
		if err := st.db.read.GetContext(ctx, &page.Total, query, args...); err != nil {
			return page, fmt.Errorf("count sagas: %w", err)
		}
	}
	query, args := listSagas(tenant, f)
	rows, err := st.db.read.QueryContext(ctx, query, args...)
	if err != nil {
		return page, fmt.Errorf("list sagas: %w", err)
	}
	err = eachRow(rows, func() error {
		s, err := scanSaga(rows)
		page.Sagas = append(page.Sagas, s)
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list sagas: %w", err)
	}
	if page.More = len(page.Sagas) > f.Limit; page.More {
		page.Sagas = page.Sagas[:f.Limit]
	}
	return page, nil
}

// listSagas returns the query of one page, and one row more, which tells
// whether there is a next page. Values are parameters; only fixed text is put
// together.
func listSagas(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	const newest = " ORDER BY s.created_at DESC, s.id DESC"
	page := fmt.Sprint(newest, " LIMIT ", f.Limit+1, " OFFSET ", f.Offset)
	if f.UpdatedFrom.IsZero() { // then it is one part
		parts, args := selectSagas(tenant, f, sagaColumns, page)
		return parts[0], args
	}
	parts, args := selectSagas(tenant, f, sagaColumns, fmt.Sprint(newest, " LIMIT ", f.Offset+f.Limit+1))
	return "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") AS s" + page, args
}

// countSagas returns the query of Page.Total. Up to a bound it reads as the
// list does: without an order the planner would trust its luck and read the
// table from its start.
func countSagas(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	f.After = nil
	tail := ""
	if f.TotalCap > 0 {
		tail = fmt.Sprint(" ORDER BY s.created_at DESC, s.id DESC LIMIT ", f.TotalCap)
	}
	parts, args := selectSagas(tenant, f, "", tail)
	all := strings.Join(parts, " UNION ALL ")
	if f.TotalCap > 0 {
		all = fmt.Sprint(all, " LIMIT ", f.TotalCap)
	}
	return "SELECT count(*) FROM (" + all + ") AS found", args
}

// settled is how long after its creation most sagas are changed for the last
// time, as the predicate of idx_saga_updated_at says it too; and more than the
// clocks of two nodes differ.
const settled = time.Minute

// selectSagas returns the queries that together select each saga of the filter
// once, each with tail at its end.
//
// updated_at changes at every step and so has no index. Only an ended saga's
// last change stands still: it is its end, unless it failed and was touched
// again. Most sagas end soon, and are then found by the time of their creation,
// in the order of the list. The others are few kinds of few: ended after more
// than a minute, not ended, failed.
func selectSagas(tenant uuid.UUID, f saga.Filter, columns, tail string) (parts []string, args []any) {
	part := func(conditions func(w *where)) {
		w := where{args: args}
		w.sagas(tenant, f)
		conditions(&w)
		parts = append(parts, "(SELECT "+columns+" FROM saga.saga_states s WHERE "+w.text()+tail+")")
		args = w.args
	}
	if f.UpdatedFrom.IsZero() {
		part(func(*where) {})
		return parts, args
	}
	soon := f.UpdatedFrom.Add(-settled)
	part(func(w *where) { w.add("s.created_at >= ?", soon) })
	if holds(f.States, saga.State.Terminal) {
		part(func(w *where) {
			w.add("s.created_at < ? AND s.completed_at - s.created_at > interval '1 minute' AND s.ended_state <> 6", soon)
			w.add("s.completed_at >= ?", f.UpdatedFrom)
			if !f.UpdatedTo.IsZero() {
				w.add("s.completed_at < ?", f.UpdatedTo)
			}
		})
	}
	if holds(f.States, func(s saga.State) bool { return !s.Terminal() }) {
		part(func(w *where) { w.add("s.created_at < ? AND s.completed_at IS NULL", soon) })
	}
	if holds(f.States, func(s saga.State) bool { return s == saga.Failed }) {
		part(func(w *where) { w.add("s.created_at < ? AND s.ended_state <> 3 AND s.ended_state = 6", soon) })
	}
	return parts, args
}

// holds tells whether a filter by states, nil for none, lets one of kind through.
func holds(states []saga.State, kind func(saga.State) bool) bool {
	return states == nil || slices.ContainsFunc(states, kind)
}

// where gathers conditions and their parameters.
type where struct {
	conditions []string
	args       []any
}

// add appends a condition in which each ? stands for the next argument.
func (w *where) add(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.conditions = append(w.conditions, condition)
}

func (w *where) text() string { return strings.Join(w.conditions, " AND ") }

func (w *where) sagas(tenant uuid.UUID, f saga.Filter) {
	w.add("s.tenant_id = ?", tenant)
	for _, eq := range []struct{ column, value string }{
		{"s.workflow_name", f.WorkflowName},
		{"s.correlation_id", f.CorrelationID},
		{"s.initiated_by", f.InitiatedBy},
		{"s.trace_id", f.TraceID},
		{"s.business_key", f.BusinessKey},
	} {
		if eq.value != "" {
			w.add(eq.column+" = ?", eq.value)
		}
	}
	if f.States != nil {
		w.states(f.States)
	}
	if f.Metadata != nil {
		w.add("s.metadata IS NOT NULL AND s.metadata @> ?::jsonb", string(f.Metadata))
	}
	switch {
	case f.NeedsAttention == nil:
	case *f.NeedsAttention:
		w.add("s.needs_attention")
	default:
		w.add("NOT s.needs_attention")
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
			w.add(r.condition, r.at)
		}
	}
	if !f.UpdatedTo.IsZero() {
		w.add("s.created_at < ?", f.UpdatedTo.Add(settled)) // nothing is changed before it is made
	}
	if f.After != nil {
		w.add("(s.created_at, s.id) < (?, ?)", f.After.CreatedAt, f.After.ID)
	}
}

// states restricts to states in the words of the partial indexes: unfinished
// ones through completed_at, ended ones through ended_state (migration 0002).
func (w *where) states(states []saga.State) {
	var live, ended []int64
	for _, s := range states {
		if s.Terminal() {
			ended = append(ended, int64(s))
		} else {
			live = append(live, int64(s))
		}
	}
	const liveOnly, endedOnly = "s.completed_at IS NULL AND s.state = ANY (?)", "s.ended_state = ANY (?)"
	switch {
	case ended == nil && live == nil:
		w.add("false")
	case ended == nil:
		w.add(liveOnly, pq.Array(live))
	case live == nil && !slices.Contains(ended, int64(saga.Completed)):
		w.add("s.ended_state <> 3 AND "+endedOnly, pq.Array(ended))
	case live == nil:
		w.add(endedOnly, pq.Array(ended))
	default:
		w.add("(("+liveOnly+") OR ("+endedOnly+"))", pq.Array(live), pq.Array(ended))
	}
}
