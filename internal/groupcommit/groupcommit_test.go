package groupcommit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/skald-saga/skald/internal/groupcommit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is what the tests submit; several may have one key.
type item struct{ key, n int }

// disk is a store whose writes take a while. The result of an item is its number.
type disk struct {
	takes time.Duration
	err   func(batch int) error // nil: no batch fails

	mu      sync.Mutex
	busy    bool
	batches [][]item
	at      []time.Time // when each batch arrived
	wrong   string
}

func (d *disk) flush(_ context.Context, batch []item) ([]int, error) {
	d.mu.Lock()
	if d.busy {
		d.wrong = "two batches at a time"
	}
	d.busy = true
	d.batches = append(d.batches, slices.Clone(batch))
	d.at = append(d.at, time.Now())
	n := len(d.batches)
	d.mu.Unlock()
	time.Sleep(d.takes)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = false
	if d.err != nil {
		if err := d.err(n); err != nil {
			return nil, err
		}
	}
	out := make([]int, len(batch))
	for i := range batch {
		out[i] = batch[i].n
	}
	return out, nil
}

func (d *disk) sizes() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []int
	for _, b := range d.batches {
		out = append(out, len(b))
	}
	return out
}

func committer(d *disk, maxBatch int) *groupcommit.Committer[item, int] {
	return groupcommit.New(groupcommit.Config[item, int]{
		Flush: d.flush, Key: func(i item) any { return i.key }, MaxBatch: maxBatch,
	})
}

func TestLoneCallerDoesNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: 10 * time.Millisecond}
		c := committer(d, 0)
		defer c.Close()
		for n := range 3 {
			begin := time.Now()
			got, err := c.Do(context.Background(), item{n: n})
			if took := time.Since(begin); got != n || err != nil || took != d.takes {
				t.Errorf("%d, %v after %v; want %d after one write of %v", got, err, took, n, d.takes)
			}
		}
	})
}

func TestNextBatchGathersWhileOneIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: 10 * time.Millisecond}
		c := committer(d, 0)
		begin := time.Now()
		var callers sync.WaitGroup
		for n := range 100 {
			callers.Go(func() {
				if n > 0 {
					time.Sleep(time.Duration(n%9+1) * time.Millisecond) // while the first one is written
				}
				if got, err := c.Do(context.Background(), item{n, n}); got != n || err != nil {
					t.Errorf("item %d is answered %d, %v", n, got, err)
				}
			})
		}
		callers.Wait()
		c.Close()
		if took := time.Since(begin); took != 2*d.takes {
			t.Errorf("a hundred items took %v; want two writes of %v", took, d.takes)
		}
		if diff := cmp.Diff([]int{1, 99}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// gather submits items in this order, all while a first one is being written.
func gather(c *groupcommit.Committer[item, int], items ...item) {
	var callers sync.WaitGroup
	callers.Go(func() { _, _ = c.Do(context.Background(), item{key: -1}) })
	synctest.Wait()
	for _, it := range items {
		callers.Go(func() { _, _ = c.Do(context.Background(), it) })
		synctest.Wait()
	}
	callers.Wait()
}

func TestBatchesAreBoundedAndKeepTheOrderOfEachKey(t *testing.T) {
	for _, tt := range []struct {
		name     string
		maxBatch int
		items    []item
		want     [][]item
	}{
		{"one key, one at a time", 0, []item{{1, 1}, {1, 2}, {1, 3}}, [][]item{{{1, 1}}, {{1, 2}}, {{1, 3}}}},
		{"other keys pass those that must wait", 0, []item{{1, 1}, {1, 2}, {2, 3}, {1, 4}, {3, 5}}, [][]item{{{1, 1}, {2, 3}, {3, 5}}, {{1, 2}}, {{1, 4}}}},
		{"the bound cuts a batch", 2, []item{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}}, [][]item{{{1, 1}, {2, 2}}, {{3, 3}, {4, 4}}, {{5, 5}}}},
		{"behind the bound a key keeps its order too", 2, []item{{1, 1}, {1, 2}, {2, 3}, {2, 4}, {1, 5}}, [][]item{{{1, 1}, {2, 3}}, {{1, 2}, {2, 4}}, {{1, 5}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{takes: time.Millisecond}
				c := committer(d, tt.maxBatch)
				gather(c, tt.items...)
				c.Close()
				if diff := cmp.Diff(tt.want, d.batches[1:], cmp.AllowUnexported(item{})); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDefaultMaxBatchIs256(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: time.Millisecond}
		var told []int
		c := groupcommit.New(groupcommit.Config[item, int]{
			Flush: d.flush, Key: func(i item) any { return i.key }, Observe: func(n int) { told = append(told, n) },
		})
		items := make([]item, 600)
		for i := range items {
			items[i] = item{i, i}
		}
		gather(c, items...)
		c.Close()
		if diff := cmp.Diff([]int{1, 256, 256, 88}, told); diff != "" {
			t.Errorf("observed sizes (-want +got):\n%s", diff)
		}
	})
}

func TestErrorReachesEveryCallerOfItsBatchAndNoOther(t *testing.T) {
	broken := errors.New("the connection is lost")
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: time.Millisecond, err: func(batch int) error {
			if batch == 2 {
				return broken
			}
			return nil
		}}
		c := committer(d, 3)
		var callers sync.WaitGroup
		errs := make([]error, 6)
		for n := range errs {
			callers.Go(func() { _, errs[n] = c.Do(context.Background(), item{n, n}) })
			synctest.Wait() // so that the batches are 0, 1-3 and 4-5
		}
		callers.Wait()
		c.Close()
		for n, err := range errs {
			if got, want := errors.Is(err, broken), n >= 1 && n <= 3; got != want {
				t.Errorf("item %d gets %v", n, err)
			}
		}
	})
}

func TestWrongNumberOfResultsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := groupcommit.New(groupcommit.Config[item, int]{
			Flush: func(context.Context, []item) ([]int, error) { return []int{1, 2}, nil },
			Key:   func(i item) any { return i.key },
		})
		defer c.Close()
		if got, err := c.Do(context.Background(), item{}); err == nil || got != 0 {
			t.Errorf("%d, %v; want an error, because the results cannot be matched to items", got, err)
		}
	})
}

func TestItemOfACallerThatStopsWaitingIsWritten(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stays time.Duration
	}{
		{"while its item is written", 15 * time.Millisecond},
		{"while its item waits for the batch before", 5 * time.Millisecond},
		{"before it has come", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{takes: 10 * time.Millisecond}
				c := committer(d, 0)
				var first sync.WaitGroup
				first.Go(func() { _, _ = c.Do(context.Background(), item{1, 1}) })
				synctest.Wait()
				begin := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), tt.stays)
				defer cancel()
				_, err := c.Do(ctx, item{2, 2})
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, groupcommit.ErrClosed) {
					t.Errorf("the caller gets %v; want the end of its context", err)
				}
				if waited := time.Since(begin); waited != tt.stays {
					t.Errorf("the caller waited %v", waited)
				}
				first.Wait()
				c.Close()
				if diff := cmp.Diff([][]item{{{1, 1}}, {{2, 2}}}, d.batches, cmp.AllowUnexported(item{})); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCloseWritesSubmittedItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: 10 * time.Millisecond}
		c := committer(d, 2)
		var callers sync.WaitGroup
		for n := range 5 {
			callers.Go(func() {
				if got, err := c.Do(context.Background(), item{n, n}); got != n || err != nil {
					t.Errorf("item %d is answered %d, %v", n, got, err)
				}
			})
		}
		synctest.Wait()
		callers.Go(c.Close) // two concurrent calls are harmless
		c.Close()
		if got := d.sizes(); cmp.Diff([]int{1, 2, 2}, got) != "" && cmp.Diff([]int{2, 2, 1}, got) != "" {
			t.Errorf("after Close the batches are %v; want all five items", got)
		}
		if _, err := c.Do(context.Background(), item{}); !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		callers.Wait()
		c.Close()
		if len(d.sizes()) != 3 {
			t.Errorf("an item refused after Close was written: %v", d.batches)
		}
	})
}

// TestManyCallersOnRealThreads is for the race detector: no bubble, no delays.
func TestManyCallersOnRealThreads(t *testing.T) {
	d := &disk{}
	c := committer(d, 16)
	var callers sync.WaitGroup
	for k := range 32 {
		callers.Go(func() {
			for n := range 200 {
				if got, err := c.Do(context.Background(), item{k, n}); got != n || err != nil {
					t.Errorf("item %d of %d is answered %d, %v", n, k, got, err)
				}
			}
		})
	}
	callers.Wait()
	c.Close()
	if d.wrong != "" {
		t.Error(d.wrong)
	}
	next := map[int]int{}
	for _, b := range d.batches {
		for _, it := range b {
			if it.n != next[it.key] {
				t.Fatalf("item %d of %d arrived when %d was expected", it.n, it.key, next[it.key])
			}
			next[it.key]++
		}
	}
	for k := range 32 {
		if next[k] != 200 {
			t.Errorf("%d items of %d were written; want 200", next[k], k)
		}
	}
}
