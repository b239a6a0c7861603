package web

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

// List is the common part of list pages: tabs, filters and the link to the next page. Filters are
// parameters of the page's URL with the same names as in the API. The API rejects unknown
// parameters.
type List struct {
	Tabs    []Tab
	Filters []Filter
	Total   string // "1,204" or "10,000+"; empty: unknown
	Next    string // URL of the next page; empty: this is the last one
	First   string // URL of the first page; empty: this is the first one
	Clear   string // URL without filters; empty: no filters are set
	Chips   []Chip // the filters that are set
	// Kept contains the parameters that a filter form must also send.
	Kept []Option
	// Few are the filters that are always shown; those in More are folded unless one of them is set.
	Few, More []Filter
	Opened    bool
	Submit    string // label of the filter button; empty: Filter
	Now       time.Time
	asked     url.Values
	implied   string // the order that a prefix filter implies
}

// Reading is a function of the generated client that reads a list; each such function has its own
// parameter type P.
type Reading[P any] func(ctx context.Context, params *P, edit ...client.RequestEditorFn) (*http.Response, error)

// Of returns the Reading of a list that belongs to the resource with an id.
func Of[P any](
	id uuid.UUID, read func(context.Context, uuid.UUID, *P, ...client.RequestEditorFn) (*http.Response, error),
) Reading[P] {
	return func(ctx context.Context, params *P, edit ...client.RequestEditorFn) (*http.Response, error) {
		return read(ctx, id, params, edit...)
	}
}

// ListPage reads the page of a list that the URL requests. The API receives the parameters from
// Sent, with 50 rows per page unless extra says otherwise.
func ListPage[T, P any](
	v *Visit, views []View, filters []Filter, read Reading[P], extra ...string,
) (*List, *T, error) {
	l, list, paged := v.NewList(views, filters), new(T), struct{ Pagination client.Pagination }{}
	sent := l.Sent(extra...)
	if !slices.Contains(extra, "page_size") {
		sent.Set("page_size", "50")
	}
	res, err := read(v.Context(), new(P), AsQuery(sent)) //nolint:bodyclose // into closes the body
	if err != nil {
		return nil, nil, err
	}
	if err := into(res, list, &paged); err != nil {
		return nil, nil, err
	}
	l.paged(paged.Pagination)
	return l, list, nil
}

// into decodes a response of the API into each of dst, or returns the problem as a *Refusal.
func into(res *http.Response, dst ...any) error {
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	refused := &Refusal{}
	if res.StatusCode != http.StatusOK {
		return cmp.Or(json.Unmarshal(body, &refused.Problem), error(refused))
	}
	for _, d := range dst {
		if err := json.Unmarshal(body, d); err != nil {
			return err
		}
	}
	return nil
}

// Tab is a list with certain filters, or a part of a page.
type Tab struct {
	Name, URL string
	Current   bool
	Count     string // shown next to the name; empty: none
}

// Parts contains the tabs of related pages, one of which is current.
func Parts(current string, pages ...Link) (all []Tab) {
	for _, page := range pages {
		all = append(all, Tab{Name: page.Name, URL: page.URL, Current: page.Name == current})
	}
	return all
}

// Filter is a form field for a parameter of the API.
type Filter struct {
	Name, Label, Hint string
	Options           []Option // options of a select; nil: a text field
	// Time means that the filter accepts a time relative to now, such as "-24h" or "-7d", in
	// addition to what the API accepts.
	Time bool
	// Prefix is the API's parameter for the beginning of a value, which is typed as "order-*". ""
	// means that there is none. A list with a prefix filter is sorted by the filter's name.
	Prefix string
	Value  string
}

// Chip is a parameter that is set in the URL, and the URL without it.
type Chip struct{ Name, Label, Value, Without string }

// View is a tab and the filters that it stands for.
type View struct {
	Name   string
	Filter url.Values
}

// NewList parses the URL of a list. The filters of views have no fields of their own.
func (v *Visit) NewList(views []View, filters []Filter) *List {
	l := &List{Now: v.Now, asked: url.Values{}}
	for name, values := range v.URL.Query() {
		for _, value := range values {
			if value != "" { // otherwise the field was left empty
				l.asked.Add(name, value)
			}
		}
	}
	v.take(l.asked, filters)
	for _, f := range filters {
		if begins := l.asked.Get(f.Prefix); f.Prefix != "" && begins != "" && !l.asked.Has(f.Name) {
			l.asked.Set(f.Name, begins+"*")
			l.asked.Del(f.Prefix)
		}
		if _, is := f.prefix(l.asked.Get(f.Name)); is && l.implied == "" {
			l.implied = f.Name
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
		for i, value := range l.asked[f.Name] {
			l.Clear = "?" + only(l.asked, own).Encode()
			to := without(l.asked, "cursor")
			to[f.Name] = slices.Delete(to[f.Name], i, i+1)
			l.Chips = append(l.Chips, Chip{f.Name, f.Label, value, "?" + to.Encode()})
		}
		l.Filters = append(l.Filters, f)
	}
	l.fold()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(own))) {
		for _, value := range l.asked[name] {
			l.Kept = append(l.Kept, Option{Value: value, Label: name})
		}
	}
	for _, name := range []string{"sort", "order"} {
		if l.asked.Has(name) {
			l.Kept = append(l.Kept, Option{Value: l.asked.Get(name), Label: name})
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

// prefix returns the prefix that values must have, if value requests a prefix.
func (f *Filter) prefix(value string) (string, bool) {
	begins, is := strings.CutSuffix(value, "*")
	return begins, is && f.Prefix != "" && begins != ""
}

// typed is the parameter of a field in which filters are typed, as in "workflow:order
// created:-24h".
const typed = "filter"

var typedFilter = regexp.MustCompile(`([^\s:]+):(?:"([^"]*)"|(\S*))`)

// take replaces typed filters with the parameters that they stand for, and redirects the visitor to
// the resulting URL. The API rejects names that it does not know.
func (v *Visit) take(asked url.Values, filters []Filter) {
	text := asked.Get(typed)
	if text == "" {
		return
	}
	found := typedFilter.FindAllStringSubmatch(text, -1)
	if strings.TrimSpace(typedFilter.ReplaceAllString(text, "")) != "" {
		return // not only filters: the API reports the unknown parameter
	}
	asked.Del(typed)
	for _, m := range found {
		asked.Set(parameter(m[1], filters), cmp.Or(m[2], m[3]))
	}
	v.canonical = v.URL.EscapedPath() + "?" + without(asked, "cursor").Encode()
}

// parameter returns the parameter that a typed name stands for. The name may be the parameter's
// own, its beginning ("created" for "created_from"), or its label.
func parameter(name string, filters []Filter) string {
	name = strings.ToLower(name)
	for _, f := range filters {
		if f.Name == name {
			return name
		}
	}
	for _, f := range filters {
		if strings.HasPrefix(f.Name, name+"_") || strings.EqualFold(f.Label, name) {
			return f.Name
		}
	}
	return name
}

// Sent returns the parameters for the API: those in the URL, with relative times converted to
// absolute ones. extra contains pairs of names and values; a name without a value is a parameter of
// the page, which is not sent to the API.
func (l *List) Sent(extra ...string) url.Values {
	sent := without(l.asked, "columns") // it belongs to the page
	if l.implied != "" {
		sent.Del("sort")
	}
	for _, f := range l.Filters {
		if begins, is := f.prefix(sent.Get(f.Name)); is {
			sent.Del(f.Name)
			sent.Set(f.Prefix, begins)
		}
		if !f.Time {
			continue
		}
		if at, ok := Relative(l.Now, sent.Get(f.Name)); ok {
			sent.Set(f.Name, at.UTC().Format(time.RFC3339))
		}
	}
	for pair := range slices.Chunk(extra, 2) {
		sent.Del(pair[0])
	}
	for pair := range slices.Chunk(extra, 2) {
		if pair[1] != "" {
			sent.Add(pair[0], pair[1])
		}
	}
	return sent
}

// usual is the number of filters that are always shown. The most frequently used ones come first.
const usual = 4

// fold divides the filters. A list with just one more than the usual number shows all of them.
func (l *List) fold() {
	l.Few = l.Filters
	if len(l.Filters) > usual+1 {
		l.Few, l.More = l.Filters[:usual], l.Filters[usual:]
	}
	l.Opened = slices.ContainsFunc(l.More, func(f Filter) bool { return f.Value != "" })
}

// paged takes the total and the link to the next page from the API's response.
func (l *List) paged(p client.Pagination) {
	if t := p.TotalCount; t != nil {
		l.Total = Count(*t, p.TotalIsCapped != nil && *p.TotalIsCapped)
	}
	if next := p.NextCursor; next != nil {
		to := without(l.asked, "cursor")
		to.Set("cursor", *next)
		l.Next = "?" + to.Encode()
	}
}

// With returns the URL of the list with one parameter changed; an empty value removes it.
func (l *List) With(name, value string) string {
	to := without(l.asked, name)
	if value != "" {
		to.Set(name, value)
	}
	return "?" + to.Encode()
}

// Value returns a parameter of the URL, or "" if it is absent.
func (l *List) Value(name string) string { return l.asked.Get(name) }

// Relative parses a time relative to now, such as "-24h" or "-7d".
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

// only returns the parameters of q that have the given names.
func only(q url.Values, names []string) url.Values {
	out := url.Values{}
	for _, n := range names {
		if q[n] != nil {
			out[n] = q[n]
		}
	}
	return out
}
