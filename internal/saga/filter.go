package saga

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/page"
)

// Filter selects sagas and one page of them; zero fields do not restrict. Bulk operations store it
// as JSON.
type Filter struct {
	WorkflowName string `json:"workflow_name,omitzero"`
	// WorkflowVersion is a version of that workflow; 0 means any.
	WorkflowVersion int     `json:"workflow_version,omitzero"`
	States          []State `json:"states,omitzero"`
	// Lifecycles are seed 4's status words; nil means any.
	Lifecycles    []string `json:"lifecycles,omitzero"`
	CorrelationID string   `json:"correlation_id,omitzero"`
	InitiatedBy   string   `json:"initiated_by,omitzero"`
	TraceID       string   `json:"trace_id,omitzero"`
	BusinessKey   string   `json:"business_key,omitzero"`
	// KeyPrefix and CorrelationPrefix are literal prefixes of the two fields; no character is a
	// wildcard.
	KeyPrefix         string `json:"business_key_prefix,omitzero"`
	CorrelationPrefix string `json:"correlation_id_prefix,omitzero"`

	Metadata       json.RawMessage `json:"metadata,omitempty"` // containment (@>)
	NeedsAttention *bool           `json:"needs_attention,omitzero"`
	// Assignee is the assignee in the saga's note, which Matches does not see.
	Assignee    string    `json:"assignee,omitzero"`
	WaitsFor    string    `json:"waits_for,omitzero"`    // a participant, which Matches does not see either
	CreatedFrom time.Time `json:"created_from,omitzero"` // inclusive
	CreatedTo   time.Time `json:"created_to,omitzero"`   // exclusive
	UpdatedFrom time.Time `json:"updated_from,omitzero"` // inclusive
	UpdatedTo   time.Time `json:"updated_to,omitzero"`   // exclusive
	EndedFrom   time.Time `json:"ended_from,omitzero"`   // inclusive
	EndedTo     time.Time `json:"ended_to,omitzero"`     // exclusive
	// AttentionFrom (inclusive) and AttentionTo (exclusive) select sagas that need attention, by
	// the time at which they began to need it.
	AttentionFrom time.Time `json:"attention_from,omitzero"`
	AttentionTo   time.Time `json:"attention_to,omitzero"`
	// ErrorCode selects sagas that have not completed, by the code of their error.
	ErrorCode string `json:"error_code,omitzero"`
	// Step is the name of a step of WorkflowName, which is then required. It is compared with the
	// current step of an unfinished saga, and with Trouble.Step of an ended one.
	Step string `json:"step,omitzero"`

	// Sort is the sort key of the list, and Ascending its direction. AfterKey is the text at the
	// place After, if Sort is a text.
	Sort        Sort   `json:"-"`
	Ascending   bool   `json:"-"`
	AfterKey    string `json:"-"`
	page.ByTime `json:"-"`
}

// Sort is the sort key of a list of sagas: either a time, followed by the id, or a text in byte
// order, followed by the time of creation and the id. A list contains only sagas that have that
// time or text.
type Sort string

// The sort keys of lists.
const (
	ByCreation    Sort = ""
	ByEnd         Sort = "completed_at"
	ByBusinessKey Sort = "business_key"
	ByCorrelation Sort = "correlation_id"
)

// OfText reports whether a list is sorted by a text.
func (s Sort) OfText() bool { return s == ByBusinessKey || s == ByCorrelation }

// Place is the place of a saga in a list; ok is false if the list does not contain it.
func (s Sort) Place(of *Saga) (at page.KeyTimeID, ok bool) {
	at.TimeID = of.Place()
	text := of.BusinessKey
	switch s {
	case ByCreation:
		return at, true
	case ByEnd:
		if of.CompletedAt != nil {
			at.At = *of.CompletedAt
		}
		return at, of.CompletedAt != nil
	case ByCorrelation:
		text = of.CorrelationID
	case ByBusinessKey:
	}
	if text != nil {
		at.Key = *text
	}
	return at, text != nil
}

// SortOfPrefix is the sort key of a list with a prefix: the sagas whose key starts with the prefix
// are adjacent only in the order of that key. ByCreation means that the filter has no prefix, so
// that the list can use any sort key.
func (f *Filter) SortOfPrefix() Sort {
	switch {
	case f.KeyPrefix != "":
		return ByBusinessKey
	case f.CorrelationPrefix != "":
		return ByCorrelation
	}
	return ByCreation
}

// OfError reports whether f filters by errors.
func (f *Filter) OfError() bool { return f.ErrorCode != "" || f.Step != "" }

// OfAttention reports whether f filters by the time at which sagas began to need attention.
func (f *Filter) OfAttention() bool { return !f.AttentionFrom.IsZero() || !f.AttentionTo.IsZero() }

// Matches reports whether f selects a saga of its tenant, except for the filters on Trouble. It
// defines the meaning of the filters: the SQL of a store must agree, which the stores' contract
// tests verify.
func (f *Filter) Matches(s *Saga) bool {
	is := func(want string, have *string) bool { return want == "" || have != nil && *have == want }
	begins := func(want string, have *string) bool {
		return want == "" || have != nil && strings.HasPrefix(*have, want)
	}
	_, listed := f.Sort.Place(s)
	return listed && is(f.WorkflowName, &s.WorkflowName) && is(f.InitiatedBy, &s.InitiatedBy) &&
		is(f.CorrelationID, s.CorrelationID) && is(f.TraceID, s.TraceID) && is(f.BusinessKey, s.BusinessKey) &&
		begins(f.KeyPrefix, s.BusinessKey) && begins(f.CorrelationPrefix, s.CorrelationID) &&
		(f.WorkflowVersion == 0 || f.WorkflowVersion == s.WorkflowVersion) &&
		(f.States == nil || slices.Contains(f.States, s.State)) &&
		(f.Lifecycles == nil || slices.Contains(f.Lifecycles, s.State.Lifecycle(s.Clean == nil || *s.Clean))) &&
		(f.NeedsAttention == nil || *f.NeedsAttention == s.NeedsAttention) &&
		(f.Metadata == nil || s.Metadata != nil && contains(decoded(s.Metadata), decoded(f.Metadata))) &&
		Within(s.CreatedAt, f.CreatedFrom, f.CreatedTo) && Within(s.UpdatedAt, f.UpdatedFrom, f.UpdatedTo) &&
		(f.EndedFrom.IsZero() && f.EndedTo.IsZero() ||
			s.CompletedAt != nil && Within(*s.CompletedAt, f.EndedFrom, f.EndedTo)) &&
		(f.ErrorCode == "" || s.State != Completed && s.Error != nil && s.Error.Code == f.ErrorCode)
}

// Within reports whether a time is at or after from and before to; a zero bound does not restrict.
func Within(t, from, to time.Time) bool {
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}

func decoded(j json.RawMessage) any {
	var v any
	_ = json.Unmarshal(j, &v) // canonical JSON, which was checked when the request was parsed
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
