package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var archives = []contract{
	{"a saga is archived when the retention of its kind is over", archiveByAge},
	{"the retention of a workflow's latest version overrides the default", archiveByWorkflow},
	{"unfinished sagas and those that need attention are never archived", archiveOnlyEnded},
	{"a time given instead of a retention archives the sagas that ended before it", archiveBefore},
	{"at most limit sagas are archived, until none is left", archiveLimit},
	{"concurrent archivers share the work", archiveTogether},
	{"an archived saga is no longer live and reads back unchanged", archiveReads},
	{"an archived saga's id and idempotency key stay taken", archiveKeepsNames},
	{"the sagas to archive are counted by workflow, up to a cap", archiveCounts},
	{"another tenant's archive is not visible", archiveForeign},
	{"the archive is listed by the same filters, in the same order and pages", archiveLists},
}

var archivesOfAll = []contract{
	{"without a tenant all tenants' sagas are archived and counted", archiveAllTenants},
}

// endings maps each end state to the events that lead to it; the last event ends the saga.
func (f *fixture) endings() map[saga.State][]saga.Event {
	return map[saga.State][]saga.Event{
		saga.Completed:   {f.done(`{"n":1}`), f.done(`{"n":2}`), f.done(`{"n":3}`)},
		saga.Compensated: {f.done(`{"n":1}`), f.refused(`{"why":"no"}`), f.done(``)},
		saga.Failed:      {f.done(`{"n":1}`), f.refused(`{"why":"no"}`), f.refused(`{"why":"still no"}`)},
		saga.Cancelled:   {f.done(`{"n":1}`), saga.CancelRequested{By: "bob"}, f.refused(``), f.done(``)},
		saga.TimedOut:    {f.done(`{"n":1}`), saga.DeadlinePassed{}, f.refused(``), f.done(``)},
	}
}

// ended stores a saga that reached the end state some time ago.
func (f *fixture) ended(state saga.State, ago time.Duration, change ...func(*saga.NewSaga)) saga.Instance {
	f.t.Helper()
	at := f.now().Add(-ago)
	n := f.owned(
		f.owner,
		append([]func(*saga.NewSaga){func(n *saga.NewSaga) { n.CreatedAt = at.Add(-time.Minute) }}, change...)...)
	events := f.endings()[state]
	run := f.play(f.stored(n)[0], events[:len(events)-1]...)
	c := f.apply(run, events[len(events)-1])
	c.After.CompletedAt, c.After.UpdatedAt = &at, at
	if run = f.moved(c); run.State != state {
		f.t.Fatalf("the saga is %s, want %s", run.State, state)
	}
	return run
}

// archive archives the sagas of the fixture's tenant that e selects and returns their number.
func (f *fixture) archive(e saga.Expiry) int {
	f.t.Helper()
	e.Tenant = f.tenant.ID
	total := 0
	for {
		n, err := f.Archive.ArchiveExpired(f.t.Context(), e, 100)
		if err != nil {
			f.t.Fatalf("archive: %v", err)
		}
		if total += n; n == 0 {
			return total
		}
	}
}

// everythingEnded selects every saga that may be archived at all.
func (f *fixture) everythingEnded() saga.Expiry { return saga.Expiry{Before: f.now().Add(time.Hour)} }

// wantArchived checks that exactly these of the sagas are in the archive and that the others are
// live.
func (f *fixture) wantArchived(all map[string]saga.Instance, want ...string) {
	f.t.Helper()
	var got []string
	for name, run := range all {
		_, live := f.Sagas.Get(f.t.Context(), f.tenant.ID, run.ID)
		_, archived := f.Archive.GetArchived(f.t.Context(), f.tenant.ID, run.ID, saga.Logs{})
		if (live == nil) == (archived == nil) {
			f.t.Errorf("%s: live %v, archived %v; want exactly one", name, live, archived)
		}
		if archived == nil {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		f.t.Errorf("archived (-want +got):\n%s", diff)
	}
}

func archiveByAge(f *fixture) {
	const day = 24 * time.Hour
	all := map[string]saga.Instance{}
	for _, state := range []saga.State{saga.Completed, saga.Compensated, saga.Cancelled, saga.TimedOut} {
		for _, days := range []int{1, 40, 100} {
			all[fmt.Sprintf("%s %d", state, days)] = f.ended(state, time.Duration(days)*day)
		}
	}
	for _, tt := range []struct {
		keep saga.Retention
		want []string // in addition to those of the previous line
	}{
		{saga.Retention{}, nil},
		{saga.Retention{Completed: 365 * day, Failed: 365 * day}, nil},
		{saga.Retention{Completed: 30 * day, Failed: 90 * day}, []string{"completed 40", "completed 100", "compensated 100", "cancelled 100", "timed_out 100"}},
		{saga.Retention{Failed: 30 * day}, []string{"compensated 40", "cancelled 40", "timed_out 40"}},
		{saga.Retention{Completed: time.Hour}, []string{"completed 1"}},
		{saga.Retention{Failed: time.Hour}, []string{"compensated 1", "cancelled 1", "timed_out 1"}},
	} {
		if n := f.archive(saga.Expiry{Default: tt.keep}); n != len(tt.want) {
			f.t.Errorf("kept %+v: %d were archived, want %v", tt.keep, n, tt.want)
		}
	}
	f.wantArchived(
		all,
		"completed 1",
		"completed 40",
		"completed 100",
		"compensated 1",
		"compensated 40",
		"compensated 100",
		"cancelled 1",
		"cancelled 40",
		"cancelled 100",
		"timed_out 1",
		"timed_out 40",
		"timed_out 100",
	)
}

// keep registers the next version of the fixture's workflow with a retention policy.
func (f *fixture) keep(name string, r *workflow.Retention) {
	f.t.Helper()
	def := *f.def
	def.Name, def.Retention = name, r
	if _, _, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, &def, false, f.now()); err != nil {
		f.t.Fatal(err)
	}
}

func ofWorkflow(name string) func(*saga.NewSaga) {
	return func(n *saga.NewSaga) { n.WorkflowName = name }
}

func archiveByWorkflow(f *fixture) {
	hour := time.Hour.Milliseconds()
	f.keep("short", &workflow.Retention{CompletedMS: hour, FailedMS: 2 * hour})
	f.keep("half", &workflow.Retention{FailedMS: hour})
	f.keep("ever", &workflow.Retention{CompletedMS: workflow.Forever, FailedMS: workflow.Forever})
	f.keep("changed", &workflow.Retention{CompletedMS: workflow.Forever})
	f.keep("unsaid", &workflow.Retention{CompletedMS: 1, FailedMS: 1})
	all := map[string]saga.Instance{}
	for _, name := range []string{"order", "short", "half", "ever", "changed", "unsaid"} {
		all[name+" completed"] = f.ended(saga.Completed, 90*time.Minute, ofWorkflow(name))
		all[name+" cancelled"] = f.ended(saga.Cancelled, 90*time.Minute, ofWorkflow(name))
	}
	f.keep("changed", &workflow.Retention{CompletedMS: hour}) // this applies to sagas of the previous version as well
	f.keep("unsaid", nil)
	day := saga.Expiry{Default: saga.Retention{Completed: 24 * time.Hour, Failed: 24 * time.Hour}}
	f.archive(day)
	want := []string{"short completed", "half cancelled", "changed completed"}
	f.wantArchived(all, want...)
	f.archive(saga.Expiry{Default: saga.Retention{Completed: time.Hour, Failed: time.Hour}})
	want = append(
		want,
		"order completed",
		"order cancelled",
		"half completed",
		"changed cancelled",
		"unsaid completed",
		"unsaid cancelled",
	)
	f.wantArchived(all, want...)
	f.archive(f.everythingEnded()) // whatever the policy says
	f.wantArchived(all, append(want, "short cancelled", "ever completed", "ever cancelled")...)
}

func archiveOnlyEnded(f *fixture) {
	all := map[string]saga.Instance{}
	for _, state := range saga.States {
		all[state.String()] = f.into(state)
	}
	all["failed long ago"] = f.ended(saga.Failed, 10_000*time.Hour)
	f.archive(f.everythingEnded())
	f.wantArchived(all, "completed", "compensated", "cancelled", "timed_out")
}

func archiveBefore(f *fixture) {
	all := map[string]saga.Instance{}
	for _, hours := range []int{1, 2, 3, 4} {
		all[fmt.Sprintf("cancelled %d", hours)] = f.ended(saga.Cancelled, time.Duration(hours)*time.Hour)
		all[fmt.Sprintf("completed %d", hours)] = f.ended(saga.Completed, time.Duration(hours)*time.Hour)
	}
	// A time is not before itself, so this archives nothing that ended at that time.
	if n := f.archive(saga.Expiry{Before: *all["completed 3"].CompletedAt,
		Default: saga.Retention{Completed: 1, Failed: 1}}); n != 3 {
		f.t.Errorf("%d were archived, want 3", n)
	}
	f.wantArchived(all, "completed 4", "cancelled 4", "cancelled 3")
}

func archiveLimit(f *fixture) {
	for range 4 {
		f.ended(saga.Completed, time.Hour)
		f.ended(saga.Cancelled, time.Hour)
	}
	e := f.everythingEnded()
	e.Tenant = f.tenant.ID
	for i, want := range []int{3, 3, 2, 0, 0} {
		if n, err := f.Archive.ArchiveExpired(f.t.Context(), e, 3); err != nil || n != want {
			f.t.Errorf("call %d archived %d, %v; want %d", i, n, err, want)
		}
	}
}

func archiveTogether(f *fixture) {
	for range 30 {
		f.ended(saga.Completed, time.Hour)
		f.ended(saga.Compensated, time.Hour)
	}
	e := f.everythingEnded()
	e.Tenant = f.tenant.ID
	moved := make([]int, 4)
	together(len(moved), func(i int) {
		for range 60 { // a call may find that other calls have locked all the remaining sagas
			n, err := f.Archive.ArchiveExpired(f.t.Context(), e, 5)
			if err != nil {
				f.t.Errorf("archive: %v", err)
				return
			}
			moved[i] += n
		}
	})
	found := f.listArchived(saga.Filter{ByTime: page.ByTime{Limit: 100, Total: true}})
	if sum := moved[0] + moved[1] + moved[2] + moved[3]; sum != 60 || found.Total != 60 {
		f.t.Errorf("archived %v, and the archive has %d; want 60 sagas, each archived once", moved, found.Total)
	}
}

func (f *fixture) getArchived(id uuid.UUID) saga.Archived {
	f.t.Helper()
	a, err := f.Archive.GetArchived(f.t.Context(), f.tenant.ID, id, saga.Logs{})
	if err != nil {
		f.t.Fatalf("get archived: %v", err)
	}
	return a
}

func archiveReads(f *fixture) {
	for state := range f.endings() {
		if state == saga.Failed { // it needs attention
			continue
		}
		run := f.ended(state, time.Hour, everything)
		before, logs := f.load(run.ID).Saga, f.logsOf(run)
		f.archive(f.everythingEnded())
		got := f.getArchived(run.ID)
		if diff := cmp.Diff(saga.Loaded{Saga: before, Logs: logs}, got.Loaded); diff != "" {
			f.t.Errorf("%s (-live +archived):\n%s", state, diff)
		}
		wantSomeOfLogs(f, func(want saga.Logs) ([]saga.StepLog, error) {
			a, err := f.Archive.GetArchived(f.t.Context(), f.tenant.ID, run.ID, want)
			return a.Logs, err
		})
		near(f, "time of archiving", &got.ArchivedAt, f.Now())
		if loaded, err := f.Sagas.Load(f.t.Context(), f.refs(run.ID)); err != nil || len(loaded) > 0 {
			f.t.Errorf("%s: still live: %v, %v", state, loaded, err)
		}
		if logs := f.logsOf(run); len(logs) > 0 {
			f.t.Errorf("%s: %d live logs", state, len(logs))
		}
		err := f.commit(saga.Change{Before: saga.Precondition{Version: before.Version, Epoch: before.LeaseEpoch},
			After: run})[0]
		f.wantFault(err, fault.Conflict, saga.CodeStale)
	}
	if found := f.list(saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}}); len(found.Items) > 0 || found.Total > 0 {
		f.t.Errorf("the live list has %d sagas", found.Total)
	}
	// A caller that modifies what it has read must not modify the store.
	got := f.listArchived(saga.Filter{ByTime: page.ByTime{Limit: 1}}).Items[0]
	copy(got.Saga.Payload, `"`)
	*got.Saga.CompletedAt = time.Time{}
	again := f.getArchived(got.Saga.ID)
	if again.Saga.CompletedAt.IsZero() || again.Saga.Payload[0] == '"' {
		f.t.Errorf("the archived saga has changed: %+v", again.Saga)
	}
}

func archiveKeepsNames(f *fixture) {
	key := f.key("k", "h")
	run := f.ended(saga.Completed, time.Hour, func(n *saga.NewSaga) { *n = withKey(*n, key) })
	f.archive(f.everythingEnded())
	if state, id, err := f.Sagas.Key(f.t.Context(), *key); err != nil || state != saga.KeySame || id != run.ID {
		f.t.Errorf("the key is %d for %s, %v; want the archived saga's", state, id, err)
	}
	again := f.unowned()
	again.ID = run.ID
	fresh := f.unowned()
	if results := f.create(again, fresh); results[0].Created != saga.IDTaken || results[1].Created != saga.Stored {
		f.t.Errorf("results %d, %d; want the id taken, the other stored", results[0].Created, results[1].Created)
	}
	if results := f.create(withKey(f.unowned(), key)); results[0].Created != saga.Replayed || results[0].Prior != run.ID {
		f.t.Errorf("result %+v; want a replay of the archived saga", results[0])
	}
}

func archiveCounts(f *fixture) {
	f.keep("ever", &workflow.Retention{CompletedMS: workflow.Forever, FailedMS: workflow.Forever})
	f.keep("refund", nil)
	for range 3 {
		f.ended(saga.Completed, time.Hour)
		f.ended(saga.Cancelled, time.Hour)
	}
	f.ended(saga.Compensated, time.Hour, ofWorkflow("refund"))
	f.ended(saga.Completed, time.Hour, ofWorkflow("ever"))
	f.ended(saga.Completed, time.Second, ofWorkflow("refund"))
	f.into(saga.Running)
	expired := func(name string, completed, failed int) saga.Expired {
		return saga.Expired{TenantID: f.tenant.ID, WorkflowName: name, Completed: completed, Failed: failed}
	}
	for _, tt := range []struct {
		name    string
		e       saga.Expiry
		maxEach int
		want    []saga.Expired
	}{
		{"by retention", saga.Expiry{Default: saga.Retention{Completed: time.Minute, Failed: time.Minute}},
			100, []saga.Expired{
				expired("order", 3, 3), expired("refund", 0, 1),
			}},
		{"by a time", f.everythingEnded(), 2, []saga.Expired{
			expired("ever", 1, 0), expired("order", 2, 2), expired("refund", 1, 1),
		}},
		{"forever", saga.Expiry{}, 100, nil},
	} {
		tt.e.Tenant = f.tenant.ID
		got, err := f.Archive.CountExpired(f.t.Context(), tt.e, tt.maxEach)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" && len(tt.want)+len(got) > 0 {
			f.t.Errorf("%s: %v, counts (-want +got):\n%s", tt.name, err, diff)
		}
	}
	f.wantArchived(map[string]saga.Instance{}) // counting changes nothing
	if found := f.listArchived(saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}}); found.Total != 0 {
		f.t.Errorf("%d sagas are in the archive", found.Total)
	}
}

func archiveForeign(f *fixture) {
	run := f.ended(saga.Completed, time.Hour)
	neighbour := begin(f.t, f.Env)
	if n := neighbour.archive(f.everythingEnded()); n != 0 {
		f.t.Errorf("a neighbour archived %d sagas", n)
	}
	f.archive(f.everythingEnded())
	_, err := f.Archive.GetArchived(f.t.Context(), neighbour.tenant.ID, run.ID, saga.Logs{})
	f.wantFault(err, fault.NotFound, saga.CodeNotFound)
	_, err = f.Archive.GetArchived(f.t.Context(), f.tenant.ID, newID(), saga.Logs{})
	f.wantFault(err, fault.NotFound, saga.CodeNotFound)
	all := saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}}
	if found := neighbour.listArchived(all); len(found.Items) > 0 || found.Total > 0 {
		f.t.Errorf("a neighbour lists %d sagas", found.Total)
	}
}

func archiveAllTenants(f *fixture) {
	neighbour := begin(f.t, f.Env)
	f.ended(saga.Completed, time.Hour)
	neighbour.ended(saga.Cancelled, time.Hour)
	e := saga.Expiry{Default: saga.Retention{Completed: time.Minute, Failed: time.Minute}}
	counts, err := f.Archive.CountExpired(f.t.Context(), e, 10)
	if err != nil || len(counts) != 2 {
		f.t.Errorf("counts %+v, %v; want one for each tenant", counts, err)
	}
	if n, err := f.Archive.ArchiveExpired(f.t.Context(), e, 10); err != nil || n != 2 {
		f.t.Errorf("archived %d, %v; want 2", n, err)
	}
}

func (f *fixture) listArchived(filter saga.Filter) page.Of[saga.Archived] {
	f.t.Helper()
	found, err := f.Archive.ListArchived(f.t.Context(), f.tenant.ID, filter)
	if err != nil {
		f.t.Fatalf("list archived %+v: %v", filter, err)
	}
	return found
}
