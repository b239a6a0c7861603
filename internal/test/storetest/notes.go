package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

var notes = []contract{
	{"a note is stored with its event, and leaves the saga as it is", noteBeside},
	{"a note that was read before another was written is refused", noteStale},
	{"the outcome of a call in progress is stored whatever notes are written, and so are the notes", noteDuringAStep},
	{"the sagas of an assignee are listed, newest first, live and archived, in pages", noteAssignees},
	{"a note is visible only to its tenant", noteOfTenants},
}

// note edits the saga's current note.
func (f *fixture) note(s *saga.Saga, assignee, text string) error {
	f.t.Helper()
	have := f.noteOf(s.ID)
	after, changed := have.Edited(saga.NoteEdit{Assignee: &assignee, Text: &text})
	return f.Notes.PutNote(f.t.Context(), s.Noted(after, changed, "alice", "r1", "asked for", f.now()))
}

func (f *fixture) noteOf(id uuid.UUID) saga.Note {
	f.t.Helper()
	found, err := f.Notes.Notes(f.t.Context(), f.tenant.ID, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return found[id]
}

func noteBeside(f *fixture) {
	run := f.stored(f.unowned())[0]
	before := f.load(run.ID)
	for i, want := range []saga.Note{
		{Version: 1, Assignee: "ann", Text: "поток ☃"}, {Version: 2, Assignee: "bob", Text: "поток ☃"}, {Version: 3},
	} {
		if err := f.note(&run.Saga, want.Assignee, want.Text); err != nil {
			f.t.Fatal(err)
		}
		if got := f.noteOf(run.ID); got != want {
			f.t.Errorf("note %d: %+v, want %+v", i, got, want)
		}
	}
	if diff := cmp.Diff(before, f.load(run.ID)); diff != "" {
		f.t.Errorf("the saga (-before +after):\n%s", diff)
	}
	f.Settle(f.t)
	events, _, err := f.Trail.Events(f.t.Context(), f.tenant.ID, run.ID, trail.EventFilter{}, false, 0, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	var told []string
	for _, e := range events {
		if e.Type == eventtype.NoteChanged {
			told = append(told, fmt.Sprint(e.Actor, " ", e.RequestID, " ", string(e.Data)))
		}
	}
	if diff := cmp.Diff([]string{
		`alice r1 {"reason":"asked for","changed":["assignee","note"],"assignee":"ann"}`,
		`alice r1 {"reason":"asked for","changed":["assignee"],"assignee":"bob"}`,
		`alice r1 {"reason":"asked for","changed":["assignee","note"],"assignee":""}`,
	}, told); diff != "" {
		f.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func noteStale(f *fixture) {
	run := f.stored(f.unowned())[0]
	if err := f.note(&run.Saga, "ann", ""); err != nil {
		f.t.Fatal(err)
	}
	var stored atomic.Int64
	together(6, func(i int) {
		n := saga.Note{Version: 2, Assignee: fmt.Sprint("person ", i)}
		err := f.Notes.PutNote(f.t.Context(), run.Noted(n, []string{"assignee"}, "alice", "r1", "", f.now()))
		switch {
		case err == nil:
			stored.Add(1)
		case !fault.IsCode(err, saga.CodeStale):
			f.t.Errorf("note %d: %v", i, err)
		}
	})
	if n := stored.Load(); n != 1 || f.noteOf(run.ID).Version != 2 {
		f.t.Errorf("%d of 6 notes on the same version were stored; the note is %+v", n, f.noteOf(run.ID))
	}
	for _, version := range []int64{1, 2, 4} {
		n := run.Noted(saga.Note{Version: version}, []string{"note"}, "alice", "r1", "", f.now())
		f.wantFault(f.Notes.PutNote(f.t.Context(), n), fault.Conflict, saga.CodeStale)
	}
}

// noteDuringAStep: the engine has read the saga, and its call is under way. What it commits must
// still match what it has read, whatever notes have been written since.
func noteDuringAStep(f *fixture) {
	run := f.into(saga.Running)
	change := f.apply(run, f.done("1"))
	if err := f.note(&run.Saga, "ann", "looking into it"); err != nil {
		f.t.Fatal(err)
	}
	if err := f.commit(change)[0]; err != nil {
		f.t.Fatalf("the step was refused: %v", err)
	}
	runs := []saga.Instance{change.After}
	for i := range 8 { // this must hold for concurrent writes as well
		next := f.into(saga.Running)
		step := f.apply(next, f.done("1"))
		together(2, func(which int) {
			if which == 0 {
				if err := f.note(&next.Saga, "ann", fmt.Sprint("note ", i)); err != nil {
					f.t.Error(err)
				}
			} else if err := f.commit(step)[0]; err != nil {
				f.t.Errorf("the step was refused: %v", err)
			}
		})
		runs = append(runs, step.After)
	}
	for _, r := range runs {
		f.check(r)
		if n := f.noteOf(r.ID); n.Assignee != "ann" || n.Text == "" {
			f.t.Errorf("the note of %s is %+v", r.ID, n)
		}
	}
}

func noteAssignees(f *fixture) {
	all := library(f)
	want := map[string][]uuid.UUID{}
	for i := range all {
		who := []string{"ann", "Ann", "", "ann'; --"}[i%4]
		if err := f.note(&all[i], who, "n"); err != nil {
			f.t.Fatal(err)
		}
		if who != "" {
			want[who] = append(want[who], all[i].ID)
		}
	}
	for who, ids := range want {
		var got []uuid.UUID
		filter := saga.Filter{Assignee: who, ByTime: page.ByTime{Limit: 2, Total: true}}
		for {
			found := f.list(filter)
			if filter.After == nil && found.Total != int64(len(ids)) {
				f.t.Errorf("%s: %d sagas, want %d", who, found.Total, len(ids))
			}
			for i := range found.Items {
				got = append(got, found.Items[i].ID)
			}
			if !found.More {
				break
			}
			filter.After = new(found.Items[len(found.Items)-1].Place())
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			f.t.Errorf("%s (-want +got):\n%s", who, diff)
		}
	}
	for _, more := range []saga.Filter{
		{WorkflowName: "refund"}, {States: []saga.State{saga.Completed}}, {CorrelationID: "c"},
		{UpdatedFrom: all[0].CreatedAt}, {Metadata: all[1].Metadata}, {CreatedTo: all[len(all)/2].CreatedAt},
	} {
		keep := only(all, func(s *saga.Saga) bool {
			return f.noteOf(s.ID).Assignee == "ann" && more.Matches(s)
		})
		more.Assignee, more.Limit = "ann", 200
		found := f.list(more)
		if diff := cmp.Diff(ids(keep), ids(found.Items)); diff != "" {
			f.t.Errorf("%+v (-want +got):\n%s", more, diff)
		}
	}
	completed := only(all, func(s *saga.Saga) bool { return s.State == saga.Completed })
	f.archive(f.everythingEnded())
	for i := range completed {
		id := completed[i].ID
		n := f.noteOf(id)
		if n.Text != "n" {
			f.t.Errorf("the note of an archived saga is %+v", n)
		}
		found, err := f.Archive.ListArchived(f.t.Context(), f.tenant.ID,
			saga.Filter{Assignee: n.Assignee, ByTime: page.ByTime{Limit: 200}})
		if err != nil {
			f.t.Fatal(err)
		}
		listed := false
		for j := range found.Items {
			listed = listed || found.Items[j].Saga.ID == id
		}
		if !listed {
			f.t.Errorf("the archive does not list %s for %q", id, n.Assignee)
		}
		if n.Assignee != "" && len(only(f.list(saga.Filter{Assignee: n.Assignee, ByTime: page.ByTime{Limit: 200}}).Items,
			func(s *saga.Saga) bool { return s.ID == id })) > 0 {
			f.t.Errorf("%s is listed among live sagas", id)
		}
	}
}

func noteOfTenants(f *fixture) {
	run := f.stored(f.unowned())[0]
	if err := f.note(&run.Saga, "ann", "n"); err != nil {
		f.t.Fatal(err)
	}
	other := newID()
	found, err := f.Notes.Notes(f.t.Context(), other, run.ID)
	if err != nil || len(found) != 0 {
		f.t.Errorf("another tenant reads %v, %v", found, err)
	}
	list, err := f.Sagas.List(f.t.Context(), other, saga.Filter{Assignee: "ann", ByTime: page.ByTime{Limit: 10}})
	if err != nil || len(list.Items) != 0 {
		f.t.Errorf("another tenant lists %v, %v", list.Items, err)
	}
}
