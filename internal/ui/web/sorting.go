package web

import "strings"

// Head is the heading of a column by which a list can be sorted.
type Head struct {
	Label, Class string
	URL          string // URL of the list sorted by it, or reversed if it already is; "": not sortable now
	Sorted       string // value of aria-sort; "": the list is not sorted by it
}

// Head returns the heading for the column with the API's name by. Lists are sorted by their
// creation time unless the URL says otherwise. Times are sorted latest first, and texts in
// ascending order.
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

// isTime reports whether a list can be sorted by a time with that name.
func isTime(by string) bool { return strings.HasSuffix(by, "_at") || by == "scheduled_for" }

// Sorting returns what the list is sorted by, and whether it is in ascending order.
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

// Sorted describes in words how the list is sorted, for its caption.
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
