package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

var lists = []contract{
	{"every filter alone and combined selects exactly its sagas, newest first", listFilters},
	{"pages by offset and by cursor, of any size, make up the whole list", listPages},
	{"a cursor keeps its place while sagas are added", listGrowing},
	{"a list is walked completely in every order, each saga once, while others are added and end", listOrders},
	{"metadata is matched by containment", listMetadata},
	{"counting stops at the cap", listCapped},
	{"a tenant without sagas has an empty list", listEmpty},
}

// library stores sagas of one tenant in every state. Every field that can be filtered by has many
// values, and creation times are equal or a microsecond apart.
func library(f *fixture) []saga.Saga {
	base := f.now().Add(-time.Hour)
	refund := *f.def
	refund.Name = "refund"
	if _, _, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, &refund, false, f.now()); err != nil {
		f.t.Fatal(err)
	}
	pick := func(values []string, i int) *string { return new(values[i%len(values)]) }
	var all []saga.Saga
	for i := range 36 {
		run := f.into(saga.States[i%len(saga.States)], func(n *saga.NewSaga) {
			n.CreatedAt = base.Add(time.Duration(i/4%5) * time.Microsecond).Add(time.Duration(i/20) * time.Minute)
			if i%3 == 0 {
				n.WorkflowName = "refund"
			}
			n.InitiatedBy = *pick([]string{"checkout", "Checkout", "поток ☃"}, i)
			if i%5 > 0 {
				n.CorrelationID = pick([]string{"c", "C", "c%", "кор 𝄞", "c'; --"}, i/2)
				n.TraceID = pick([]string{"t1", "t2"}, i/3)
				n.BusinessKey = pick([]string{"b1", "b2", "№3"}, i/4)
				if !saga.States[i%len(saga.States)].Terminal() {
					n.BusinessKey = new(fmt.Sprintf("unfinished %d", i)) // it must be unique
				}
				n.Metadata = json.RawMessage(fmt.Sprintf(`{"n":%d,"team":"stock ñ"}`, i%4))
			}
		})
		all = append(all, f.load(run.ID).Saga)
	}
	slices.SortFunc(all, func(a, b saga.Saga) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return slices.Compare(b.ID[:], a.ID[:])
	})
	return all
}

func ids(sagas []saga.Saga) []uuid.UUID {
	out := make([]uuid.UUID, len(sagas))
	for i := range sagas {
		out[i] = sagas[i].ID
	}
	return out
}

func (f *fixture) list(filter saga.Filter) page.Of[saga.Saga] {
	f.t.Helper()
	found, err := f.Sagas.List(f.t.Context(), f.tenant.ID, filter)
	if err != nil {
		f.t.Fatalf("list %+v: %v", filter, err)
	}
	return found
}

// only returns the sagas for which keep returns true.
func only(sagas []saga.Saga, keep func(*saga.Saga) bool) []saga.Saga {
	return slices.DeleteFunc(slices.Clone(sagas), func(s saga.Saga) bool { return !keep(&s) })
}

func is(p *string, want string) bool { return p != nil && *p == want }

// filterCase is a filter and an independent expression of what it selects.
type filterCase struct {
	name   string
	filter saga.Filter
	keep   func(*saga.Saga) bool
}

func filterCases(f *fixture, all []saga.Saga) []filterCase {
	middle, updated := all[len(all)/2].CreatedAt, all[len(all)/3].UpdatedAt
	return []filterCase{
		{"nothing", saga.Filter{}, func(*saga.Saga) bool { return true }},
		{"a workflow", saga.Filter{WorkflowName: "refund"}, func(s *saga.Saga) bool { return s.WorkflowName == "refund" }},
		{"an unknown workflow", saga.Filter{WorkflowName: "refun_"}, func(s *saga.Saga) bool { return false }},
		{"a correlation id", saga.Filter{CorrelationID: "c"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "c") }},
		{"a correlation id with a wildcard", saga.Filter{CorrelationID: "c%"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "c%") }},
		{"a correlation id with a quote", saga.Filter{CorrelationID: "c'; --"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "c'; --") }},
		{"a correlation id beyond ASCII", saga.Filter{CorrelationID: "кор 𝄞"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "кор 𝄞") }},
		{"an initiator", saga.Filter{InitiatedBy: "поток ☃"}, func(s *saga.Saga) bool { return s.InitiatedBy == "поток ☃" }},
		{"a trace id", saga.Filter{TraceID: "t2"}, func(s *saga.Saga) bool { return is(s.TraceID, "t2") }},
		{"a business key", saga.Filter{BusinessKey: "№3"}, func(s *saga.Saga) bool { return is(s.BusinessKey, "№3") }},
		{"the beginning of a business key", saga.Filter{KeyPrefix: "b"}, func(s *saga.Saga) bool {
			return is(s.BusinessKey, "b1") || is(s.BusinessKey, "b2")
		}},
		{"a whole business key as its beginning", saga.Filter{KeyPrefix: "b2"}, func(s *saga.Saga) bool {
			return is(s.BusinessKey, "b2")
		}},
		{"more than a business key", saga.Filter{KeyPrefix: "b22"}, func(*saga.Saga) bool { return false }},
		{"a beginning beyond ASCII", saga.Filter{KeyPrefix: "№"}, func(s *saga.Saga) bool { return is(s.BusinessKey, "№3") }},
		{"no wildcard of LIKE", saga.Filter{KeyPrefix: "_"}, func(*saga.Saga) bool { return false }},
		{"a percent sign", saga.Filter{CorrelationPrefix: "c%"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "c%") }},
		{"a percent sign alone", saga.Filter{CorrelationPrefix: "%"}, func(*saga.Saga) bool { return false }},
		{"a backslash", saga.Filter{CorrelationPrefix: `c\`}, func(*saga.Saga) bool { return false }},
		{"a beginning with a quote", saga.Filter{CorrelationPrefix: "c'"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "c'; --") }},
		{"a beginning, by case", saga.Filter{CorrelationPrefix: "C"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "C") }},
		{"a beginning of four bytes", saga.Filter{CorrelationPrefix: "кор 𝄞"}, func(s *saga.Saga) bool { return is(s.CorrelationID, "кор 𝄞") }},
		{"the last of all characters", saga.Filter{CorrelationPrefix: "\U0010FFFF"}, func(*saga.Saga) bool { return false }},
		{
			"two beginnings and a state",
			saga.Filter{KeyPrefix: "b", CorrelationPrefix: "c", States: []saga.State{saga.Completed}},
			func(s *saga.Saga) bool {
				return s.State == saga.Completed && (is(s.BusinessKey, "b1") || is(s.BusinessKey, "b2")) &&
					(*s.CorrelationID)[0] == 'c'
			},
		},
		{"metadata", saga.Filter{Metadata: json.RawMessage(`{"n":2}`)}, func(s *saga.Saga) bool { return canonical(s.Metadata) == `{"n":2,"team":"stock ñ"}` }},
		{"needing attention", saga.Filter{NeedsAttention: new(true)}, func(s *saga.Saga) bool { return s.State == saga.Failed }},
		{"not needing attention", saga.Filter{NeedsAttention: new(false)}, func(s *saga.Saga) bool { return s.State != saga.Failed }},
		{"a version", saga.Filter{WorkflowName: "order", WorkflowVersion: 1}, func(s *saga.Saga) bool {
			return s.WorkflowName == "order" && s.WorkflowVersion == 1
		}},
		{"no such version", saga.Filter{WorkflowVersion: 77}, func(*saga.Saga) bool { return false }},
		{"what seed 4 calls failed", saga.Filter{Lifecycles: []string{"failed"}}, func(s *saga.Saga) bool {
			return s.State == saga.Failed || s.State.Terminal() && s.State != saga.Completed && !*s.Clean
		}},
		{"what seed 4 calls active or completed", saga.Filter{Lifecycles: []string{"active", "completed"}}, func(s *saga.Saga) bool {
			return s.State.Forward() || s.State == saga.Completed || s.State.Terminal() && s.State != saga.Failed && *s.Clean
		}},
		{"no state at all", saga.Filter{States: []saga.State{}}, func(*saga.Saga) bool { return false }},
		{"created from", saga.Filter{CreatedFrom: middle}, func(s *saga.Saga) bool { return !s.CreatedAt.Before(middle) }},
		{"created to", saga.Filter{CreatedTo: middle}, func(s *saga.Saga) bool { return s.CreatedAt.Before(middle) }},
		{"created within a microsecond", saga.Filter{CreatedFrom: middle, CreatedTo: middle.Add(time.Microsecond)}, func(s *saga.Saga) bool { return s.CreatedAt.Equal(middle) }},
		{"updated from", saga.Filter{UpdatedFrom: updated}, func(s *saga.Saga) bool { return !s.UpdatedAt.Before(updated) }},
		{"updated to", saga.Filter{UpdatedTo: updated}, func(s *saga.Saga) bool { return s.UpdatedAt.Before(updated) }},
		{"updated within a microsecond", saga.Filter{UpdatedFrom: updated, UpdatedTo: updated.Add(time.Microsecond)}, func(s *saga.Saga) bool { return s.UpdatedAt.Equal(updated) }},
		{
			"a workflow, ended states and an initiator", saga.Filter{WorkflowName: "order", States: []saga.State{saga.Completed, saga.Failed, saga.Cancelled},
				InitiatedBy: "Checkout"},
			func(s *saga.Saga) bool {
				return s.WorkflowName == "order" && s.State.Terminal() && s.State != saga.Compensated && s.State != saga.TimedOut &&
					s.InitiatedBy == "Checkout"
			},
		},
		{
			"everything at once", saga.Filter{
				WorkflowName:  "order",
				States:        saga.States,
				CorrelationID: "C",
				InitiatedBy:   "checkout",
				TraceID:       "t1",
				BusinessKey:   "b2",
				Metadata:      json.RawMessage(`{"team":"stock ñ"}`), NeedsAttention: new(false),
				CreatedFrom: all[len(all)-1].CreatedAt,
				CreatedTo:   f.now(),
				UpdatedFrom: all[len(all)-1].CreatedAt,
				UpdatedTo:   f.now(),
			},
			func(s *saga.Saga) bool {
				return s.WorkflowName == "order" && is(s.CorrelationID, "C") && s.InitiatedBy == "checkout" &&
					is(s.TraceID, "t1") &&
					is(s.BusinessKey, "b2") && s.Metadata != nil &&
					!s.NeedsAttention
			},
		},
	}
}

// textCases returns every filter by a text field of sagas for each existing value: a new filter is
// compared with its rule without needing a case of its own.
func textCases(all []saga.Saga) []filterCase {
	var out []filterCase
	of := reflect.TypeFor[saga.Filter]()
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Type.Kind() != reflect.String {
			continue
		}
		seen := map[string]bool{}
		for j := range all {
			value := reflect.Indirect(reflect.ValueOf(&all[j]).Elem().FieldByName(field.Name))
			if !value.IsValid() || value.String() == "" || seen[value.String()] {
				continue
			}
			seen[value.String()] = true
			var f saga.Filter
			reflect.ValueOf(&f).Elem().Field(i).SetString(value.String())
			out = append(out, filterCase{field.Name + " " + value.String(), f, f.Matches})
		}
	}
	return out
}

func listFilters(f *fixture) {
	all := library(f)
	texts := textCases(all)
	if len(texts) < 5 {
		f.t.Fatalf("only %d filters by text were found", len(texts))
	}
	for _, tt := range append(filterCases(f, all), texts...) {
		f.t.Run(tt.name, func(t *testing.T) {
			f := f.in(t)
			tt.filter.Limit, tt.filter.Total = 200, true
			want := only(all, tt.keep)
			if diff := cmp.Diff(ids(want), ids(only(all, tt.filter.Matches))); diff != "" {
				t.Errorf("selected sagas (-want +got):\n%s", diff)
			}
			found := f.list(tt.filter)
			if diff := cmp.Diff(want, found.Items); diff != "" && (len(want) > 0 || len(found.Items) > 0) {
				t.Errorf("sagas (-want +got):\n%s", diff)
			}
			if found.Total != int64(len(want)) || found.More {
				t.Errorf("total %d, more %v; want %d, false", found.Total, found.More, len(want))
			}
		})
	}
	// Every set of states is tried: live and ended sagas are merged for each.
	for set := range 1 << len(saga.States) {
		states := []saga.State{}
		for _, s := range saga.States {
			if set>>s&1 == 1 {
				states = append(states, s)
			}
		}
		want := only(all, func(s *saga.Saga) bool { return slices.Contains(states, s.State) })
		found := f.list(saga.Filter{States: states, ByTime: page.ByTime{Limit: 200, Total: true}})
		if !slices.Equal(ids(want), ids(found.Items)) || found.Total != int64(len(want)) {
			f.t.Errorf("states %v: got %d sagas of %d, want %d", states, len(found.Items), found.Total, len(want))
		}
	}
}

func listPages(f *fixture) {
	all := library(f)
	order := only(all, func(s *saga.Saga) bool { return s.WorkflowName == "order" })
	for _, size := range []int{1, 2, 5, len(order) - 1, len(order), len(order) + 1} {
		for _, mode := range []string{"offset", "cursor"} {
			filter := saga.Filter{WorkflowName: "order", ByTime: page.ByTime{Limit: size, Total: true}}
			var got []saga.Saga
			for range len(order) + 1 {
				found := f.list(filter)
				got = append(got, found.Items...)
				if found.Total != int64(len(order)) {
					f.t.Errorf("pages of %d by %s: total %d, want %d", size, mode, found.Total, len(order))
				}
				if more := len(got) < len(order); found.More != more || more && len(found.Items) != size {
					f.t.Errorf(
						"pages of %d by %s: %d sagas, more %v after %d of %d",
						size,
						mode,
						len(found.Items),
						found.More,
						len(got),
						len(order),
					)
				}
				if !found.More {
					break
				}
				if mode == "offset" {
					filter.Offset += size
				} else {
					last := found.Items[len(found.Items)-1]
					filter.After = &page.TimeID{At: last.CreatedAt, ID: last.ID}
				}
			}
			if diff := cmp.Diff(ids(order), ids(got)); diff != "" {
				f.t.Errorf("pages of %d by %s (-want +got):\n%s", size, mode, diff)
			}
		}
	}
	beyond := saga.Filter{ByTime: page.ByTime{Limit: 5, Offset: len(all)}}
	if found := f.list(beyond); len(found.Items) > 0 || found.More || found.Total != 0 {
		f.t.Errorf("beyond the end: %+v", found)
	}
}

func listGrowing(f *fixture) {
	for range 4 {
		f.stored(f.unowned())
	}
	before := f.list(saga.Filter{ByTime: page.ByTime{Limit: 10}}).Items
	first := f.list(saga.Filter{ByTime: page.ByTime{Limit: 2}})
	last := first.Items[1]
	f.stored(f.unowned(), f.unowned())
	rest := f.list(saga.Filter{ByTime: page.ByTime{Limit: 10, After: &page.TimeID{At: last.CreatedAt, ID: last.ID}}})
	if diff := cmp.Diff(ids(before[2:]), ids(rest.Items)); diff != "" {
		f.t.Errorf("after the cursor (-before +after two were added):\n%s", diff)
	}
}

func listMetadata(f *fixture) {
	f.stored(f.unowned(), f.unowned(func(n *saga.NewSaga) {
		n.Metadata = json.RawMessage(
			`{"a":1.0,"tags":["x",{"y":[1,2]},null],"nested":{"deep":{"flag":true,"text":"ñ"}},"none":null}`,
		)
	}))
	for query, want := range map[string]int{
		`{}`:                                1,
		`{"a":1}`:                           1,
		`{"a":1.00}`:                        1,
		`{"a":"1"}`:                         0,
		`{"a":2}`:                           0,
		`{"b":1}`:                           0,
		`{"none":null}`:                     1,
		`{"nothing":null}`:                  0,
		`{"tags":["x"]}`:                    1,
		`{"tags":[]}`:                       1,
		`{"tags":["z"]}`:                    0,
		`{"tags":"x"}`:                      0,
		`{"tags":[{"y":[2]}]}`:              1,
		`{"tags":[{"y":2}]}`:                0,
		`{"nested":{"deep":{"flag":true}}}`: 1,
		`{"nested":{"flag":true}}`:          0,
		`{"nested":{}}`:                     1,
		`{"nested":{"deep":{"text":"ñ"}},"a":1}`: 1,
	} {
		found := f.list(saga.Filter{Metadata: json.RawMessage(query), ByTime: page.ByTime{Limit: 10}})
		if got := len(found.Items); got != want {
			f.t.Errorf("%s finds %d sagas, want %d", query, got, want)
		}
	}
}

func listCapped(f *fixture) {
	for range 6 {
		f.stored(f.unowned())
	}
	cursor := func(after int) *page.TimeID {
		last := f.list(saga.Filter{ByTime: page.ByTime{Limit: 6}}).Items[after-1]
		return &page.TimeID{At: last.CreatedAt, ID: last.ID}
	}
	since := f.now().Add(-24 * time.Hour)
	for _, tt := range []struct {
		name   string
		filter saga.Filter
		total  int64
		capped bool
	}{
		{"before the end", saga.Filter{ByTime: page.ByTime{Limit: 2, TotalCap: 4}}, 4, true},
		{"one before the end", saga.Filter{ByTime: page.ByTime{Limit: 2, TotalCap: 5}}, 5, true},
		{"at the end", saga.Filter{ByTime: page.ByTime{Limit: 2, TotalCap: 6}}, 6, false},
		{"beyond it", saga.Filter{ByTime: page.ByTime{Limit: 2, TotalCap: 7}}, 6, false},
		{"nowhere", saga.Filter{ByTime: page.ByTime{Limit: 2}}, 6, false},
		{"before the end, where the page reaches it", saga.Filter{ByTime: page.ByTime{Limit: 2, Offset: 4, TotalCap: 6}}, 6, false},
		{"beyond the end, as the page", saga.Filter{ByTime: page.ByTime{Limit: 2, Offset: 8, TotalCap: 6}}, 6, false},
		{"before the end, after a cursor", saga.Filter{ByTime: page.ByTime{Limit: 2, After: cursor(2), TotalCap: 5}}, 5, true},
		{"at the end, on the last page after a cursor", saga.Filter{ByTime: page.ByTime{Limit: 2, After: cursor(4), TotalCap: 6}}, 6, false},
		{"before the end of a list by the last change", saga.Filter{ByTime: page.ByTime{Limit: 2, TotalCap: 3}, UpdatedFrom: since}, 3, true},
	} {
		f.t.Run(tt.name, func(t *testing.T) {
			tt.filter.Total = true
			found := f.in(t).list(tt.filter)
			for range 20 { // on a busy machine, counting may stop because it takes too long
				if found.TotalCapped == tt.capped {
					break
				}
				found = f.in(t).list(tt.filter)
			}
			if found.Total != tt.total || found.TotalCapped != tt.capped {
				t.Errorf("total %d, capped %v; want %d, %v", found.Total, found.TotalCapped, tt.total, tt.capped)
			}
		})
	}
}

func listEmpty(f *fixture) {
	found := f.list(saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}})
	if len(found.Items) > 0 || found.More || found.Total != 0 {
		f.t.Errorf("page %+v, want an empty one", found)
	}
}
