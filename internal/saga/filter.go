package saga

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/rest/page"
)

// Filter selects sagas, and a page of them; zero fields do not restrict. JSON is how a
// bulk operation keeps it.
type Filter struct {
	WorkflowName string `json:"workflow_name,omitzero"`
	// WorkflowVersion is a version of that workflow; 0: any.
	WorkflowVersion int     `json:"workflow_version,omitzero"`
	States          []State `json:"states,omitzero"`
	// Lifecycles are seed 4's words; nil: any.
	Lifecycles     []string        `json:"lifecycles,omitzero"`
	CorrelationID  string          `json:"correlation_id,omitzero"`
	InitiatedBy    string          `json:"initiated_by,omitzero"`
	TraceID        string          `json:"trace_id,omitzero"`
	BusinessKey    string          `json:"business_key,omitzero"`
	Metadata       json.RawMessage `json:"metadata,omitempty"` // containment (@>)
	NeedsAttention *bool           `json:"needs_attention,omitzero"`
	CreatedFrom    time.Time       `json:"created_from,omitzero"` // inclusive
	CreatedTo      time.Time       `json:"created_to,omitzero"`   // exclusive
	UpdatedFrom    time.Time       `json:"updated_from,omitzero"` // inclusive
	UpdatedTo      time.Time       `json:"updated_to,omitzero"`   // exclusive

	page.ByTime `json:"-"`
}

// Matches tells whether f selects a saga of its tenant. It defines what the filters
// mean: the SQL of a store must agree, which the stores' contract tests verify.
func (f *Filter) Matches(s *Saga) bool {
	is := func(want string, have *string) bool { return want == "" || have != nil && *have == want }
	return is(f.WorkflowName, &s.WorkflowName) && is(f.InitiatedBy, &s.InitiatedBy) &&
		is(f.CorrelationID, s.CorrelationID) && is(f.TraceID, s.TraceID) && is(f.BusinessKey, s.BusinessKey) &&
		(f.WorkflowVersion == 0 || f.WorkflowVersion == s.WorkflowVersion) &&
		(f.States == nil || slices.Contains(f.States, s.State)) &&
		(f.Lifecycles == nil || slices.Contains(f.Lifecycles, s.State.Lifecycle(s.Clean == nil || *s.Clean))) &&
		(f.NeedsAttention == nil || *f.NeedsAttention == s.NeedsAttention) &&
		(f.Metadata == nil || s.Metadata != nil && contains(decoded(s.Metadata), decoded(f.Metadata))) &&
		within(s.CreatedAt, f.CreatedFrom, f.CreatedTo) && within(s.UpdatedAt, f.UpdatedFrom, f.UpdatedTo)
}

func within(t, from, to time.Time) bool {
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}

func decoded(j json.RawMessage) any {
	var v any
	_ = json.Unmarshal(j, &v) // canonical JSON: it was checked at the edge
	return v
}

// contains is jsonb's @> operator.
func contains(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if hv, there := h[k]; !there || !contains(hv, v) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok {
			return false
		}
		for _, v := range w {
			if !slices.ContainsFunc(h, func(hv any) bool { return contains(hv, v) }) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(have, want)
}
