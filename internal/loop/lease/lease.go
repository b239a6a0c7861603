// Package lease maintains leases that a store grants for a limited time: how often they are
// renewed, how long their holder may trust them, and leader election by them.
//
// Read Held and Keeper for a lease that is the node's own, then Election for one that
// several nodes want.
package lease

import (
	"context"
	"sync/atomic"
	"time"
)

// Interval is how often a lease of length ttl is renewed: 3 s of 10 s (requirements/jobrun.md
// 5b), so that two consecutive renewals may fail.
func Interval(ttl time.Duration) time.Duration { return ttl * 3 / 10 }

// Margin is how long before the end of a lease its holder stops leading, so that
// its last writes have ended when the next leader begins.
func Margin(ttl time.Duration) time.Duration { return min(time.Second, ttl/4) }

// Held is how long this process may trust a lease, by its monotonic clock. The zero
// value trusts none. It is safe for concurrent use.
type Held struct{ until atomic.Pointer[time.Time] }

// Extend trusts a lease of length ttl that was requested at asked, a time before the request
// was sent: the store's clock began no earlier.
func (h *Held) Extend(asked time.Time, ttl time.Duration) { h.until.Store(new(asked.Add(ttl))) }

// Lose ends the trust permanently, unless Extend restores it.
func (h *Held) Lose() { h.until.Store(nil) }

// Valid reports whether the lease certainly still holds.
func (h *Held) Valid() bool { return h.Left() > 0 }

// Left is for how long the lease certainly holds; 0 or less: it may have ended.
func (h *Held) Left() time.Duration {
	until := h.until.Load()
	if until == nil {
		return 0
	}
	return time.Until(*until)
}

// Keeper renews a lease that this node holds. Renew, Sleep, Renewed and Failed are required.
type Keeper struct {
	TTL time.Duration
	// Renew extends the lease to TTL from now. held is false if the store refuses.
	Renew func(ctx context.Context) (held bool, err error)
	// Sleep waits about that long, or until ctx ends.
	Sleep   func(ctx context.Context, d time.Duration)
	Renewed func()
	// Failed is called for a renewal that got no response; it is tried again.
	Failed func(error)
}

// Keep returns when ctx ends or when the lease is lost, and then h is not valid: the store
// refused, or no renewal succeeded before the lease ran out. If a renewal succeeds after that,
// the lease still counts as lost: work may have been dropped in between, which only the next
// holder makes up for.
func (k Keeper) Keep(ctx context.Context, h *Held) {
	for {
		k.Sleep(ctx, Interval(k.TTL))
		if ctx.Err() != nil {
			return
		}
		asked := time.Now()
		call, cancel := context.WithTimeout(ctx, Interval(k.TTL))
		held, err := k.Renew(call)
		cancel()
		switch {
		case err == nil && !held, !h.Valid():
			h.Lose()
			return
		case err == nil:
			h.Extend(asked, k.TTL)
			k.Renewed()
		default:
			k.Failed(err)
		}
	}
}
