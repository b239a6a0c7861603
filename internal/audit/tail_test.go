package audit_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
)

// fakeTrail is the feed of one tenant, whose events are numbers.
type fakeTrail struct {
	trail.Trail
	mu    sync.Mutex
	last  int64
	reads int
	fail  bool
}

func (f *fakeTrail) add(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last += n
}

func (f *fakeTrail) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func (f *fakeTrail) Feed(
	_ context.Context,
	_ uuid.UUID,
	after trail.Position,
	_ trail.EventFilter,
	limit int,
) (events []trail.StoredEvent, end trail.Position, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.fail {
		return nil, after, errors.New("the database does not answer")
	}
	end = after
	for end.ID < f.last && len(events) < limit {
		end.ID++
		events = append(events, trail.StoredEvent{Position: end})
	}
	return events, end, nil
}

func (f *fakeTrail) End(context.Context, uuid.UUID) (trail.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return trail.Position{ID: f.last}, nil
}

func newTail(f *fakeTrail) *audit.Tail { return audit.NewTail(f, slog.New(slog.DiscardHandler)) }

func follow(t *testing.T, tail *audit.Tail, tenant uuid.UUID) (<-chan []trail.StoredEvent, trail.Position, func()) {
	t.Helper()
	c, at, stop, err := tail.Follow(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return c, at, stop
}

func TestFollowersShareOneLoopAndGetEverythingAfterTheirPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTrail{last: 3}
		tail, tenant := newTail(f), uuid.New()
		type follower struct {
			c    <-chan []trail.StoredEvent
			at   trail.Position
			stop func()
		}
		var all []follower
		for range 10 {
			c, at, stop := follow(t, tail, tenant)
			all = append(all, follower{c, at, stop})
			f.add(600) // more than one read returns
			time.Sleep(2 * time.Second)
		}
		reads := f.count()
		if reads > 80 {
			t.Errorf("%d reads for ten followers in 20 s", reads)
		}
		for i, fo := range all {
			fo.stop()
			for len(fo.c) > 0 {
				for _, e := range <-fo.c {
					if e.ID != fo.at.ID+1 {
						t.Fatalf("follower %d got %d after %d", i, e.ID, fo.at.ID)
					}
					fo.at = e.Position
				}
			}
			if fo.at.ID != f.last {
				t.Errorf("follower %d got events as far as %d of %d", i, fo.at.ID, f.last)
			}
		}
		tail.Close() // no followers are left, so the loop ends
		time.Sleep(time.Minute)
		if now := f.count(); now != reads {
			t.Errorf("%d reads for nobody", now-reads)
		}
	})
}

func TestOnlyAFollowerThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTrail{}
		tail, tenant := newTail(f), uuid.New()
		lazy, _, stopLazy := follow(t, tail, tenant)
		keen, _, stopKeen := follow(t, tail, tenant)
		defer tail.Close()
		defer stopKeen()
		for i := range 100 {
			f.add(1)
			if got := <-keen; len(got) != 1 || got[0].ID != int64(i+1) {
				t.Fatalf("the keen one got %v", got)
			}
		}
		n := 0
		for range lazy { // it ends when the channel is closed
			n++
		}
		if n == 0 || n >= 100 {
			t.Errorf("the lazy one got %d batches before it was dismissed", n)
		}
		stopLazy()
	})
}

func TestFollowersSeeEventsOfThisNodeImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTrail{}
		tail := newTail(f)
		defer tail.Close()
		c, _, stop := follow(t, tail, uuid.New())
		defer stop()
		time.Sleep(time.Minute) // longer than the longest pause
		for _, woken := range []bool{true, false} {
			begun := time.Now()
			f.add(1)
			if woken {
				tail.Wake()
			}
			<-c
			took := time.Since(begun)
			if limit := map[bool]time.Duration{true: 100 * time.Millisecond, false: time.Second}[woken]; took > limit {
				t.Errorf("woken %v: seen after %v", woken, took)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestFollowingContinuesAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTrail{}
		tail := newTail(f)
		defer tail.Close()
		c, _, stop := follow(t, tail, uuid.New())
		defer stop()
		f.mu.Lock()
		f.fail = true
		f.mu.Unlock()
		f.add(2)
		time.Sleep(time.Minute)
		reads := f.count()
		f.mu.Lock()
		f.fail = false
		f.mu.Unlock()
		if got := <-c; len(got) != 2 {
			t.Errorf("got %v after the outage", got)
		}
		if reads > 70 {
			t.Errorf("%d reads in a minute of outage", reads)
		}
	})
}
