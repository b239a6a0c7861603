package longpoll

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// These are the intervals at which a waiting request polls, growing from FirstPoll to LastPoll,
// while this node is not notified of events on other nodes. Otherwise it polls at the interval
// Every.
const (
	FirstPoll = 100 * time.Millisecond
	LastPoll  = time.Second
)

// Wait configures how a request waits.
type Wait struct {
	For      time.Duration
	Stopping <-chan struct{} // closed when the server begins to stop; nil: never
	// Fresh reports that the end had not come when the waiter began to wait, so that the first read
	// can be omitted.
	Fresh bool
	// Here reports whether the end would occur on this node. In that case the waiter does not read
	// and asks no other node, except every few seconds, as a safety net for ends that were not
	// announced. Nil means that it may occur on any node.
	Here func() bool
}

// Await returns when the event that w waits for has occurred, the wait has passed, or the server
// begins to stop. If the event occurred on this node and this node saw all of it, Await returns the
// committed value. over reads whether the event has occurred. An error means that the client has
// disconnected or that over failed.
func (w *Waiter) Await(ctx context.Context, how Wait, over func(context.Context) (bool, error)) (any, error) {
	here := how.Here
	if here == nil {
		here = func() bool { return false }
	}
	end := time.NewTimer(how.For)
	defer end.Stop()
	look, interval := !how.Fresh && !here(), FirstPoll
	for ; ; look = true {
		if look {
			if is, err := over(ctx); is || err != nil {
				return nil, err
			}
		}
		pause := interval
		if mine := here(); mine || w.Linked() {
			pause = Every - loop.Within(Every/4)
			if !mine {
				w.Ask()
			}
		}
		safety := time.NewTimer(pause)
		select {
		case committed := <-w.Done:
			if safety.Stop(); committed != nil {
				return committed, nil
			}
		case <-safety.C:
			interval = min(2*interval, LastPoll)
		case <-end.C:
			safety.Stop()
			return nil, nil
		case <-how.Stopping:
			safety.Stop()
			return nil, nil
		case <-ctx.Done():
			safety.Stop()
			return nil, ctx.Err()
		}
	}
}
