package httpkit

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/waiting"
)

// How often a waiting request polls, at growing intervals, while this node is not notified of what
// happens on others. Otherwise it does so every waiting.Every.
const (
	FirstPoll = 100 * time.Millisecond
	LastPoll  = time.Second
)

// WaitOf returns how long a request waits, cut to the server's limit, and the preference
// that is thereby honoured, "" when none. ?wait takes precedence over Prefer; an invalid
// Prefer is ignored, as RFC 7240 requires.
func (k *Kit) WaitOf(query, prefer *string) (wait time.Duration, honoured string, err error) {
	if query != nil {
		wait, err := time.ParseDuration(*query)
		if err != nil || wait < 0 {
			return 0, "", BadParameter("wait", "invalid", "must be a duration such as 30s or 1m30s")
		}
		return min(wait, k.Limits.MaxWait), "", nil
	}
	if prefer == nil {
		return 0, "", nil
	}
	for part := range strings.FieldsFuncSeq(*prefer, func(c rune) bool { return c == ',' || c == ';' }) {
		value, isWait := strings.CutPrefix(strings.TrimSpace(part), "wait=")
		if !isWait {
			continue
		}
		seconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return 0, "", nil
		}
		wait := min(time.Duration(seconds)*time.Second, k.Limits.MaxWait)
		return wait, "wait=" + strconv.Itoa(int(wait.Seconds())), nil
	}
	return 0, "", nil
}

// Await returns when what w waits for is over, the wait has passed, or the server begins to stop:
// with what was committed, if this node has ended it and saw all of it. over reads whether it is
// over. fresh: it was not over when w began to wait, and need not be read at first. here reports
// whether this node would be the one to end it; then it is not read, and no other node is asked,
// except every few seconds: that is the safety net for ends that were not announced. An error means
// that the client left or that over failed.
func (k *Kit) Await(ctx context.Context, w *waiting.Waiter, wait time.Duration, fresh bool, here func() bool,
	over func(context.Context) (bool, error)) (committed any, err error) {
	end := time.NewTimer(wait)
	defer end.Stop()
	look, interval := !fresh && !here(), FirstPoll
	for ; ; look = true {
		if look {
			if is, err := over(ctx); is || err != nil {
				return nil, err
			}
		}
		pause := interval
		if mine := here(); mine || w.Linked() {
			pause = waiting.Every - rand.N(waiting.Every/4) //nolint:gosec // spreads load, guards nothing
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
		case <-k.Stopping:
			safety.Stop()
			return nil, nil
		case <-ctx.Done():
			safety.Stop()
			return nil, ctx.Err()
		}
	}
}

// elsewhere is Await's here where any node may be the one.
func elsewhere() bool { return false }

// AwaitBy returns v as it is when it is over, the wait has passed, or the server begins to
// stop. first is v as it was just made; nil: it must be read. waited: the wait was honoured,
// which it is not when too many requests wait already.
func AwaitBy[T any](ctx context.Context, k *Kit, of waiting.Key, wait time.Duration, first *T, over func(*T) bool,
	read func(context.Context) (T, error)) (v T, waited bool, err error) {
	var w *waiting.Waiter
	if wait > 0 {
		w = k.Ends.Watch(of) // before it is read, so that its end is not missed in between
	}
	defer w.Stop()
	if first != nil {
		v = *first
	} else if v, err = read(ctx); err != nil {
		return v, false, err
	}
	if w == nil || over(&v) {
		return v, wait > 0 && over(&v), nil
	}
	_, err = k.Await(ctx, w, wait, true, elsewhere, func(ctx context.Context) (bool, error) {
		if v, err = read(ctx); err != nil {
			return false, err
		}
		return over(&v), nil
	})
	if err == nil && !over(&v) {
		v, err = read(ctx) // its present state
	}
	return v, true, err
}
