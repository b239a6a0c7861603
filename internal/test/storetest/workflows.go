package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var definitions = []contract{
	{"a registered definition reads back completely", workflowReadsBack},
	{"registering the content of an existing version creates no new version", workflowSameContent},
	{"twenty concurrent registrations create versions without gaps", workflowRace},
	{"twenty registrations of the same content create one version", workflowSameRace},
	{"a foreign or unknown workflow does not exist", workflowForeign},
	{"the list contains the latest version of each name, by name, in pages", workflowList},
	{"versions are listed newest first, in pages", workflowVersions},
	{"workflows created for inline steps are not listed", workflowInline},
	{"enabling and disabling count as revisions only when they change something", workflowEnable},
	{"If-Match on a former revision changes nothing", workflowIfMatch},
}

// variant is the fixture's definition with another name and description.
func (f *fixture) variant(name, description string) *workflow.Definition {
	d := *f.def
	d.Name, d.Description = name, description
	return &d
}

func (f *fixture) registered(d *workflow.Definition) workflow.Registered {
	f.t.Helper()
	r, created, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, d, false, f.now())
	if err != nil || !created {
		f.t.Fatalf("register: created %v, %v", created, err)
	}
	return r
}

func workflowReadsBack(f *fixture) {
	d := f.definition(`{
		"name": "every-field", "description": "with \"everything\" ☃", "timeout_ms": 1, "compensation_timeout_ms": 2,
		"retry": {"max_attempts": 3, "initial_interval_ms": 4, "max_interval_ms": 5, "multiplier": 1.5, "jitter": 0, "retry_on": []},
		"compensation_retry": {"jitter": 0.25, "retry_on": ["timeout", "network"]},
		"steps": [
			{"name": "b", "depends_on": ["a"], "action": {"http": {"method": "PUT", "url": "https://x/b?q=<1>&r=2"}}, "compensation": "none", "timeout_ms": 7},
			{"name": "a", "action": {"http": {"url": "http://x/a", "headers": {"X-Team": "stock", "X-B": "ñ"}}},
			 "compensation": {"http": {"method": "DELETE", "url": "http://x/a"}}, "retry": {"max_attempts": 8}, "compensation_retry": {"max_attempts": 9}}
		]}`)
	at := f.now()
	r, created, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, d, true, at)
	if err != nil {
		f.t.Fatal(err)
	}
	d.Written = nil // the stored definition doesn't record how the client ordered the steps
	want := workflow.Registered{
		TenantID: f.tenant.ID, Name: "every-field", Version: 1, Definition: d, CreatedAt: at, Inline: true,
		Latest: 1, Enabled: true, Revision: 1, UpdatedAt: at,
	}
	if diff := cmp.Diff(want, r); diff != "" || !created {
		f.t.Errorf("created %v (-given +returned):\n%s", created, diff)
	}
	for _, version := range []int{0, 1} {
		got, err := f.Workflows.Get(f.t.Context(), f.tenant.ID, "every-field", version)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			f.t.Errorf("version %d, %v (-given +read):\n%s", version, err, diff)
		}
		if err == nil && string(got.Definition.Hash()) != string(d.Hash()) {
			f.t.Errorf("version %d does not have the hash of what was registered", version)
		}
	}
}

func workflowSameContent(f *fixture) {
	first := f.registered(f.variant("w", "1"))
	second := f.registered(f.variant("w", "2"))
	if first.Version != 1 || second.Version != 2 || second.Latest != 2 || second.Revision != 2 {
		f.t.Errorf(
			"versions %d and %d, latest %d, revision %d; want 1, 2, 2, 2",
			first.Version,
			second.Version,
			second.Latest,
			second.Revision,
		)
	}
	for range 2 {
		r, created, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, f.variant("w", "1"), false, f.now())
		if err != nil || created || r.Definition.Description != "1" {
			f.t.Errorf("again: %+v, created %v, %v", r, created, err)
		}
		got := [3]int{r.Version, r.Latest, int(r.Revision)}
		if got != [3]int{1, 2, 2} || !r.UpdatedAt.Equal(second.UpdatedAt) {
			f.t.Errorf("again: version, latest and revision %v of %s; want version 1 as it was", got, r.UpdatedAt)
		}
	}
}

func workflowRace(f *fixture) {
	versions := make([]int, 20)
	together(len(versions), func(i int) {
		r, created, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, f.variant("w", fmt.Sprint(i)), false, f.now())
		if err != nil || !created || r.Definition.Description != fmt.Sprint(i) {
			f.t.Errorf("registration %d: %+v, created %v, %v", i, r, created, err)
		}
		versions[i] = r.Version
	})
	slices.Sort(versions)
	for i, v := range versions {
		if v != i+1 {
			f.t.Fatalf("versions %v", versions)
		}
	}
	if r, err := f.Workflows.Get(f.t.Context(), f.tenant.ID, "w", 0); err != nil || r.Version != 20 || r.Latest != 20 ||
		r.Revision != 20 {
		f.t.Errorf("latest %+v, %v; want version and revision 20", r, err)
	}
}

func workflowSameRace(f *fixture) {
	made := make([]bool, 20)
	together(len(made), func(i int) {
		r, created, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, f.variant("w", "same"), false, f.now())
		if err != nil || r.Version != 1 {
			f.t.Errorf("version %d, %v; want 1", r.Version, err)
		}
		made[i] = created
	})
	if n := len(slices.DeleteFunc(made, func(created bool) bool { return !created })); n != 1 {
		f.t.Errorf("%d registrations report that they created the version, want one", n)
	}
}

func workflowForeign(f *fixture) {
	f.registered(f.variant("mine", ""))
	for what, tt := range map[string]struct {
		tenant  uuid.UUID
		name    string
		version int
	}{
		"foreign":          {newID(), "mine", 0},
		"unknown":          {f.tenant.ID, "mine2", 0},
		"unknown version":  {f.tenant.ID, "mine", 2},
		"negative version": {f.tenant.ID, "mine", -1},
	} {
		f.t.Run(what, func(t *testing.T) {
			f := f.in(t)
			_, err := f.Workflows.Get(t.Context(), tt.tenant, tt.name, tt.version)
			f.wantFault(err, fault.NotFound, workflow.CodeNotFound)
			if tt.version != 0 {
				return
			}
			_, err = f.Workflows.Versions(t.Context(), tt.tenant, tt.name, page.Request[int]{Limit: 10})
			f.wantFault(err, fault.NotFound, workflow.CodeNotFound)
			_, err = f.Workflows.SetEnabled(t.Context(), tt.tenant, tt.name, false, 0, f.now())
			f.wantFault(err, fault.NotFound, workflow.CodeNotFound)
		})
	}
	ten := workflow.Filter{Request: page.Request[string]{Limit: 10, Total: true}}
	if found, err := f.Workflows.List(f.t.Context(), newID(), ten); err != nil || len(found.Items) > 0 ||
		found.Total != 0 {
		f.t.Errorf("a foreign tenant's list: %+v, %v; want an empty one", found, err)
	}
	if r, err := f.Workflows.Get(f.t.Context(), f.tenant.ID, "mine", 0); err != nil || !r.Enabled {
		f.t.Errorf("its own tenant gets %+v, %v", r, err)
	}
}

// readWorkflows reads a page of a listing.
type readWorkflows[C any] func(page.Request[C]) (page.Of[workflow.Registered], error)

// walk reads all pages of a listing and returns "name version" of each row.
func walk[C any](f *fixture, next page.Request[C], place func(workflow.Registered) C, read readWorkflows[C]) []string {
	f.t.Helper()
	next.Total = true
	var got []string
	for range 100 {
		found, err := read(next)
		if err != nil {
			f.t.Fatalf("%+v: %v", next, err)
		}
		for _, r := range found.Items {
			got = append(got, fmt.Sprint(r.Name, " ", r.Version))
		}
		if !found.More {
			if found.Total != int64(len(got)) {
				f.t.Errorf("%+v: total %d, want %d", next, found.Total, len(got))
			}
			return got
		}
		if place == nil {
			next.Offset += len(found.Items)
		} else {
			next.After = new(place(found.Items[len(found.Items)-1]))
		}
	}
	f.t.Fatalf("%+v: the listing does not end", next)
	return nil
}

// wantWalks reads a listing in pages of several sizes, by cursor and by offset.
func wantWalks[C any](f *fixture, place func(workflow.Registered) C, read readWorkflows[C], want ...string) {
	f.t.Helper()
	for _, size := range []int{1, 2, len(want), 200} {
		for mode, place := range map[string]func(workflow.Registered) C{"offset": nil, "cursor": place} {
			if diff := cmp.Diff(want, walk(f, page.Request[C]{Limit: size}, place, read)); diff != "" {
				f.t.Errorf("pages of %d by %s (-want +got):\n%s", size, mode, diff)
			}
		}
	}
}

func workflowList(f *fixture) {
	for _, name := range []string{"beta", "alpha", "delta", "alpha", "gamma"} {
		f.registered(f.variant(name, newID().String()))
	}
	if _, err := f.Workflows.SetEnabled(f.t.Context(), f.tenant.ID, "delta", false, 0, f.now()); err != nil {
		f.t.Fatal(err)
	}
	list := func(enabled *bool) readWorkflows[string] {
		return func(p page.Request[string]) (page.Of[workflow.Registered], error) {
			return f.Workflows.List(f.t.Context(), f.tenant.ID, workflow.Filter{Enabled: enabled, Request: p})
		}
	}
	byName := func(r workflow.Registered) string { return r.Name }
	wantWalks(f, byName, list(nil), "alpha 2", "beta 1", "delta 1", "gamma 1", "order 1")
	wantWalks(f, byName, list(new(true)), "alpha 2", "beta 1", "gamma 1", "order 1")
	wantWalks(f, byName, list(new(false)), "delta 1")
	for name, want := range map[string][]string{"*": {"alpha 2", "beta 1", "delta 1", "gamma 1", "order 1"},
		"alpha": {"alpha 2"}, "a*": {"alpha 2"}, "al": nil, "%": nil, "_*": nil, "alphabet*": nil} {
		got, err := f.Workflows.List(f.t.Context(), f.tenant.ID,
			workflow.Filter{Name: name, Request: page.Request[string]{Limit: 9}})
		var names []string
		for _, r := range got.Items {
			names = append(names, fmt.Sprint(r.Name, " ", r.Version))
		}
		if diff := cmp.Diff(want, names); err != nil || diff != "" {
			f.t.Errorf("workflows %s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func workflowVersions(f *fixture) {
	for i := range 11 { // versions are ordered as numbers: 10 comes after 9
		f.registered(f.variant("w", fmt.Sprint(i)))
	}
	var want []string
	for v := 11; v > 0; v-- {
		want = append(want, fmt.Sprint("w ", v))
	}
	wantWalks(f, func(r workflow.Registered) int { return r.Version },
		func(p page.Request[int]) (page.Of[workflow.Registered], error) {
			return f.Workflows.Versions(f.t.Context(), f.tenant.ID, "w", p)
		},
		want...)
	if found, err := f.Workflows.Versions(f.t.Context(), f.tenant.ID, "w",
		page.Request[int]{Limit: 10, After: new(1)}); err != nil ||
		len(found.Items) > 0 ||
		found.More {
		f.t.Errorf("after the oldest version: %+v, %v; want an empty page", found, err)
	}
}

func workflowInline(f *fixture) {
	d := f.variant("inline-1", "")
	if _, created, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, d, true, f.now()); err != nil || !created {
		f.t.Fatalf("register: created %v, %v", created, err)
	}
	found, err := f.Workflows.List(f.t.Context(), f.tenant.ID,
		workflow.Filter{Request: page.Request[string]{Limit: 10, Total: true}})
	if err != nil || len(found.Items) != 1 || found.Items[0].Name != "order" || found.Total != 1 {
		f.t.Errorf("list: %+v, %v; want the workflow order alone", found, err)
	}
	if r, err := f.Workflows.Get(f.t.Context(), f.tenant.ID, "inline-1", 1); err != nil || !r.Inline {
		f.t.Errorf("get: %+v, %v; want the inline one", r, err)
	}
}

func (f *fixture) setEnabled(enabled bool, revision int64) (workflow.Registered, error) {
	return f.Workflows.SetEnabled(f.t.Context(), f.tenant.ID, f.def.Name, enabled, revision, f.now())
}

func workflowEnable(f *fixture) {
	before, err := f.Workflows.Get(f.t.Context(), f.tenant.ID, f.def.Name, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, tt := range []struct {
		enabled  bool
		revision int64
	}{{true, 1}, {false, 2}, {false, 2}, {true, 3}, {true, 3}} {
		at := f.now()
		r, err := f.setEnabled(tt.enabled, 0)
		if err != nil || r.Enabled != tt.enabled || r.Revision != tt.revision || r.Version != 1 {
			f.t.Errorf("enabled %v: %+v, %v; want revision %d", tt.enabled, r, err, tt.revision)
		}
		if changed := r.Revision != before.Revision; changed != r.UpdatedAt.After(at) {
			f.t.Errorf("revision %d was updated at %v; the time before the call was %v", r.Revision, r.UpdatedAt, at)
		}
		before = r
	}
}

func workflowIfMatch(f *fixture) {
	for _, revision := range []int64{2, -1} {
		_, err := f.setEnabled(false, revision)
		f.wantFault(err, fault.Precondition, workflow.CodeStale)
	}
	if r, err := f.setEnabled(false, 1); err != nil || r.Enabled || r.Revision != 2 {
		f.t.Errorf("at its revision: %+v, %v; want disabled at 2", r, err)
	}
	_, err := f.setEnabled(true, 1)
	f.wantFault(err, fault.Precondition, workflow.CodeStale)
	f.registered(f.variant(f.def.Name, "a new version is a new revision"))
	_, err = f.setEnabled(true, 2)
	f.wantFault(err, fault.Precondition, workflow.CodeStale)
	if r, err := f.setEnabled(true, 3); err != nil || !r.Enabled || r.Revision != 4 {
		f.t.Errorf("at its revision: %+v, %v; want enabled at 4", r, err)
	}
}
