package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/groupcommit"
)

// plan is one run: when which caller arrives, and how the disk behaves.
type plan struct {
	maxBatch int
	takes    time.Duration
	fails    map[int]bool // batches, from 1
	closes   time.Duration
	arrivals []arrival
}

type arrival struct {
	at, stays time.Duration
	key       int
}

func plans() *rapid.Generator[plan] {
	ms := func(low, high int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(low, high), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	}
	return rapid.Custom(func(t *rapid.T) plan {
		p := plan{
			maxBatch: rapid.IntRange(1, 6).Draw(t, "max batch"),
			takes:    ms(1, 10).Draw(t, "a write takes"),
			fails:    map[int]bool{},
			closes:   ms(0, 80).Draw(t, "closes at"),
		}
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, 20), 0, 5).Draw(t, "failing batches") {
			p.fails[n] = true
		}
		for range rapid.IntRange(0, 40).Draw(t, "items") {
			p.arrivals = append(p.arrivals, arrival{
				at:    ms(0, 60).Draw(t, "comes at"),
				stays: ms(0, 60).Draw(t, "stays"),
				key:   rapid.IntRange(0, 3).Draw(t, "key"),
			})
		}
		return p
	})
}

type answered struct {
	got   int
	err   error
	after time.Duration
}

var errDisk = errors.New("this batch fails")

// TestEveryItemIsWrittenOnceInOrder: whenever callers arrive, leave and close, each
// accepted item is in exactly one batch; batches are bounded, contain each key once
// and in order, and follow each other without a gap while anyone waits; and every
// caller that stays gets the result of its own item.
func TestEveryItemIsWrittenOnceInOrder(t *testing.T) {
	for range 10 { // of a hundred plans each
		rapid.Check(t, func(rt *rapid.T) {
			p := plans().Draw(rt, "plan")
			var wrong string
			synctest.Test(t, func(*testing.T) { wrong = p.run() })
			if wrong != "" {
				rt.Fatal(wrong)
			}
		})
	}
}

// run executes the plan and returns what is wrong, "" when nothing is.
func (p plan) run() string {
	d := &disk{takes: p.takes, err: func(batch int) error {
		if p.fails[batch] {
			return errDisk
		}
		return nil
	}}
	begin := time.Now()
	c := committer(d, p.maxBatch)
	answers := make([]answered, len(p.arrivals))
	var callers sync.WaitGroup
	for n, a := range p.arrivals {
		callers.Go(func() {
			time.Sleep(a.at)
			ctx, cancel := context.WithTimeout(context.Background(), a.stays)
			defer cancel()
			answers[n].got, answers[n].err = c.Do(ctx, item{a.key, n})
			answers[n].after = time.Since(begin)
		})
	}
	time.Sleep(p.closes)
	c.Close()
	callers.Wait()
	return p.check(d, answers, begin)
}

func (p plan) check(d *disk, answers []answered, begin time.Time) string {
	if d.wrong != "" {
		return d.wrong
	}
	batchOf := map[int]int{}
	for b, batch := range d.batches {
		if len(batch) > p.maxBatch {
			return fmt.Sprintf("batch %d holds %d items, at most %d are allowed", b, len(batch), p.maxBatch)
		}
		keys := map[int]bool{}
		for _, it := range batch {
			if keys[it.key] {
				return fmt.Sprintf("batch %d holds two items of key %d", b, it.key)
			}
			keys[it.key] = true
			if _, twice := batchOf[it.n]; twice {
				return fmt.Sprintf("item %d is written twice", it.n)
			}
			batchOf[it.n] = b
		}
	}
	for n, a := range p.arrivals {
		b, written := batchOf[n]
		got := answers[n]
		switch refused := got.err != nil && errors.Is(got.err, groupcommit.ErrClosed); {
		case written == refused, !refused && a.at > p.closes:
			return fmt.Sprintf("item %d: written %v, answered %v", n, written, got.err)
		case refused:
			if a.at < p.closes {
				return fmt.Sprintf("item %d came at %v and is refused, though Close came at %v", n, a.at, p.closes)
			}
		case errors.Is(got.err, context.DeadlineExceeded):
			if got.after != a.at+a.stays {
				return fmt.Sprintf("item %d: its caller left at %v instead of %v", n, got.after, a.at+a.stays)
			}
		case got.after != d.at[b].Sub(begin)+p.takes:
			return fmt.Sprintf("item %d is answered at %v, its batch was done at %v", n, got.after, d.at[b].Sub(begin)+p.takes)
		case p.fails[b+1] != errors.Is(got.err, errDisk), got.err == nil && got.got != n:
			return fmt.Sprintf("item %d of batch %d gets %d, %v", n, b, got.got, got.err)
		}
		if !written {
			continue
		}
		if early := d.at[b].Sub(begin) < a.at; early {
			return fmt.Sprintf("item %d is written before it came", n)
		}
		for m, other := range p.arrivals {
			if b2, ok := batchOf[m]; ok && other.key == a.key && other.at < a.at && b2 >= b {
				return fmt.Sprintf("items %d and %d of key %d are written in the wrong order", m, n, a.key)
			}
		}
		if gap := p.gap(d, batchOf, n, begin); gap != "" {
			return gap
		}
	}
	return ""
}

// gap reports whether the disk was idle although item n had arrived.
func (p plan) gap(d *disk, batchOf map[int]int, n int, begin time.Time) string {
	b, came := batchOf[n], p.arrivals[n].at
	start := d.at[b].Sub(begin)
	if start == came {
		return ""
	}
	// From its arrival to its batch, batches must follow each other.
	free := start
	for i := b - 1; i >= 0 && free > came; i-- {
		if end := d.at[i].Sub(begin) + p.takes; end != free {
			return fmt.Sprintf("item %d came at %v, and the disk was idle from %v to %v", n, came, end, free)
		}
		free = d.at[i].Sub(begin)
	}
	if free > came {
		return fmt.Sprintf("item %d came at %v and nothing was written before %v", n, came, free)
	}
	return ""
}
