package web

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// List is what the pages of lists share: tabs, filters and the way to the next page. Filters are parameters of the
// page's URL, with the names that the API gives them. The API rejects unknown parameters.
type List struct {
	Tabs    []Tab
	Filters []Filter
	Total   string // "1,204" or "10,000+"; empty: unknown
	Next    string // URL of the next page; empty: this is the last
	First   string // URL of the first page; empty: this is it
	Clear   string // URL without filters; empty: there are none
	Chips   []Chip // the filters that are set
	// Kept are the parameters that a form of the filters has to send as well.
	Kept  []Option
	asked url.Values
}

// Tab is a list with certain filters, or a part of a page.
type Tab struct {
	Name, URL string
	Current   bool
	Count     string // beside the name; empty: none
}

// Filter is a form field for a parameter of the API.
type Filter struct {
	Name, Label, Hint string
	Options           []Option // of a select; nil: text
	// Time accepts a distance from now, such as "-24h" or "-7d", besides what the API accepts.
	Time  bool
	Value string
}

// Chip is a parameter of the URL that is set, and the URL without it.
type Chip struct{ Name, Label, Value, Without string }

// View is a tab and the filters that it stands for.
type View struct {
	Name   string
	Filter url.Values
}

// NewList reads the URL of a list. The filters of views are not fields of their own.
func (v *Visit) NewList(views []View, filters []Filter) *List {
	l := &List{asked: url.Values{}}
	for name, values := range v.URL.Query() {
		for _, value := range values {
			if value != "" { // a field that was left empty
				l.asked.Add(name, value)
			}
		}
	}
	var own []string // parameters of views
	for _, view := range views {
		for name := range view.Filter {
			own = append(own, name)
		}
	}
	for _, f := range filters {
		f.Value = l.asked.Get(f.Name)
		if f.Value != "" {
			l.Clear = "?" + only(l.asked, own).Encode()
			gone := "?" + without(l.asked, f.Name, "cursor").Encode()
			l.Chips = append(l.Chips, Chip{f.Name, f.Label, f.Value, gone})
		}
		l.Filters = append(l.Filters, f)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(own))) {
		for _, value := range l.asked[name] {
			l.Kept = append(l.Kept, Option{Value: value, Label: name})
		}
	}
	for _, view := range views {
		to, current := without(l.asked, append(own, "cursor")...), true
		for _, p := range own {
			current = current && slices.Equal(l.asked[p], view.Filter[p])
			if view.Filter[p] != nil {
				to[p] = view.Filter[p]
			}
		}
		l.Tabs = append(l.Tabs, Tab{Name: view.Name, URL: "?" + to.Encode(), Current: current})
	}
	if l.asked.Has("cursor") {
		l.First = "?" + without(l.asked, "cursor").Encode()
	}
	return l
}

// Sent are the parameters for the API: those of the URL, with distances in time as times. extra are pairs of names
// and values.
func (l *List) Sent(now time.Time, extra ...string) url.Values {
	sent := without(l.asked, "columns") // the page's own
	for _, f := range l.Filters {
		if !f.Time {
			continue
		}
		if at, ok := Relative(now, sent.Get(f.Name)); ok {
			sent.Set(f.Name, at.UTC().Format(time.RFC3339))
		}
	}
	for i := 0; i+1 < len(extra); i += 2 {
		sent.Set(extra[i], extra[i+1])
	}
	return sent
}

// Paged takes the total and the way to the next page from the API's answer.
func (l *List) Paged(p client.Pagination) {
	if t := p.TotalCount; t != nil {
		l.Total = Count(*t, p.TotalIsCapped != nil && *p.TotalIsCapped)
	}
	if next := p.NextCursor; next != nil {
		to := without(l.asked, "cursor")
		to.Set("cursor", *next)
		l.Next = "?" + to.Encode()
	}
}

// With is the URL of the list with one parameter changed; empty removes it.
func (l *List) With(name, value string) string {
	to := without(l.asked, name)
	if value != "" {
		to.Set(name, value)
	}
	return "?" + to.Encode()
}

// Value of a parameter of the URL; empty when it is absent.
func (l *List) Value(name string) string { return l.asked.Get(name) }

// Relative reads a time given as a distance from now, such as "-24h" or "-7d".
func Relative(now time.Time, text string) (time.Time, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		return now.Add(24 * d), err == nil
	}
	d, err := time.ParseDuration(text)
	return now.Add(d), err == nil
}

// without returns a copy of q without some of its parameters.
func without(q url.Values, names ...string) url.Values {
	out := url.Values{}
	for name, values := range q {
		if !slices.Contains(names, name) {
			out[name] = slices.Clone(values)
		}
	}
	return out
}

// only returns the parameters of q that have these names.
func only(q url.Values, names []string) url.Values {
	out := url.Values{}
	for _, n := range names {
		if q[n] != nil {
			out[n] = q[n]
		}
	}
	return out
}
