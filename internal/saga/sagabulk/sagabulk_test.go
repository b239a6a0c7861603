package sagabulk_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func running(rate float64) sagabulk.Bulk {
	b := sagabulk.Bulk{Head: bulk.Head{ID: uuid.UUID{7}, Version: 1, State: bulk.Running, Actor: "ann",
		CreatedAt: noon}, Action: saga.Cancel, Rate: rate, Filter: &saga.Filter{}}
	b.Pace()
	return b
}

func TestTheRateIsKeptWhateverTheTimeBetweenSteps(t *testing.T) {
	for _, rate := range []float64{0.25, 1, 7, 1000} {
		b := running(rate)
		if n := b.Room(noon, 100); n != 1 {
			t.Errorf("at %v a second the first step has room for %d, want 1", rate, n)
		}
		total := 0
		for ms := 0; ms <= 20_000; ms += 37 {
			now := noon.Add(time.Duration(ms) * time.Millisecond)
			n := b.Room(now, 100_000)
			b.Advance(make([]sagabulk.Item, n), nil, true, now)
			total += n
		}
		if want := 20*rate + 1; float64(total) > want || float64(total) < 0.95*want-1 {
			t.Errorf("at %v a second 20 s took %d, want %v", rate, total, want)
		}
	}
	b := running(10)
	if n := b.Room(noon.Add(time.Hour), 100_000); n != 10 {
		t.Errorf("after an hour without a leader it has room for %d, want those of one second", n)
	}
	if n := b.Room(noon.Add(time.Hour), 3); n != 3 {
		t.Errorf("%d, more than the limit", n)
	}
	if unlimited := running(0); unlimited.Room(noon, 100) != 100 {
		t.Error("a bulk without a rate has no room")
	}
}

func TestAFilterIsNarrowedToWhatCanAcceptTheAction(t *testing.T) {
	for _, action := range sagabulk.Actions() {
		b := sagabulk.Bulk{Action: action, Filter: &saga.Filter{}}
		if err := sagabulk.Check(&b); err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		if action == saga.Acknowledge {
			if b.Filter.NeedsAttention == nil || !*b.Filter.NeedsAttention || b.Filter.States != nil {
				t.Errorf("acknowledge takes %+v", b.Filter)
			}
			continue
		}
		for _, state := range saga.States {
			s := saga.Saga{State: state, Attempt: 1, Failures: 1, NextRunAt: &noon}
			if state == saga.Failed {
				s.Interventions = &saga.Interventions{Halted: true}
			}
			suspended := s
			suspended.SuspendedAt = &noon
			accepted := slices.Contains(s.AllowedActions(), string(action)) ||
				slices.Contains(suspended.AllowedActions(), string(action))
			if takes := slices.Contains(b.Filter.States, state); accepted && !takes {
				t.Errorf("%s leaves out sagas that are %s, which accept it", action, state)
			}
		}
		only := sagabulk.Bulk{Action: action, Filter: &saga.Filter{States: []saga.State{saga.Completed, b.Filter.States[0]}}}
		if err := sagabulk.Check(&only); err != nil || !slices.Equal(only.Filter.States, b.Filter.States[:1]) {
			t.Errorf("%s of %v: %v, %v", action, b.Filter.States[:1], only.Filter.States, err)
		}
		ended := sagabulk.Bulk{Action: action, Filter: &saga.Filter{States: []saga.State{saga.Completed}}}
		if err := sagabulk.Check(&ended); !fault.IsCode(err, sagabulk.CodeInvalid) {
			t.Errorf("%s of completed sagas: %v", action, err)
		}
	}
	calm := sagabulk.Bulk{Action: saga.Acknowledge, Filter: &saga.Filter{NeedsAttention: new(false)}}
	if err := sagabulk.Check(&calm); !fault.IsCode(err, sagabulk.CodeInvalid) {
		t.Errorf("acknowledge of sagas that need no attention: %v", err)
	}
}

func TestIDsAreTakenOnceInOrder(t *testing.T) {
	b := running(0)
	b.Filter, b.IDs = nil, []uuid.UUID{{3}, {1}, {2}, {1}}
	if err := sagabulk.Check(&b); err != nil || len(b.IDs) != 3 {
		t.Fatal(b.IDs, err)
	}
	var seen []uuid.UUID
	for more := true; more; {
		var ids []uuid.UUID
		ids, more = b.NextIDs(2)
		items := make([]sagabulk.Item, len(ids))
		for i, id := range ids {
			items[i] = sagabulk.Refused(id, saga.NotFound(id), noon)
		}
		b.Advance(items, nil, more, noon)
		seen = append(seen, ids...)
	}
	if !slices.Equal(seen, []uuid.UUID{{1}, {2}, {3}}) || b.State != bulk.Completed || b.Skipped != 3 ||
		b.Version != 2 || b.Steps != 2 {
		t.Errorf("%v, %+v", seen, b)
	}
}

func TestABulkEndsOnceAndIsPacedAnew(t *testing.T) {
	b := running(1)
	b.Before = noon
	if f := b.Scope(5); !f.CreatedTo.Equal(noon) || f.Limit != 5 {
		t.Errorf("it selects %+v", f)
	}
	b.Snapshot = "what was there"
	if f := b.Scope(5); !f.CreatedTo.Equal(noon.Add(bulk.Slack)) || f.Snapshot != b.Snapshot {
		t.Errorf("it selects %+v", f)
	}
	if err := b.SetRate(50, noon.Add(time.Minute)); err != nil || b.Rate != 50 || b.Version != 2 {
		t.Errorf("%+v, %v", b, err)
	}
	if n := b.Room(noon.Add(time.Minute+100*time.Millisecond), 100); n != 5 {
		t.Errorf("100 ms after the change there is room for %d, want 5", n)
	}
	place := &page.TimeID{At: noon, ID: uuid.UUID{9}}
	b.Advance([]sagabulk.Item{{Outcome: sagabulk.Done}}, place, true, noon)
	if b.Cursor != place || b.Done != 1 || b.State != bulk.Running {
		t.Errorf("%+v", b)
	}
	if changed, err := b.Moved(bulk.Cancel, noon); !changed || err != nil || b.State != bulk.Canceled {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := b.Moved(bulk.Cancel, noon); !fault.IsCode(err, sagabulk.CodeConflict) {
		t.Errorf("canceled twice: %v", err)
	}
	if err := b.SetRate(1, noon); !fault.IsCode(err, sagabulk.CodeConflict) {
		t.Errorf("changed after its end: %v", err)
	}
}

// A compensation cannot be reverted, so such a bulk halts if it finds more sagas than were counted.
func TestWhatUndoesHaltsAboveTheNumberOfItsRequest(t *testing.T) {
	for _, action := range sagabulk.Actions() {
		b := sagabulk.Bulk{Action: action, Head: bulk.Head{State: bulk.Running, Version: 1}}
		b.Requested(bulk.Seen{At: noon, Snapshot: "s", Count: 3})
		undoes := action == saga.Cancel || action == saga.CompensateVerb
		if (b.HaltsAbove != nil) != undoes || *b.Expected != 3 || !b.Before.Equal(noon) || b.Snapshot != "s" {
			t.Errorf("%s: %+v", action, b.Head)
		}
	}
}
