package web

import (
	"net/url"
	"slices"
	"strings"
)

// RunBulk returns the form for a bulk operation on the runs that a list's parameters select, with
// its filter filled in. For a list without filters, it applies to all runs.
func RunBulk(action string, list url.Values) string {
	q := url.Values{"action": {action}}
	for name, values := range list {
		values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" })
		switch {
		case len(values) == 0 || name == "cursor":
		case name == "state" || name == "trigger":
			q.Set("filter."+name+"s", strings.Join(values, "\n"))
		default:
			q.Set("filter."+name, values[0])
		}
	}
	if len(q) == 1 {
		q.Set("all", "true")
	}
	return "/ui/run-bulks/new?" + q.Encode()
}
