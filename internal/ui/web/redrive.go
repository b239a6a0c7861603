package web

import "net/url"

// Redrive returns the form for redriving the letters that a filter selects, with the filter filled
// in. A retry begins with a canary.
func Redrive(action string, filter url.Values) string {
	q := url.Values{"action": {action}}
	for name, values := range filter {
		q["filter."+name] = values
	}
	if action == "retry" {
		q.Set("canary.count", "10")
		q.Set("canary.watch_seconds", "30")
		q.Set("stop_on.failure_ratio", "0.1")
	}
	return "/ui/redrives/new?" + q.Encode()
}
