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
)

func TestABulkCancelsWhatHasNotEndedAndRunsOnceMoreWhatHas(t *testing.T) {
	t.Parallel()
	for _, p := range points() {
		r := p.run()
		cancel := jobrun.Bulk{Head: bulk.Head{ID: uuid.UUID{7}, Actor: "ann", Reason: "enough"},
			Action: jobrun.BulkCancel}
		in, ask := cancel.Does(&r)
		if (in == nil) != p.state.Terminal() || ask != nil {
			t.Fatalf("%+v: a cancel does %v, %v", p, in, ask)
		}
		if in != nil {
			if _, err := jobrun.Apply(jobrun.Instance{Run: r, Spec: p.spec()}, in, moment()); err != nil {
				t.Fatalf("%+v: what a bulk does is refused: %v", p, err)
			}
		}
		rerun := jobrun.Bulk{Head: bulk.Head{ID: uuid.UUID{7}, Actor: "ann"}, Action: jobrun.BulkRerun}
		in, ask = rerun.Does(&r)
		if in != nil || (ask != nil) != p.state.Terminal() {
			t.Fatalf("%+v: a rerun does %v, %v", p, in, ask)
		}
	}
}

func TestWhatABulkRunsOnceMore(t *testing.T) {
	t.Parallel()
	r := underWay()
	r.State, r.Labels = jobrun.Failed, []string{"team=a"}
	b := jobrun.Bulk{Head: bulk.Head{ID: uuid.UUID{7}, Actor: "ann"}, Action: jobrun.BulkRerun}
	_, ask := b.Does(&r)
	again, _ := b.Does(&r)
	if again != nil || ask.Key != jobrun.BulkKey(b.ID, r.ID) {
		t.Errorf("its key is %q: the bulk would make it twice after a crash", ask.Key)
	}
	for policy, want := range map[jobrun.Policy]jobrun.Policy{
		jobrun.Forbid: jobrun.Queue, jobrun.Queue: jobrun.Queue, jobrun.Replace: jobrun.Replace, jobrun.Allow: jobrun.Allow,
		"": jobrun.Allow,
	} {
		d := jobrun.Definition{ID: r.DefinitionID, SpecVersion: 3,
			Spec: jobrun.Spec{Concurrency: policy, CommandName: "report"}}
		n := jobrun.New(&d, *ask, settings, moment())
		if n.Concurrency != want {
			t.Errorf("of a job whose policy is %q it has the policy %q, want %q", policy, n.Concurrency, want)
		}
		want := n
		want.Trigger, want.RetryOfRunID, want.InitiatedBy = jobrun.ByHand, r.ID, "ann"
		want.FailuresUsed, want.LossesUsed = 0, 0
		if diff := cmp.Diff(want, n); diff != "" {
			t.Errorf("the run (-want +got):\n%s", diff)
		}
		if n.Rights() != jobrun.AsAdmin {
			t.Errorf("it has the rights %s", n.Rights())
		}
		if diff := cmp.Diff([]string{"team=a"}, n.Labels); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTheFilterOfABulk(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		action jobrun.BulkAction
		states []jobrun.State
		want   []jobrun.State
		bad    bool
	}{
		"cancel":                  {jobrun.BulkCancel, nil, jobrun.ActiveStates, false},
		"cancel some":             {jobrun.BulkCancel, []jobrun.State{jobrun.Pending}, []jobrun.State{jobrun.Pending}, false},
		"cancel what has ended":   {jobrun.BulkCancel, []jobrun.State{jobrun.Pending, jobrun.Failed}, nil, true},
		"rerun":                   {jobrun.BulkRerun, nil, []jobrun.State{jobrun.Failed, jobrun.TimedOut}, false},
		"rerun others":            {jobrun.BulkRerun, []jobrun.State{jobrun.Skipped}, []jobrun.State{jobrun.Skipped}, false},
		"rerun what still runs":   {jobrun.BulkRerun, []jobrun.State{jobrun.Running}, nil, true},
		"rerun what is with none": {jobrun.BulkRerun, []jobrun.State{jobrun.Orphaned}, nil, true},
	} {
		b := jobrun.Bulk{Action: tt.action, Filter: jobrun.Filter{States: tt.states}}
		err := jobrun.CheckBulk(&b)
		if tt.bad != fault.IsCode(err, jobrun.CodeInvalid) || !tt.bad && !slices.Equal(b.Filter.States, tt.want) {
			t.Errorf("%s: %v of %v", name, err, b.Filter.States)
		}
	}
}

func TestWhichSlotsABackfillRuns(t *testing.T) {
	t.Parallel()
	type s = jobrun.SlotState
	for _, tt := range []struct {
		slot                    s
		none, failed, completed bool
	}{
		{s{}, true, true, true},
		{s{Active: true}, false, false, false},
		{s{Active: true, Failed: true, Succeeded: true}, false, false, false},
		{s{Failed: true}, false, true, true},
		{s{Succeeded: true}, false, false, true},
		{s{Succeeded: true, Failed: true}, false, false, true},
	} {
		for p, want := range map[jobrun.Reprocess]bool{jobrun.ReprocessNone: tt.none, jobrun.ReprocessFailed: tt.failed,
			jobrun.ReprocessCompleted: tt.completed} {
			if got := p.Wants(tt.slot); got != want {
				t.Errorf("%s wants a slot that is %+v: %v", p, tt.slot, got)
			}
		}
	}
}

func TestABackfillGoesThroughItsSlotsOnce(t *testing.T) {
	t.Parallel()
	minutes := everyMinute()
	compiled, err := minutes.Compile()
	if err != nil {
		t.Fatal(err)
	}
	b := jobrun.Backfill{From: noon, To: noon.Add(10 * time.Minute)}
	var all []time.Time
	for i := range 10 {
		all = append(all, noon.Add(time.Duration(i)*time.Minute))
	}
	for _, newest := range []bool{false, true} {
		for page := 1; page <= 11; page++ {
			b.NewestFirst, b.Cursor = newest, nil
			var got []time.Time
			for range 12 {
				next := b.Next(compiled, page)
				if len(next) == 0 {
					break
				}
				got = append(got, next...)
				b.Cursor = &got[len(got)-1]
			}
			want := slices.Clone(all)
			if newest {
				slices.Reverse(want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("newest first %v, %d at a time:\n%s", newest, page, diff)
			}
		}
	}
}

func TestTheRunOfABackfill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		overlap, policy, want jobrun.Policy
		priority, wantP       int
	}{
		{"", jobrun.Allow, jobrun.Allow, 0, -10},
		{"", "", jobrun.Allow, 5, -5},
		{"", jobrun.Forbid, jobrun.Queue, -jobrun.MaxPriority, -jobrun.MaxPriority},
		{"", jobrun.Replace, jobrun.Queue, 0, -10},
		{jobrun.Allow, jobrun.Forbid, jobrun.Allow, 0, -10},
	} {
		d := jobrun.Definition{ID: uuid.UUID{3}, TenantID: uuid.UUID{2},
			Spec: jobrun.Spec{Concurrency: tt.policy, Priority: tt.priority}}
		b := jobrun.Backfill{Head: bulk.Head{ID: uuid.UUID{7}, Actor: "ann"}, Overlap: tt.overlap}
		r := b.Run(&d, noon.Add(-time.Hour), settings, moment())
		if r.Concurrency != tt.want || r.Priority != tt.wantP {
			t.Errorf("overlap %q of a job that is %q: policy %q, priority %d", tt.overlap, tt.policy, r.Concurrency, r.Priority)
		}
		if r.Trigger != jobrun.ByBackfill || r.BackfillID != b.ID || r.InitiatedBy != "ann" ||
			r.IdempotencyKey != jobrun.BackfillKey(b.ID, noon.Add(-time.Hour)) {
			t.Errorf("%+v", r)
		}
	}
}

func TestWhatABackfillMayBe(t *testing.T) {
	t.Parallel()
	minutes := everyMinute()
	d := &jobrun.Definition{Spec: jobrun.Spec{Schedule: &minutes}}
	good := jobrun.Backfill{From: noon.Add(-time.Hour), To: noon, MaxActive: 5}
	for name, tt := range map[string]struct {
		change func(*jobrun.Backfill)
		bad    string // the pointer of the mistake
	}{
		"good":             {func(*jobrun.Backfill) {}, ""},
		"empty":            {func(b *jobrun.Backfill) { b.To = b.From }, "/to"},
		"of the future":    {func(b *jobrun.Backfill) { b.To = noon.Add(time.Second) }, "/to"},
		"nothing at once":  {func(b *jobrun.Backfill) { b.MaxActive = 0 }, "/max_active"},
		"too many at once": {func(b *jobrun.Backfill) { b.MaxActive = jobrun.MaxBackfillActive + 1 }, "/max_active"},
		"too many slots":   {func(b *jobrun.Backfill) { b.From = noon.Add(-time.Duration(jobrun.MaxBackfill+1) * time.Minute) }, "/from"},
	} {
		b := good
		tt.change(&b)
		slots, err := jobrun.CheckBackfill(&b, d, noon)
		f := fault.As(err)
		switch {
		case tt.bad == "" && (err != nil || slots != 60):
			t.Errorf("%s: %d slots, %v", name, slots, err)
		case tt.bad != "" && (f == nil || len(f.Fields) != 1 || f.Fields[0].Pointer != tt.bad):
			t.Errorf("%s: %+v, want a mistake at %s", name, f, tt.bad)
		}
	}
	if _, err := jobrun.CheckBackfill(&good, &jobrun.Definition{}, noon); !fault.IsCode(err, jobrun.CodeInvalid) {
		t.Errorf("of a job without a schedule: %v", err)
	}
}
