package dlq

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

func to(url string) Target { return Target{Kind: ToHTTP, URL: url} }

func TestARedriveLeavesATargetAloneAsLongAsItAsks(t *testing.T) {
	t.Parallel()
	one, path, other := to("http://one/a"), to("http://one/b"), to("http://other/")
	end := func(t Target, after time.Duration) Finish {
		return Finish{RetryAfter: after, Attempt: Attempt{Target: t}}
	}
	var p Pauses
	if _, changed := p.After([]Finish{end(one, 0)}, testNow); changed {
		t.Error("nothing was asked for")
	}
	p, changed := p.After([]Finish{end(one, time.Minute), end(one, time.Second)}, testNow)
	if !changed || !p.Hold(&one, testNow) || !p.Hold(&path, testNow.Add(59*time.Second)) || p.Hold(&other, testNow) ||
		p.Hold(&one, testNow.Add(time.Minute)) {
		t.Errorf("pauses %v", p)
	}
	if p, _ = p.After([]Finish{end(other, 48*time.Hour)}, testNow.Add(time.Hour)); len(p) != 1 ||
		p.Hold(&other, testNow.Add(2*time.Hour)) {
		t.Errorf("an hour later: %v", p)
	}
}

// A letter that waits for a paused target is neither taken nor skipped, and holds back its key.
func TestLettersForAPausedTargetWait(t *testing.T) { //nolint:paralleltest // another test changes the table
	all := []Candidate{
		{Seq: 1, LetterID: uuid.UUID{1}, Status: Pending, Topic: "t", Key: []byte("k"), To: to("http://one/"), Paused: true},
		{Seq: 2, LetterID: uuid.UUID{2}, Status: Pending, Topic: "t", Key: []byte("k"), To: to("http://other/")},
		{Seq: 3, LetterID: uuid.UUID{3}, Status: Pending, Topic: "t", To: to("http://other/")},
	}
	for order, want := range map[Order]int{Oldest: 2, PerKey: 1} {
		r := Redrive{Order: order}
		got := r.Choose(all, Keys{}, Routes{Kinds: []TargetKind{ToHTTP}}, 3)
		if len(got.Taken) != want || len(got.Skipped) != 0 || got.Taken[want-1].Seq != 3 {
			t.Errorf("%s: taken %+v, skipped %+v", order, got.Taken, got.Skipped)
		}
	}
}
