package bulk

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	kind  = Kind{Name: "thing", Conflict: "CONFLICT"}
	seen3 = Seen{At: noon, Snapshot: "at the request", Count: 3}
)

func asked(above *int64) Head {
	return Head{State: Running, Version: 1, Cover: Cover{HaltsAbove: above}}
}

// This test checks how many items an operation may change, with and without a requested number, for
// operations that can and cannot be undone, and how the operation halts, for every number of items
// that it may find.
func TestAnOperationHaltsBeforeItTouchesTooMany(t *testing.T) {
	for name, tt := range map[string]struct {
		asked    *int64
		destroys bool
		above    *int64
	}{
		"any":                             {nil, false, nil},
		"any, for good":                   {nil, true, new(int64(3))},
		"more are meant":                  {new(int64(5)), false, new(int64(5))},
		"more are meant, for good":        {new(int64(5)), true, new(int64(3))},
		"as many":                         {new(int64(3)), false, new(int64(3))},
		"fewer are meant":                 {new(int64(2)), false, new(int64(2))},
		"fewer are meant, for good":       {new(int64(2)), true, new(int64(2))},
		"none is meant":                   {new(int64(0)), false, new(int64(0))},
		"none is meant, and all for good": {new(int64(0)), true, new(int64(0))},
	} {
		h := asked(tt.asked)
		h.Requested(seen3, tt.destroys)
		if *h.Expected != 3 || h.Snapshot != seen3.Snapshot || !same(h.HaltsAbove, tt.above) {
			t.Errorf("%s: %+v", name, h.Cover)
		}
		if too := tt.above != nil && *tt.above < 3; too != (h.State == Halted) || too != (h.Version == 2) {
			t.Errorf("%s: with 3 it is %s", name, h.State)
		}
		for found := range int64(7) {
			h := asked(tt.above)
			too := tt.above != nil && found > *tt.above
			if h.Halts(found) != too || too != (h.State == Halted) || too != (h.HaltReason == HaltExpected) ||
				h.EndedAt != nil {
				t.Errorf("%s: %d found: %s, %q", name, found, h.State, h.HaltReason)
			}
			if must := h.MustCount(0, found); must != (tt.above != nil) {
				t.Errorf("%s: counts before its first step: %t", name, must)
			}
			if must := h.MustCount(1, found); tt.above != nil && !must && 1+found > *tt.above {
				t.Errorf("%s: touches %d without a count", name, 1+found)
			}
			if !too {
				continue
			}
			if err := h.Moved(kind, Resume, noon); err != nil || *h.HaltsAbove != found || h.Halts(found) ||
				h.HaltReason != "" || h.Found != nil {
				t.Errorf("%s: resumed after %d: %+v, %v", name, found, h.Cover, err)
			}
			if !h.Halts(found + 1) {
				t.Errorf("%s: resumed for %d, it takes one more", name, found)
			}
		}
	}
}

func same(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

func TestWhatCanBeDoneToAnOperation(t *testing.T) {
	want := map[State]map[Verb]State{
		Running: {Cancel: Canceled}, Halted: {Cancel: Canceled, Resume: Running}, Completed: {}, Canceled: {},
	}
	for _, s := range States {
		for _, v := range Verbs {
			h := Head{State: s, Version: 4, Cover: Cover{Found: new(int64(9))}}
			next, may := want[s][v]
			err := h.Moved(kind, v, noon)
			switch f := fault.As(err); {
			case may && (err != nil || h.State != next || h.Version != 5 || next.Ended() != (h.EndedAt != nil)):
				t.Errorf("%s: %s: %+v, %v", s, v, h, err)
			case !may && (f == nil || f.Code != "CONFLICT" || h.State != s || h.Version != 4):
				t.Errorf("%s: %s: %+v, %v", s, v, h, err)
			}
		}
		if n := len((&Head{State: s}).Actions()); n != len(want[s]) {
			t.Errorf("%s: %d actions", s, n)
		}
	}
	h := Head{State: Canceled}
	if err := h.MustBe(kind, "changed", Running); err == nil || h.MustBe(kind, "changed", Canceled) != nil {
		t.Error(err)
	}
}

func TestTimesOnlyBoundWhereASnapshotIsLookedFor(t *testing.T) {
	if !Before("", noon).Equal(noon) || !Before("s", noon).Equal(noon.Add(Slack)) {
		t.Error(Before("", noon), Before("s", noon))
	}
}

func TestARequestIsRepeatedByOneWithItsHashOnly(t *testing.T) {
	for _, tt := range []struct {
		stored, asked string
		repeats       bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"", "b", true}, {"", "", true},
	} {
		h := Head{}
		if tt.stored != "" {
			h.RequestHash = []byte(tt.stored)
		}
		if h.Repeats([]byte(tt.asked)) != tt.repeats {
			t.Errorf("%q after %q: repeats %t", tt.asked, tt.stored, !tt.repeats)
		}
	}
}

func TestAHaltIsOnRecord(t *testing.T) {
	h := asked(new(int64(2)))
	h.ID, h.TenantID = uuid.UUID{5}, uuid.UUID{6}
	if !h.Halts(3) {
		t.Fatal("it does not halt")
	}
	want := operator.Action{
		ID: uuid.UUID{7}, TenantID: h.TenantID, At: noon, Kind: operator.SagaBulk, Subject: h.ID.String(), Verb: "halt",
		Detail: []byte(`{"found":3,"halt_reason":"expected","halts_above":2}`),
	}
	if diff := cmp.Diff(want, h.AuditHalt(uuid.UUID{7}, operator.SagaBulk, noon)); diff != "" {
		t.Error(diff)
	}
}
