package statistics

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestAnErrorIsOfASagaThatWentWrong(t *testing.T) {
	f := ErrorFilter{WorkflowName: "order"}
	for state, want := range map[saga.State]bool{saga.Completed: false, saga.Running: false, saga.Failed: true,
		saga.Cancelled: true} {
		if got := f.Matches(&saga.Saga{WorkflowName: "order", State: state}); got != want {
			t.Errorf("an error of a saga that is %s: %t, want %t", state, got, want)
		}
	}
	if !f.Matches(&saga.Saga{WorkflowName: "order", State: saga.Running, NeedsAttention: true}) {
		t.Error("an active saga that needs attention has gone wrong, too")
	}
}

func TestAGroupOfErrorsCountsItsSagas(t *testing.T) {
	t.Parallel()
	g := ErrorGroup{WorkflowName: "order", Code: "E"}
	for i, s := range []saga.Saga{
		{ID: uuid.UUID{2}, State: saga.Failed, NeedsAttention: true}, {ID: uuid.UUID{3}, State: saga.Cancelled},
		{ID: uuid.UUID{1}, State: saga.Failed},
	} {
		g.Add(&s, noon.Add(time.Duration([]int{1, 2, 0}[i])*time.Hour))
	}
	if g.Count != 3 || g.Attention != 1 || g.Sample != (uuid.UUID{3}) || len(g.States) != 2 ||
		g.States[0] != saga.Failed ||
		!g.First.Equal(noon) || !g.Last.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("%+v", g)
	}
	other := ErrorGroup{WorkflowName: "order", Code: "F"}
	if g.Compare(2, other.Key()) >= 0 || g.Compare(4, other.Key()) <= 0 || g.Compare(3, other.Key()) >= 0 ||
		g.Compare(3, g.Key()) != 0 || other.Compare(0, g.Key()) <= 0 {
		t.Error("the largest group is first, then by key")
	}
}
