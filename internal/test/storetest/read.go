package storetest

import (
	"encoding/json"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/explain"
)

var reads = []contract{
	{"a foreign or unknown saga does not exist", readForeign},
	{"loading leaves unknown ids out, names each saga once and keeps their logs apart", readLoad},
	{"step logs are read without content, or by their ids", readSomeOfLogs},
	{"step logs are ordered by step, start and attempt", readLogOrder},
	{"a caller that modifies what it has read does not change the store", readOwnCopy},
}

func readForeign(f *fixture) {
	run := f.into(saga.Running)
	neighbour := begin(f.t, f.Env)
	for what, tt := range map[string]struct{ tenant, id uuid.UUID }{
		"foreign": {neighbour.tenant.ID, run.ID}, "unknown": {f.tenant.ID, newID()}, "no tenant": {uuid.Nil, run.ID},
	} {
		s, err := f.Sagas.Get(f.t.Context(), tt.tenant, tt.id)
		f.wantFault(err, fault.NotFound, saga.CodeNotFound)
		if s.ID != uuid.Nil || s.Payload != nil {
			f.t.Errorf("%s: Get shows %+v", what, s)
		}
		if logs, err := f.Sagas.StepLogs(f.t.Context(), tt.tenant, tt.id, saga.Logs{}); err != nil || len(logs) > 0 {
			f.t.Errorf("%s: StepLogs = %v, %v; want none", what, logs, err)
		}
		found, err := f.Sagas.List(f.t.Context(), tt.tenant, saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}})
		if err != nil {
			f.t.Errorf("%s: List: %v", what, err)
		}
		if tt.tenant != f.tenant.ID && (len(found.Items) > 0 || found.Total > 0 || found.More) {
			f.t.Errorf("%s: List shows %+v", what, found)
		}
	}
	if s, err := f.Sagas.Get(f.t.Context(), f.tenant.ID, run.ID); err != nil || s.ID != run.ID {
		f.t.Errorf("its own tenant gets %s, %v", s.ID, err)
	}
}

func readSomeOfLogs(f *fixture) {
	for state := range f.endings() {
		run := f.ended(state, time.Hour, everything)
		read := func(want saga.Logs) ([]saga.StepLog, error) {
			return f.Sagas.StepLogs(f.t.Context(), f.tenant.ID, run.ID, want)
		}
		wantSomeOfLogs(f, read)
		whole, err := read(saga.Logs{})
		brief, other := read(saga.Logs{Brief: true})
		if err != nil || other != nil {
			f.t.Fatal(err, other)
		}
		s := f.load(run.ID).Saga
		of := func(logs []saga.StepLog) explain.Explanation {
			r := saga.Rebuild(s, run.Def, logs)
			return explain.Saga(&r, logs, true, f.now())
		}
		if diff := cmp.Diff(of(whole).Summary, of(brief).Summary); diff != "" {
			f.t.Errorf("%s: explained by brief logs (-whole +brief):\n%s", state, diff)
		}
	}
}

// wantSomeOfLogs compares a partial read of a saga's logs with all of them.
func wantSomeOfLogs(f *fixture, read func(saga.Logs) ([]saga.StepLog, error)) {
	f.t.Helper()
	all, err := read(saga.Logs{})
	if err != nil || len(all) < 2 {
		f.t.Fatal(all, err)
	}
	few, err := read(saga.Logs{IDs: []uuid.UUID{all[1].ID, newID()}})
	if err != nil || cmp.Diff(all[1:2], few, logFields) != "" {
		f.t.Errorf("by id: %+v, %v; want %+v", few, err, all[1])
	}
	brief, err := read(saga.Logs{Brief: true})
	explained, other := read(saga.Logs{Explained: true}) // all of them, if there are at most five errors
	if diff := cmp.Diff(brief, explained, logFields); diff != "" || other != nil {
		f.t.Errorf("explained (-brief +explained): %v\n%s", other, diff)
	}
	for i := range all {
		if all[i].Request = nil; all[i].Status != saga.LogSkipped {
			all[i].Response = nil
		}
	}
	if diff := cmp.Diff(all, brief, logFields); diff != "" || err != nil {
		f.t.Errorf("brief (-want +got): %v\n%s", err, diff)
	}
}

func readLoad(f *fixture) {
	a, b, c := f.into(saga.Compensated), f.into(saga.Pending), f.into(saga.Running)
	neighbour := begin(f.t, f.Env)
	d := neighbour.into(saga.Completed) // Load is for the engine, which sees all tenants
	loaded, err := f.Sagas.Load(f.t.Context(), append(f.refs(a.ID, newID(), b.ID, c.ID, a.ID), d.Ref()))
	if err != nil {
		f.t.Fatal(err)
	}
	logs := map[uuid.UUID]int{}
	for _, l := range loaded {
		logs[l.Saga.ID] += len(l.Logs)
		for _, log := range l.Logs {
			if log.SagaID != l.Saga.ID {
				f.t.Errorf("saga %s has a log of saga %s", l.Saga.ID, log.SagaID)
			}
		}
	}
	if diff := cmp.Diff(map[uuid.UUID]int{a.ID: 3, b.ID: 0, c.ID: 1, d.ID: 3}, logs); diff != "" || len(loaded) != 4 {
		f.t.Errorf("%d sagas, logs of each (-want +got):\n%s", len(loaded), diff)
	}
	if loaded, err := f.Sagas.Load(f.t.Context(), nil); err != nil || len(loaded) > 0 {
		f.t.Errorf("loading no ids: %d sagas, %v", len(loaded), err)
	}
}

func readLogOrder(f *fixture) {
	run := f.stored(f.owned(f.owner))[0]
	// The clock goes back between the attempts of the step label: the second attempt has the
	// earlier start.
	events := []saga.Event{f.done(`{}`), f.unanswered(), f.done(`{}`), f.refused(``), f.done(``)}
	first, second := events[1].(saga.Answered), events[2].(saga.Answered)
	first.StartedAt, second.StartedAt = second.StartedAt, first.StartedAt
	run = f.play(run, events[0], first, second, events[3], events[4])
	var got []string
	for _, l := range f.logsOf(run) {
		got = append(got, l.StepName+" "+string(l.Action)+" "+string(l.Status))
	}
	want := []string{
		"reserve EXECUTE SUCCESS", "reserve COMPENSATE SUCCESS",
		"label EXECUTE SUCCESS", "label EXECUTE TIMEOUT", "label COMPENSATE SKIPPED",
		"charge EXECUTE FAILED",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("logs (-want +got):\n%s", diff)
	}
}

func readOwnCopy(f *fixture) {
	run := f.stored(f.owned(f.owner, everything))[0]
	run = f.play(run, f.done(`{"a":1}`), f.unanswered())
	text := func() string { // it shares no memory with what was read
		f.t.Helper()
		b, err := json.Marshal(f.load(run.ID))
		if err != nil {
			f.t.Fatal(err)
		}
		return string(b)
	}
	before := text()
	s, err := f.Sagas.Get(f.t.Context(), f.tenant.ID, run.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	l := f.load(run.ID)
	found := f.list(saga.Filter{ByTime: page.ByTime{Limit: 1}})
	// run was written; the others were read.
	for _, s := range []*saga.Saga{&run.Saga, &s, &l.Saga, &found.Items[0]} {
		*s.CorrelationID, *s.LeaseOwner = "changed", 0
		*s.NextRunAt = s.NextRunAt.AddDate(1, 0, 0)
		copy(s.Payload, `"`)
	}
	for _, logs := range [][]saga.StepLog{l.Logs, f.logsOf(run)} {
		logs[0].Status = saga.LogFailed
		copy(logs[0].Response, `"`)
		*logs[0].CompletedAt = logs[0].CompletedAt.AddDate(1, 0, 0)
	}
	if diff := cmp.Diff(before, text()); diff != "" {
		f.t.Errorf("the saga has changed (-before +after):\n%s", diff)
	}
}
