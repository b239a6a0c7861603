package workflow

import (
	"fmt"
	"slices"
)

// word returns m[key], or "" if it is absent, and reports values that are not in known.
func (r *reader) word(m map[string]any, at, key string, known ...string) string {
	s := r.text(m, at, key, 20)
	if v := m[key]; v == s && !slices.Contains(known, s) {
		r.fail(at+"/"+key, CodeInvalid, "must be one of %v", known)
	}
	return s
}

func (r *reader) onFailure(m map[string]any, at string) OnFailure {
	return OnFailure(r.word(m, at, "on_failure", string(OnFailureCompensate), string(OnFailureSuspend)))
}

func (r *reader) onUndoFailure(m map[string]any, at string) OnUndoFailure {
	return OnUndoFailure(r.word(m, at, "on_compensation_failure", string(OnUndoFailureStop), string(OnUndoFailureGoOn)))
}

// flag returns m[key], or false if it is absent.
func (r *reader) flag(m map[string]any, at, key string) bool {
	v := m[key]
	is, isBool := v.(bool)
	if v != nil && !isBool {
		r.fail(at+"/"+key, CodeInvalid, "must be true or false")
	}
	return is
}

// pivot checks the pivot and the steps that run after it. steps are in the declared order, inOrder
// in execution order.
func (r *reader) pivot(steps, inOrder []Step) {
	pivot := ""
	for _, s := range inOrder {
		i := slices.IndexFunc(steps, func(o Step) bool { return o.Name == s.Name })
		at := fmt.Sprintf("/steps/%d", i)
		switch {
		case pivot == "" && s.Pivot:
			pivot = s.Name
			continue
		case pivot == "":
			continue
		case s.Pivot:
			r.fail(at+"/pivot", CodeSecondPivot, "step %q is already the pivot: a workflow has at most one", pivot)
		}
		if !s.Compensation.None() {
			r.fail(at+"/compensation", CodeCompensationAfterPivot, "step %q runs after the pivot %q, so it is never "+
				"compensated: write `compensation: none`, or let %q depend on it", s.Name, pivot, pivot)
		}
		if s.OnFailure != "" {
			r.fail(at+"/on_failure", CodeAfterPivot, "step %q runs after the pivot %q, where a step is retried until it "+
				"succeeds, and a refusal suspends the saga: omit on_failure", s.Name, pivot)
		}
	}
}
