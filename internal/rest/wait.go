package rest

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// A saga that ends on another node is visible only in the store. A waiting request polls
// there, at growing intervals.
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

// AwaitBy reads v again, at growing intervals, until over returns true, the wait ends, or
// the server begins to stop; it returns the last v.
func AwaitBy[T any](ctx context.Context, stopping <-chan struct{}, v T, wait time.Duration, over func(*T) bool,
	read func(context.Context) (T, error)) (T, error) {
	end := time.NewTimer(wait)
	defer end.Stop()
	interval := FirstPoll
	for wait > 0 && !over(&v) {
		poll := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			poll.Stop()
			return v, ctx.Err()
		case <-end.C:
			wait = 0
		case <-stopping:
			wait = 0
		case <-poll.C:
			interval = min(2*interval, LastPoll)
		}
		poll.Stop()
		next, err := read(ctx)
		if err != nil {
			return v, err
		}
		v = next
	}
	return v, nil
}
