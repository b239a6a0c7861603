package httpkit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/longpoll"
)

// WaitOf returns how long a request waits, which is at most the server's limit, and the preference
// that the wait honors, "" if none. ?wait takes precedence over Prefer; an invalid Prefer is
// ignored, as RFC 7240 requires.
func (k *Kit) WaitOf(query, prefer *string) (wait time.Duration, honoured string, err error) {
	if query != nil {
		wait, err := time.ParseDuration(*query)
		if err != nil || wait < 0 {
			return 0, "", BadParameter("wait", "invalid", "must be a duration such as 20s")
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

// AwaitBy returns the value of v when v has ended, the wait has expired, or the server begins to
// stop. first is v as just created; nil means that it must be read. waited reports whether the wait
// was honored, which is not the case if too many requests are already waiting.
func AwaitBy[T any](ctx context.Context, k *Kit, of longpoll.Key, wait time.Duration, first *T, over func(*T) bool,
	read func(context.Context) (T, error)) (v T, waited bool, err error) {
	var w *longpoll.Waiter
	if wait > 0 {
		w = k.Ends.Watch(of) // before the first read, so that an end in between is not missed
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
	how := longpoll.Wait{For: wait, Stopping: k.Stopping, Fresh: true}
	_, err = w.Await(ctx, how, func(ctx context.Context) (bool, error) {
		if v, err = read(ctx); err != nil {
			return false, err
		}
		return over(&v), nil
	})
	if err == nil && !over(&v) {
		v, err = read(ctx) // its current state
	}
	return v, true, err
}
