package jobrun_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/page"
)

// tenMinutes returns a backfill of ten slots, and its definition.
func tenMinutes() (jobrun.Backfill, *jobrun.Definition) {
	minutes := everyMinute()
	d := &jobrun.Definition{ID: uuid.UUID{3}, TenantID: uuid.UUID{2}, Spec: jobrun.Spec{Schedule: &minutes}}
	return jobrun.Backfill{
		Head:      bulk.Head{ID: uuid.UUID{7}, Version: 1, State: bulk.Running},
		From:      noon,
		To:        noon.Add(10 * time.Minute),
		Reprocess: jobrun.ReprocessNone,
		MaxActive: 3,
	}, d
}

func slot(i int) time.Time { return noon.Add(time.Duration(i) * time.Minute) }

func TestAStepOfABackfill(t *testing.T) {
	t.Parallel()
	ran := func(slots ...int) map[time.Time]jobrun.SlotState {
		states := map[time.Time]jobrun.SlotState{}
		for _, i := range slots {
			states[slot(i)] = jobrun.SlotState{Succeeded: true}
		}
		return states
	}
	for name, tt := range map[string]struct {
		active, limit int
		cursor        int // -1: none
		states        map[time.Time]jobrun.SlotState
		makes         []int // slots
		skips         int64
		reaches       int
		more          bool
		state         bulk.State
	}{
		"as many as there is room for":         {0, 100, -1, nil, []int{0, 1, 2}, 0, 2, false, bulk.Running},
		"beside those that run":                {2, 100, -1, nil, []int{0}, 0, 0, false, bulk.Running},
		"no room":                              {3, 100, -1, nil, nil, 0, -1, false, bulk.Running},
		"less room than none":                  {9, 100, -1, nil, nil, 0, -1, false, bulk.Running},
		"on from where it was":                 {0, 100, 7, nil, []int{8, 9}, 0, 9, false, bulk.Running},
		"skips what ran":                       {0, 100, -1, ran(0, 2), []int{1, 3, 4}, 2, 4, false, bulk.Running},
		"skips everything":                     {0, 100, 7, ran(8, 9), nil, 2, 9, false, bulk.Running},
		"looks at no more than it may":         {0, 2, -1, ran(0, 1), nil, 2, 1, true, bulk.Running},
		"has no more to do if there's no room": {0, 3, -1, nil, []int{0, 1, 2}, 0, 2, false, bulk.Running},
		"waits for its last runs":              {1, 100, 9, nil, nil, 0, 9, false, bulk.Running},
		"ends with them":                       {0, 100, 9, nil, nil, 0, 9, false, bulk.Completed},
	} {
		b, d := tenMinutes()
		if tt.cursor >= 0 {
			b.Cursor = new(slot(tt.cursor))
		}
		before := b
		step, err := b.NextStep(d, tt.active, tt.limit)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(step.Slots) > tt.limit {
			t.Errorf("%s: it wants to know of %d slots, and may look at %d", name, len(step.Slots), tt.limit)
		}
		runs, swept, changed := b.Take(&step, tt.states, d, settings, moment())
		var made []int
		for i := range runs {
			made = append(made, int(runs[i].ScheduledFor.Sub(noon)/time.Minute))
			if runs[i].BackfillID != b.ID {
				t.Errorf("%s: its run is of backfill %s", name, runs[i].BackfillID)
			}
		}
		if !slices.Equal(made, tt.makes) || b.Skipped != tt.skips || b.State != tt.state {
			t.Errorf("%s: it makes %v, and is %+v", name, made, b)
		}
		if want := (jobrun.Swept{Moved: len(made) + int(tt.skips), More: tt.more}); !cmp.Equal(swept, want) {
			t.Errorf("%s: %+v, want %+v", name, swept, want)
		}
		if tt.reaches >= 0 && (b.Cursor == nil || !b.Cursor.Equal(slot(tt.reaches))) || tt.reaches < 0 && b.Cursor != nil {
			t.Errorf("%s: it has come to %v, want slot %d", name, b.Cursor, tt.reaches)
		}
		if diff := cmp.Diff(before, b); (diff != "") != changed || changed != (b.Version == 2) {
			t.Errorf("%s: changed %v, version %d:\n%s", name, changed, b.Version, diff)
		}
		if ended := b.EndedAt != nil && b.EndedAt.Equal(moment().Now); ended != (b.State != bulk.Running) {
			t.Errorf("%s: it is %s and ended at %v", name, b.State, b.EndedAt)
		}
	}
}

// Whatever runs in the meantime, every slot is run once, step by step, and the backfill ends.
func TestABackfillComesToItsEnd(t *testing.T) {
	t.Parallel()
	for limit := 1; limit <= 11; limit++ {
		b, d := tenMinutes()
		active, made := 0, []time.Time(nil)
		for round := 0; b.State == bulk.Running; round++ {
			if round > 100 {
				t.Fatalf("limit %d: it does not end: %+v", limit, b)
			}
			step, err := b.NextStep(d, active, limit)
			if err != nil {
				t.Fatal(err)
			}
			runs, _, _ := b.Take(&step, nil, d, settings, moment())
			for i := range runs {
				made = append(made, runs[i].ScheduledFor)
			}
			if active += len(runs); active > b.MaxActive {
				t.Fatalf("limit %d: %d runs at once", limit, active)
			}
			active = max(0, active-round%3)
		}
		if len(made) != 10 || !slices.IsSortedFunc(made, time.Time.Compare) || len(slices.Compact(made)) != 10 {
			t.Errorf("limit %d: it made runs of %v", limit, made)
		}
	}
}

func TestABackfillWhoseJobMakesNoSlotsIsCanceled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*jobrun.Definition){
		"deleted":            func(d *jobrun.Definition) { d.DeletedAt = &noon },
		"without a schedule": func(d *jobrun.Definition) { d.Spec.Schedule = nil },
	} {
		for _, active := range []int{0, 2, 3} {
			b, d := tenMinutes()
			change(d)
			step, err := b.NextStep(d, active, 10)
			if err != nil || len(step.Slots) != 0 {
				t.Fatal(name, step, err)
			}
			want := b
			want.State, want.EndedAt, want.Version = bulk.Canceled, new(moment().Now), 2
			runs, swept, changed := b.Take(&step, nil, d, settings, moment())
			if diff := cmp.Diff(want, b); diff != "" {
				t.Errorf("%s, %d of its runs active (-want +got):\n%s", name, active, diff)
			}
			if len(runs) != 0 || !cmp.Equal(swept, jobrun.Swept{}) || !changed {
				t.Errorf("%s: %d runs, %+v, changed %t", name, len(runs), swept, changed)
			}
		}
	}
}

// A canceled backfill may be canceled again, to cancel its remaining runs.
func TestABackfillMayBeCanceledTwice(t *testing.T) {
	t.Parallel()
	for _, state := range bulk.States {
		head := bulk.Head{State: state, Version: 4}
		many, backfill := jobrun.Bulk{Head: head}, jobrun.Backfill{Head: head}
		changed, err := many.Moved(bulk.Cancel, noon)
		if state.Ended() != fault.IsCode(err, jobrun.CodeConflict) || changed == state.Ended() {
			t.Errorf("a bulk that is %s: %t, %v", state, changed, err)
		}
		changed, err = backfill.Moved(bulk.Cancel, noon)
		if (state == bulk.Completed) != fault.IsCode(err, jobrun.CodeConflict) || changed == state.Ended() {
			t.Errorf("a backfill that is %s: %t, %v", state, changed, err)
		}
	}
}

func TestTheRunsOfABulkAreOlderThanIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ asked, want time.Time }{
		"unless it says so":  {time.Time{}, noon},
		"older ones":         {noon.Add(-time.Hour), noon.Add(-time.Hour)},
		"none that it makes": {noon.Add(time.Hour), noon},
	} {
		b := jobrun.Bulk{Before: noon, Filter: jobrun.Filter{Queue: "q", CreatedTo: tt.asked}}
		if f, _ := b.Scope(9); !cmp.Equal(jobrun.Filter{Queue: "q", CreatedTo: tt.want}, f) {
			t.Errorf("%s: %+v", name, f)
		}
		b.Snapshot, b.Cursor = "what was there", &page.TimeID{At: noon}
		f, p := b.Scope(9)
		if name != "older ones" && !f.CreatedTo.Equal(noon.Add(bulk.Slack)) ||
			p.Snapshot != b.Snapshot || p.After != b.Cursor || p.Limit != 9 {
			t.Errorf("%s, by what was there: %+v, %+v", name, f, p)
		}
	}
}

func TestABulkCountsWhatItDealtWith(t *testing.T) {
	t.Parallel()
	b := jobrun.Bulk{Head: bulk.Head{State: bulk.Running, Version: 1}}
	found := page.Of[jobrun.Run]{More: true,
		Items: []jobrun.Run{{ID: uuid.UUID{2}, CreatedAt: noon}, {ID: uuid.UUID{1}, CreatedAt: noon.Add(-time.Hour)}}}
	b.Advance(found, 1, noon)
	want := jobrun.Bulk{
		Head:    bulk.Head{State: bulk.Running, Version: 2},
		Cursor:  &page.TimeID{At: noon.Add(-time.Hour), ID: uuid.UUID{1}},
		Matched: 2, Done: 1, Skipped: 1,
	}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("after a page:\n%s", diff)
	}
	b.Advance(page.Of[jobrun.Run]{}, 0, noon)
	want.State, want.Version, want.EndedAt = bulk.Completed, 3, &noon
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("after the last page, which is empty:\n%s", diff)
	}
}

// A backfill covers the slots of its request, whatever schedule its job has by then.
func TestABackfillKeepsTheSlotsOfItsRequest(t *testing.T) {
	t.Parallel()
	b, d := tenMinutes()
	slots, err := jobrun.CheckBackfill(&b, d, b.To)
	if err != nil || slots != 10 || *b.Expected != 10 || b.State != bulk.Running {
		t.Fatal(slots, err, b.Expected, b.State)
	}
	step, err := b.NextStep(d, 0, 100)
	if err != nil || len(step.Slots) != 10 {
		t.Fatal(step, err)
	}
	d.Spec.Schedule = &schedule.Spec{Type: schedule.HourlyAtMinute, Value: "0"}
	later, err := b.NextStep(d, 0, 100)
	if err != nil || !slices.Equal(step.Slots, later.Slots) {
		t.Errorf("after a change of the schedule it is for %v, %v", later.Slots, err)
	}
	few, d := tenMinutes()
	few.HaltsAbove = new(int64(9))
	if _, err := jobrun.CheckBackfill(&few, d, few.To); err != nil || few.State != bulk.Halted || *few.Found != 10 {
		t.Errorf("of more slots than expected: %s, %v", few.State, err)
	}
	if changed, err := few.Moved(bulk.Resume, noon); !changed || err != nil || few.State != bulk.Running {
		t.Errorf("resumed: %s, %v", few.State, err)
	}
}
