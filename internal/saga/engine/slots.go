package engine

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// kind is the kind of a slot. New and resumed sagas have separate slots, so that a flood of creates
// cannot starve retries and recovery.
type kind int

const (
	fresh kind = iota
	resumed
)

// slots limits how many sagas have a call in flight, and so limits memory: a waiting saga holds
// neither a slot nor a payload.
type slots struct {
	free  [2]chan struct{} // a token is a free slot
	freed chan struct{}    // capacity 1: a slot was returned
}

func newSlots(n int) *slots {
	s := &slots{freed: make(chan struct{}, 1)}
	for k, size := range [2]int{fresh: n, resumed: max(n/4, 1)} {
		s.free[k] = make(chan struct{}, size)
		for range size {
			s.free[k] <- struct{}{}
		}
	}
	return s
}

// takeFresh takes a slot for a new saga, waiting for at most wait.
func (s *slots) takeFresh(ctx context.Context, wait time.Duration) bool {
	select {
	case <-s.free[fresh]:
		return true
	default:
	}
	return loop.Await(ctx, wait, s.free[fresh])
}

// takeResumed takes up to n slots for resumed sagas: first the slots reserved for them, then slots
// that no new saga needs right now.
func (s *slots) takeResumed(n int) []kind {
	var got []kind
	for len(got) < n {
		select {
		case <-s.free[resumed]:
			got = append(got, resumed)
			continue
		default:
		}
		select {
		case <-s.free[fresh]:
			got = append(got, fresh)
			continue
		default:
		}
		break
	}
	return got
}

func (s *slots) give(k kind) {
	s.free[k] <- struct{}{}
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
