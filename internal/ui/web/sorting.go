package web

import "strings"

// Head is the heading of a column by which a list can be sorted.
type Head struct {
	Label, Class string
	URL          string // of the list sorted by it, or turned around if it is; "": it cannot be now
	Sorted       string // the value of aria-sort; "": the list is not sorted by it
}

// Head returns the heading of the column that the API calls by. Lists are sorted by the time of creation unless the
// URL says otherwise; times begin with the latest, texts with the first.
func (l *List) Head(by, label string) Head {
	h := Head{Label: label}
	if isTime(by) {
		h.Class = "time"
	}
	sort, ascending := l.Sorting()
	if l.implied != "" && by != l.implied {
		return h
	}
	to := without(l.asked, "sort", "order", "cursor")
	if by != createdAt && by != l.implied {
		to.Set("sort", by)
	}
	if sort == by {
		h.Sorted = "descending"
		if ascending {
			h.Sorted = "ascending"
		}
		if turned := !ascending; turned == isTime(by) {
			to.Set("order", map[bool]string{true: "asc", false: "desc"}[turned])
		}
	}
	h.URL = "?" + to.Encode()
	return h
}

const createdAt = "created_at"

// isTime reports whether a list can be sorted by a time of that name.
func isTime(by string) bool { return strings.HasSuffix(by, "_at") || by == "scheduled_for" }

// Sorting returns what the list is sorted by, and whether the smallest comes first.
func (l *List) Sorting() (by string, ascending bool) {
	by = l.implied
	if by == "" {
		if by = l.asked.Get("sort"); by == "" {
			by = createdAt
		}
	}
	if order := l.asked.Get("order"); order != "" {
		return by, order == "asc"
	}
	return by, !isTime(by)
}

// Sorted says in words how the list is sorted, for its caption.
func (l *List) Sorted() string {
	by, ascending := l.Sorting()
	switch {
	case by == createdAt && ascending:
		return "oldest first"
	case by == createdAt:
		return "newest first"
	case !isTime(by) && ascending:
		return "by " + Words(by)
	case !isTime(by):
		return "by " + Words(by) + ", backwards"
	}
	words := map[string]string{"completed_at": "end", "finished_at": "end", "scheduled_for": "time due"}[by]
	if ascending {
		return "earliest " + words + " first"
	}
	return "latest " + words + " first"
}
