package longpoll

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// How often a waiting request polls, at growing intervals, while this node is not notified of what
// happens on others. Otherwise it does so every Every.
const (
	FirstPoll = 100 * time.Millisecond
	LastPoll  = time.Second
)

// Wait is how a request waits.
type Wait struct {
	For      time.Duration
	Stopping <-chan struct{} // closed when the server begins to stop; nil: never
	// Fresh: it was not over when the waiter began to wait, and need not be read at first.
	Fresh bool
	// Here reports whether this node would be the one to end it; then it is not read, and no other
	// node is asked, except every few seconds: that is the safety net for ends that were not
	// announced. Nil: any node may be the one.
	Here func() bool
}

// Await returns when what w waits for is over, the wait has passed, or the server begins to stop:
// with what was committed, if this node has ended it and saw all of it. over reads whether it is
// over. An error means that the client left or that over failed.
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
