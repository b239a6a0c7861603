package sagapages

import (
	"slices"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// sagaFilter selects sagas in their list and for a bulk operation.
type sagaFilter struct {
	web.Filter
	marks marks
}

// marks describe how the forms show a filter.
type marks int

const (
	viewed marks = 1 << iota // the list has views for it, or a sign in another field, instead of a separate field
	always                   // the bulk form also shows it when it is empty
	lines                    // a bulk operation accepts several values, one per line
	yesNo
)

// sagaFilters lists all filters for sagas, in the order of the list's form.
var sagaFilters = []sagaFilter{
	{web.Filter{Name: "workflow_name", Label: "Workflow", Hint: "order"}, always},
	{web.Filter{Name: "state", Label: "State", Options: states()}, always | lines},
	{web.Filter{Name: "status", Label: "Status"}, viewed | lines},
	{web.Filter{Name: "lifecycle", Label: "Lifecycle"}, viewed | lines},
	{web.Filter{Name: "needs_attention", Label: "Needs attention"}, viewed | always | yesNo},
	{web.Filter{Name: "active", Label: "Active"}, viewed | yesNo},
	{web.Filter{Name: "business_key", Label: "Business key", Hint: "order-47*", Prefix: "business_key_prefix"}, 0},
	{web.Filter{Name: "business_key_prefix", Label: "Business key begins with"}, viewed},
	{web.Filter{Name: "correlation_id", Label: "Correlation", Hint: "checkout-*", Prefix: "correlation_id_prefix"}, 0},
	{web.Filter{Name: "correlation_id_prefix", Label: "Correlation begins with"}, viewed},
	{web.Filter{Name: "initiated_by", Label: "Initiated by"}, 0},
	{web.Filter{Name: "assignee", Label: "Assignee"}, 0},
	{web.Filter{Name: "waits_for", Label: "Waits for participant", Hint: "card"}, 0},
	{web.Filter{Name: "trace_id", Label: "Trace"}, 0},
	{web.Filter{Name: "definition_id", Label: "Version", Hint: "order@3"}, 0},
	{web.Filter{Name: "created_from", Label: "Created from", Hint: "-24h", Time: true}, always},
	{web.Filter{Name: "created_to", Label: "Created before", Time: true}, always},
	{web.Filter{Name: "updated_from", Label: "Changed from", Hint: "-1h", Time: true}, 0},
	{web.Filter{Name: "updated_to", Label: "Changed before", Time: true}, 0},
	{web.Filter{Name: "ended_from", Label: "Ended from", Hint: "-24h", Time: true}, 0},
	{web.Filter{Name: "ended_to", Label: "Ended before", Time: true}, 0},
	{web.Filter{Name: "error_code", Label: "Error code", Hint: "http_503"}, 0},
	{web.Filter{Name: "step", Label: "Step (of the workflow)", Hint: "charge"}, 0},
	{web.Filter{Name: "attention_since_from", Label: "Attention since, from", Hint: "-24h", Time: true}, 0},
	{web.Filter{Name: "attention_since_to", Label: "Attention since, before", Hint: "-7d", Time: true}, 0},
	{web.Filter{Name: "metadata", Label: "Metadata", Hint: `{"region":"eu"}`}, 0},
}

func states() (all []web.Option) {
	for _, s := range []client.SagaState{
		"pending", "running", "step_completed", "completed", "compensating", "compensated", "failed", "cancelled",
		"timed_out",
	} {
		all = append(all, web.Option{Value: string(s), Label: web.Words(s)})
	}
	return all
}

// filters returns the fields of the list's form.
var filters = func() (all []web.Filter) {
	for _, f := range sagaFilters {
		if f.marks&viewed == 0 {
			all = append(all, f.Filter)
		}
	}
	usual := []string{"workflow_name", "state", "business_key", "created_from"}
	place := func(f web.Filter) int { return (slices.Index(usual, f.Name) + len(usual) + 1) % (len(usual) + 1) }
	slices.SortStableFunc(all, func(a, b web.Filter) int { return place(a) - place(b) })
	return all
}()

var anyYesNo = append(web.Labelled("", "any"), web.YesNo...)

// field returns the field for a bulk form. Bulk operations do not accept relative times.
func (f *sagaFilter) field() web.Field {
	field := web.Field{Name: "filter." + f.Name, Label: f.Label}
	switch {
	case f.marks&lines != 0:
		field.Kind, field.Hint = "lines", "One per line."
	case f.marks&yesNo != 0:
		field.Kind, field.Options = "select", anyYesNo
	case f.Hint != "" && !f.Time && f.Prefix == "":
		field.Hint = "Such as " + f.Hint + "."
	}
	return field
}
