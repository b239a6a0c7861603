package measure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func levelOf(t *testing.T, key string) peerLevel {
	t.Helper()
	for _, l := range peerLevels {
		if l.key == key {
			return l
		}
	}
	t.Fatalf("no level %s", key)
	return peerLevel{}
}

func TestCheckCalls(t *testing.T) {
	ten := calls{1, 1, 1}
	for i := 6; i < 6+7; i++ {
		ten[i] = 1
	}
	short := ten
	short[12] = 0
	for _, tt := range []struct {
		name, level string
		made        calls
		want        checkedCalls
	}{
		{"all once", "wait-16", calls{1, 1, 1}, checkedCalls{}},
		{"one again", "wait-16", calls{1, 3, 1}, checkedCalls{repeated: 2}},
		{"one missing", "wait-16", calls{1, 0, 1}, checkedCalls{wrong: 1}},
		{"one that must not be", "wait-16", calls{1, 1, 1, 0, 1, 0}, checkedCalls{wrong: 1, repeated: 1}},
		{"never called", "wait-16", calls{}, checkedCalls{wrong: 1}},
		{"all undone", "undo-16", calls{1, 1, 0, 1, 1, 1}, checkedCalls{undone: 1}},
		{"not undone", "undo-16", calls{1, 1, 0, 1, 0, 0}, checkedCalls{undone: 1, wrong: 1}},
		{"a third that is placed", "mixed-16", calls{1, 1, 1}, checkedCalls{}},
		{"a third that is undone", "mixed-16", calls{1, 1, 0, 1, 1, 1}, checkedCalls{undone: 1}},
		{"a third that is not undone", "mixed-16", calls{1, 1, 0, 1, 0, 1}, checkedCalls{undone: 1, wrong: 1}},
		{"placed and undone", "mixed-16", calls{1, 1, 1, 0, 1, 1}, checkedCalls{wrong: 1, repeated: 2}},
		{"ten steps", "wait-16-10-steps", ten, checkedCalls{}},
		{"nine of ten steps", "wait-16-10-steps", short, checkedCalls{wrong: 1}},
		{"ten of twenty steps", "wait-16-20-steps", ten, checkedCalls{wrong: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := levelOf(t, tt.level).checkCalls(map[string]calls{"A": tt.made}, []string{"A"})
			if (got.wrong > 0) != strings.HasPrefix(got.example, "order A called [") {
				t.Errorf("%d wrong, example %q", got.wrong, got.example)
			}
			got.example = ""
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(checkedCalls{})); diff != "" {
				t.Errorf("checkCalls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrdersMakeTheCallsThatAreChecked(t *testing.T) {
	for _, l := range peerLevels {
		h, id := &recorder{orders: map[string]calls{}}, []byte(`"order_id":"A"`)
		steps := l.orderSteps()
		for _, step := range steps {
			if _, err := h.record(step.action, id); err != nil {
				t.Errorf("%s: %s: %v", l.key, step.action, err)
			}
		}
		if l.last == refusePath {
			for _, step := range steps[:2] {
				if _, err := h.record(step.undo, id); err != nil {
					t.Errorf("%s: %s: %v", l.key, step.undo, err)
				}
			}
		}
		if c := l.checkCalls(h.orders, []string{"A"}); c.wrong > 0 || h.made != l.leastCalls(1) {
			t.Errorf("%s: %d calls, want %d; %s", l.key, h.made, l.leastCalls(1), c.example)
		}
	}
}

func TestLost(t *testing.T) {
	load := func(orders int) loaded { return loaded{LoadResult: LoadResult{Accepted: make([]string, orders)}} }
	failed, left, late := load(1200), load(1200), load(1200)
	failed.Errors, left.before, late.unfinished = 2, 2, 5
	for _, tt := range []struct {
		name    string
		load    loaded
		checked checkedCalls
		sagas   ended
		want    string
	}{
		{"nothing", load(1200), checkedCalls{}, ended{1200, 0}, ""},
		{"three", load(1200), checkedCalls{}, ended{1197, 0}, "lost 3 of 1,200"},
		{"one that ended otherwise", load(1200), checkedCalls{}, ended{1199, 1}, "lost 1 of 1,200"},
		{"a third undone", load(1200), checkedCalls{undone: 400}, ended{800, 400}, ""},
		{"one that was refused and completed", load(1200), checkedCalls{undone: 400}, ended{801, 399}, "lost 1 of 1,200"},
		{"one undone that was not refused", load(1200), checkedCalls{undone: 400}, ended{799, 401}, "lost 1 of 1,200"},
		{"calls", load(1200), checkedCalls{wrong: 2}, ended{1200, 0}, "wrong calls of 2 of 1,200"},
		{"both", load(1200), checkedCalls{wrong: 2}, ended{1199, 0}, "lost 1 of 1,200, wrong calls of 2 of 1,200"},
		{"sagas and their calls", load(1200), checkedCalls{wrong: 2}, ended{1198, 0}, "lost 2 of 1,200"},
		{"sagas twice", load(1200), checkedCalls{}, ended{1202, 0}, "2 more than the 1,200 orders that were placed"},
		{"orders whose requests failed", failed, checkedCalls{}, ended{1201, 1}, ""},
		{"orders of an earlier turn that ended", left, checkedCalls{}, ended{1202, 0}, ""},
		{"time", late, checkedCalls{}, ended{1200, 0}, "5 calls or sagas did not end"},
		{"time and sagas", late, checkedCalls{}, ended{1195, 0}, "lost 5 of 1,200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.load.lost(tt.checked, tt.sagas); got != tt.want {
				t.Errorf("lost = %q, want %q", got, tt.want)
			}
		})
	}
}
