package sagadb

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// longSettled is the time after creation by which most sagas have changed for the last time. The
// predicate of idx_saga_updated_at contains the same value. It is larger than any difference
// between the clocks of two nodes.
const longSettled = time.Minute

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
	w.Prefix("s.business_key", f.KeyPrefix)
	w.Prefix("s.correlation_id", f.CorrelationPrefix)
	if f.States != nil {
		w.states(f.States)
	}
	switch {
	case f.Metadata == nil:
	case w.Few || !byMetadata(f):
		// IS TRUE keeps the planner from reading all rows that have ever had this metadata.
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
		{"s.completed_at >= ?", f.EndedFrom},
		{"s.completed_at < ?", f.EndedTo},
		{"s.needs_attention AND s.attention_since >= ?", f.AttentionFrom},
		{"s.needs_attention AND s.attention_since < ?", f.AttentionTo},
	} {
		if !r.at.IsZero() {
			w.Add(r.condition, r.at)
		}
	}
	if f.Snapshot != "" {
		w.Add(postgres.WasThere("s", "?"), string(f.Snapshot))
	}
	if !f.UpdatedTo.IsZero() {
		w.Add("s.created_at < ?", f.UpdatedTo.Add(longSettled)) // no saga changes before it is created
	}
	if !f.EndedTo.IsZero() {
		w.Add("s.created_at < ?", f.EndedTo.Add(longSettled)) // and none ends before it is created
	}
	w.sorted(&f)
}

// sorted adds the conditions that a saga is in the list and comes after f.After.
func (w *sagaWhere) sorted(f *saga.Filter) {
	at := "s.created_at"
	_, than := postgres.Direction(f.Ascending)
	switch {
	case f.Sort == saga.ByEnd:
		at = "s.completed_at"
		w.Add("s.completed_at IS NOT NULL")
	case f.Sort.OfText():
		w.Add("s." + string(f.Sort) + " IS NOT NULL")
	}
	switch {
	case f.After == nil:
	case f.Sort.OfText(): // a row comparison would not use byte order
		text := "s." + string(f.Sort)
		w.Add(text+" ~"+than+"=~ ?", f.AfterKey)
		w.Add("("+text+" ~"+than+"~ ? OR ("+at+", s.id) "+than+" (?, ?))", f.AfterKey, f.After.At, f.After.ID)
	default:
		w.Add("("+at+", s.id) "+than+" (?, ?)", f.After.At, f.After.ID)
	}
}

// states restricts sagas to states by means of the predicates of the partial indexes: unfinished
// states through completed_at, ended states through ended_state (migration 0002). The states are
// literals, not parameters, so that the planner always knows which index contains them, and so that
// a single state keeps the order.
func (w *sagaWhere) states(states []saga.State) {
	live, ended := only(states, isLive), only(states, saga.State.Terminal)
	isLive := "s.completed_at IS NULL AND s.state" + postgres.Among(live)
	hasEnded := "s.ended_state" + postgres.Among(ended)
	switch {
	case live == nil && ended == nil:
		w.Add("false")
	case ended == nil:
		w.Add(isLive)
	case live == nil:
		w.Add(hasEnded)
	default:
		w.Add("(" + isLive + " OR " + hasEnded + ")")
	}
}

// byMetadata reports whether the metadata index finds the sagas of f. PostgreSQL uses it only where
// no row-level policy applies, which is why there are the views tenant_metadata (migration 0090).
// Unfinished sagas are few and are found without it.
func byMetadata(f saga.Filter) bool {
	return f.Metadata != nil && !f.OfAttention() && !f.OfError() &&
		(f.States == nil || holds(f.States, saga.State.Terminal))
}

// holds reports whether a filter by states (nil for none) allows any state of the given kind.
func holds(states []saga.State, kind func(saga.State) bool) bool {
	return states == nil || slices.ContainsFunc(states, kind)
}

// errorPart holds the states of one part of the sagas and the conditions on their errors.
type errorPart struct {
	conditions []errorCondition
	states     []saga.State
}

type errorCondition struct {
	text string
	args []any
}

// after returns the conditions with their parameters numbered after args.
func (p *errorPart) after(args []any) sagaWhere {
	w := sagaWhere{Where: postgres.Where{Args: args, Few: true}}
	for _, c := range p.conditions {
		w.Add(c.text, c.args...)
	}
	return w
}

// ofError returns the parts of a list filtered by errors. One part is the unfinished sagas, which
// are few and have their error and step in the head. The others are sagas that ended in a state
// other than completed, whose error is compared in idx_saga_state. As in states, the predicates of
// the indexes are literals.
func ofError(tenant uuid.UUID, f saga.Filter) (parts []errorPart) {
	live := errorPart{conditions: []errorCondition{{"s.completed_at IS NULL", nil}}}
	ended := errorPart{conditions: []errorCondition{{isNot("s.ended_state", saga.Completed), nil}}}
	if f.ErrorCode != "" {
		live.add("s.error->>'code' = ?", f.ErrorCode)
		ended.add("s.error_code = ?", f.ErrorCode)
	}
	if f.Step != "" {
		live.add(stepsNamed, tenant, f.WorkflowName, f.Step)
		ended.add("s.error_step = ?", f.Step)
	}
	for _, part := range []struct {
		errorPart
		of func(saga.State) bool
	}{
		{live, func(s saga.State) bool { return !s.Terminal() }},
		{ended, func(s saga.State) bool { return s.Terminal() && s != saga.Completed }},
	} {
		if f.States != nil {
			part.states = slices.DeleteFunc(slices.Clone(f.States), func(s saga.State) bool { return !part.of(s) })
			if len(part.states) == 0 {
				continue
			}
		}
		parts = append(parts, part.errorPart)
	}
	if parts == nil {
		parts = []errorPart{{conditions: []errorCondition{{"false", nil}}}}
	}
	return parts
}

func (p *errorPart) add(text string, args ...any) {
	p.conditions = append(p.conditions, errorCondition{text, args})
}

// stepsNamed selects sagas that are at the step with a given name. The step's index may differ
// between the versions of a workflow.
const stepsNamed = `(s.workflow_version, s.current_step) IN (SELECT d.version, o.place - 1
	FROM saga.workflow_definitions d, jsonb_array_elements(d.definition->'steps') WITH ORDINALITY AS o(step, place)
	WHERE d.tenant_id = ? AND d.name = ? AND o.step->>'name' = ?)`

// ofError adds the filters by errors as one condition, for rows that are found by another index.
func (w *sagaWhere) ofError(tenant uuid.UUID, f saga.Filter) {
	if !f.OfError() {
		return
	}
	var either []string
	for _, part := range ofError(tenant, f) {
		one := part.after(w.Args)
		either, w.Args = append(either, one.Text()), one.Args
	}
	w.Add("(" + strings.Join(either, " OR ") + ")")
}
