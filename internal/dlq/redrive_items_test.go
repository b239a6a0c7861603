package dlq

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/fault"
)

func TestWhatADriveMakesOfItsItem(t *testing.T) {
	t.Parallel()
	disabled := fault.New(fault.Conflict, CodeConflict, "the webhook is disabled")
	for _, tt := range []struct {
		name   string
		f      Finish
		stored Resolution
		state  ItemState
		detail string
		reach  Reach
	}{
		{"acknowledged", Finish{Status: Resolved, Attempt: Attempt{Outcome: Acknowledged}}, Redriven, ItemDone, "", Answered},
		{"acknowledged, and back already", Finish{Status: Resolved, Attempt: Attempt{Outcome: Acknowledged}}, Bounced, ItemBounced, "", Answered},
		{"refused", Finish{Status: Pending, Attempt: Attempt{Outcome: FailedDrive, Error: "no", StatusCode: 400}}, "", ItemFailed, "no", Answered},
		{"not reached", Finish{Status: Pending, Attempt: Attempt{Outcome: FailedDrive, Error: "no route"}}, "", ItemFailed, "no route", NotReached},
		{"nobody knows", Finish{Status: Dead, Attempt: Attempt{Outcome: Uncertain, Error: "no answer"}}, Exhausted, ItemFailed, "no answer", MaybeReached},
		{"not made", Finish{Status: Pending, Attempt: Attempt{Outcome: Withdrawn, Error: "stopped"}}, "", ItemWaiting, "", NotReached},
		{"not to be made", Finish{Status: Pending, Attempt: Attempt{Outcome: Withdrawn}, Fault: disabled}, "", ItemSkipped, "the webhook is disabled", NotReached},
		{"accepted", Finish{Status: Retrying, Attempt: Attempt{Outcome: Uncertain, Error: "later"}}, "", ItemTaken, "", NotReached},
	} {
		tt.f.LetterID = uuid.UUID{3}
		got, reach := tt.f.Item(tt.stored)
		if diff := cmp.Diff(Item{LetterID: uuid.UUID{3}, State: tt.state, Detail: tt.detail}, got); diff != "" ||
			reach != tt.reach {
			t.Errorf("%s: the target has %q, want %q (-want +got):\n%s", tt.name, reach, tt.reach, diff)
		}
	}
}

func TestWhatBecomesOfALostLetter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		l      Lost
		state  ItemState
		detail string
		hands  int
	}{
		{"it is on its way", Lost{Status: Retrying, Ours: true}, ItemTaken, "", 0},
		{"it is on its way once more", Lost{Status: Retrying, Gone: 1}, ItemTaken, "", 1},
		{"its target has taken it", Lost{Status: Resolved, Resolution: Redriven, Ours: true, Outcome: Acknowledged}, ItemDone, "", 1},
		{"its target has taken it in the end", Lost{Status: Resolved, Resolution: Confirmed, Ours: true, Outcome: Acknowledged, Hands: 1, Gone: 2}, ItemDone, "", 3},
		{"it came back", Lost{Status: Resolved, Resolution: Bounced, Ours: true, Outcome: Acknowledged}, ItemBounced, "", 1},
		{"it failed", Lost{Status: Pending, Ours: true, Outcome: FailedDrive, Error: "no"}, ItemFailed, "no", 1},
		{"nobody knows", Lost{Status: Dead, Resolution: Exhausted, Ours: true, Outcome: Uncertain, Error: "?"}, ItemFailed, "?", 1},
		{"its node is gone", Lost{Status: Pending, Ours: true, Outcome: Abandoned, Error: "gone", Gone: 1}, ItemWaiting, "", 1},
		{"it was not sent", Lost{Status: Pending, Ours: true, Outcome: Withdrawn, Error: "not sent"}, ItemWaiting, "", 0},
		{"somebody else has driven it", Lost{Status: Resolved, Resolution: Redriven, Outcome: Acknowledged}, ItemWaiting, "", 0},
		{"somebody else has failed", Lost{Status: Pending, Outcome: FailedDrive, Error: "no", Hands: 2}, ItemWaiting, "", 2},
		{"it is gone", Lost{}, ItemWaiting, "", 0},
	} {
		tt.l.Seq = 5
		got, hands := tt.l.Settled()
		if diff := cmp.Diff(Item{Seq: 5, State: tt.state, Detail: tt.detail}, got); diff != "" || hands != tt.hands {
			t.Errorf("%s: handed over %d times, want %d (-want +got):\n%s", tt.name, hands, tt.hands, diff)
		}
	}
}

func TestProgressOfARedrive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		state         ItemState
		answered      bool
		before, after int
		want          Progress
	}{
		{"done", ItemDone, true, 0, 1, Progress{Done: 1, Sent: 1}},
		{"back at once", ItemBounced, true, 0, 1, Progress{Done: 1, Bounced: 1, Sent: 1}},
		{"failed at its target", ItemFailed, true, 0, 1, Progress{Failed: 1, Sent: 1}},
		{"failed before", ItemFailed, false, 0, 0, Progress{Failed: 1}},
		{"failed, nobody knows where", ItemFailed, false, 0, 1, Progress{Failed: 1, MaybeSent: 1}},
		{"skipped", ItemSkipped, false, 0, 0, Progress{Skipped: 1}},
		{"waits again", ItemWaiting, false, 0, 0, Progress{}},
		{"waits again after its node was gone", ItemWaiting, false, 0, 1, Progress{MaybeSent: 1}},
		{"known in the end, and sent twice", ItemDone, true, 1, 2, Progress{Done: 1, Sent: 1, MaybeSent: -1, Repeated: 1}},
		{"lost for the second time", ItemWaiting, false, 1, 2, Progress{Repeated: 1}},
		{"lost for the third time", ItemWaiting, false, 2, 3, Progress{}},
		{"known after that", ItemFailed, true, 3, 4, Progress{Failed: 1, Sent: 1, MaybeSent: -1}},
	} {
		var p Progress
		p.Count(tt.state, tt.answered, tt.before, tt.after)
		if diff := cmp.Diff(tt.want, p); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Whatever happens to a letter, it counts as sent, as maybe sent or as neither, and as repeated at
// most once.
func TestALetterIsCountedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p Progress
		hands := 0
		for range rapid.IntRange(0, 6).Draw(t, "losses") {
			after := hands + rapid.IntRange(0, 2).Draw(t, "handed over")
			p.Count(ItemWaiting, false, hands, after)
			hands = after
		}
		if rapid.Bool().Draw(t, "it ends") {
			p.Count(rapid.SampledFrom([]ItemState{ItemDone, ItemFailed, ItemBounced}).Draw(t, "how"), true, hands, hands+1)
			hands++
			if p.Sent != 1 || p.MaybeSent != 0 || p.Done+p.Failed != 1 {
				t.Fatalf("handed over %d times, and counted as %+v", hands, p)
			}
		} else if p.Sent != 0 || (p.MaybeSent == 1) != (hands > 0) {
			t.Fatalf("handed over %d times without an answer, and counted as %+v", hands, p)
		}
		if (p.Repeated == 1) != (hands > 1) || p.Repeated > 1 {
			t.Fatalf("handed over %d times, and repeated %d times", hands, p.Repeated)
		}
	})
}

// Every edge of items is taken by a rule or by a statement built from the edge, and no rule takes
// an edge that is not in the table, because to would panic.
func TestEveryEdgeOfItemsIsTaken(t *testing.T) {
	t.Parallel()
	// by SQL
	taken := map[ItemEdge]bool{{ItemDone, ItemBounced, ItemBack}: true, {ItemWaiting, ItemTaken, ItemChosen}: true}
	for _, status := range append(slices.Clone(Statuses), "") {
		for _, outcome := range []AttemptOutcome{Acknowledged, FailedDrive, Uncertain, Withdrawn, Abandoned} {
			for _, resolution := range append(slices.Clone(Resolutions), "") {
				for _, f := range []*fault.Error{nil, fault.New(fault.Conflict, CodeConflict, "kept")} {
					i, _ := (&Finish{Status: status, Attempt: Attempt{Outcome: outcome}, Fault: f}).Item(resolution)
					taken[ItemEdge{ItemTaken, i.State, ItemDriven}] = true
				}
				for _, ours := range []bool{false, true} {
					i, _ := (&Lost{Status: status, Outcome: outcome, Resolution: resolution, Ours: ours}).Settled()
					taken[ItemEdge{ItemTaken, i.State, ItemSettled}] = true
				}
			}
		}
		for _, action := range []RedriveAction{BulkDiscard, BulkResolve, BulkRequeue, BulkDelete} {
			v := (&Redrive{Action: action}).Act(1, &Letter{Status: status, MaxRetries: 3}, &DefaultPolicy, Moment{})
			taken[ItemEdge{ItemWaiting, v.State, map[ItemState]ItemTrigger{ItemSkipped: ItemRefused,
				ItemDone: ItemActed}[v.State]}] = true
		}
	}
	for _, e := range ItemEdges {
		if !taken[e] {
			t.Errorf("nothing takes %+v", e)
		}
		delete(taken, e)
	}
	for e := range taken {
		t.Errorf("%+v is not in the table", e)
	}
}

func TestAnItemDoesNotLeaveItsTable(t *testing.T) {
	t.Parallel()
	for _, from := range ItemStates {
		for _, to := range ItemStates {
			for _, on := range []ItemTrigger{ItemChosen, ItemRefused, ItemActed, ItemDriven, ItemSettled, ItemBack, ""} {
				i := Item{State: from}
				refused := func() (refused bool) {
					defer func() { refused = recover() != nil }()
					i.to(to, on)
					return false
				}()
				if legal := slices.Contains(ItemEdges, ItemEdge{from, to, on}); refused == legal || !refused && i.State != to ||
					refused && i.State != from {
					t.Errorf("%s to %s on %q: legal is %t, and it became %s", from, to, on, legal, i.State)
				}
			}
		}
		if from.Ended() && slices.Contains(ItemsFrom(ItemChosen, ItemRefused, ItemActed, ItemDriven, ItemSettled), from) {
			t.Errorf("%s has ended, and goes on", from)
		}
	}
	if diff := cmp.Diff([]ItemState{ItemWaiting, ItemTaken}, ItemsFrom(ItemSettled, ItemActed)); diff != "" {
		t.Errorf("where items are settled or acted on (-want +got):\n%s", diff)
	}
}

func TestRedrivesFrom(t *testing.T) {
	t.Parallel()
	for _, s := range RedriveStates {
		if active := slices.Contains(RedrivesFrom(BeginRedrive, CompleteRedrive),
			s); active != (&Redrive{State: s}).Active() {
			t.Errorf("%s is found as active: %t", s, active)
		}
	}
	if diff := cmp.Diff([]RedriveState{RedriveRunning}, Running); diff != "" {
		t.Errorf("letters are driven in (-want +got):\n%s", diff)
	}
	if from := RedrivesFrom(); from != nil {
		t.Errorf("nothing leads away from %v", from)
	}
}
