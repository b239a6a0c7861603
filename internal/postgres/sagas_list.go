package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
)

// List implements saga.Store.
func (st *Sagas) List(ctx context.Context, tenant uuid.UUID, f saga.Filter) (saga.Page, error) {
	var page saga.Page
	err := st.db.inTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if f.Total {
			query, args := countSagas(tenant, f)
			if err := tx.GetContext(ctx, &page.Total, query, args...); err != nil {
				return fmt.Errorf("count: %w", err)
			}
		}
		query, args := listSagas(tenant, f)
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		return eachRow(rows, func() error {
			s, err := scanSaga(rows)
			page.Sagas = append(page.Sagas, s)
			return err
		})
	})
	if err != nil {
		return saga.Page{}, fmt.Errorf("list sagas: %w", err)
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
	w := where{}
	w.sagas(tenant, f)
	if f.After != nil {
		w.add("(s.created_at, s.id) < (?, ?)", f.After.CreatedAt, f.After.ID)
	}
	return fmt.Sprintf(`SELECT %s FROM saga.saga_states s WHERE %s ORDER BY s.created_at DESC, s.id DESC LIMIT %d OFFSET %d`,
		sagaColumns, w.text(), f.Limit+1, f.Offset), w.args
}

// countSagas returns the query of Page.Total.
func countSagas(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	w := where{}
	w.sagas(tenant, f)
	return `SELECT count(*) FROM saga.saga_states s WHERE ` + w.text(), w.args
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
		// The index serves only those whom no policy stops (migration 0090).
		w.add("s.id IN (SELECT m.id FROM saga.tenant_metadata m WHERE m.metadata IS NOT NULL AND m.metadata @> ?::jsonb)", string(f.Metadata))
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
	w.ended(f.UpdatedFrom, f.UpdatedTo)
}

// ended repeats the bounds of updated_at, which has no index (it changes at
// every step), in words that have one: the last update of a saga that has ended
// is its end, unless it was reopened.
func (w *where) ended(from, to time.Time) {
	switch {
	case from.IsZero() && to.IsZero():
	case to.IsZero():
		w.add("(s.completed_at IS NULL OR s.completed_at >= ? OR s.ended_state = 6)", from)
	case from.IsZero():
		w.add("(s.completed_at IS NULL OR s.completed_at < ? OR s.ended_state = 6)", to)
	default:
		w.add("(s.completed_at IS NULL OR s.completed_at >= ? AND s.completed_at < ? OR s.ended_state = 6)", from, to)
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
