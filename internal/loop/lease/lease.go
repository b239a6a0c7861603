// Package lease maintains leases that a store grants for a limited time. It covers how often they
// are renewed, how long their holder may trust them, and leader election based on them.
//
// Read Held and Keeper for a lease that belongs to one node, then Election for a lease for which
// several nodes compete.
package lease

import (
	"context"
	"sync/atomic"
	"time"
)

// Interval returns how often a lease of length ttl is renewed, for example every 3 s for a ttl of
// 10 s (requirements/jobrun.md 5b), so that two consecutive renewals may fail.
func Interval(ttl time.Duration) time.Duration { return ttl * 3 / 10 }

// Margin is how long before the end of a lease its holder stops leading, so that its last writes
// have ended when the next leader begins.
func Margin(ttl time.Duration) time.Duration { return min(time.Second, ttl/4) }

// Held determines how long this process may trust a lease, by its monotonic clock. The zero value
// trusts no lease. It is safe for concurrent use.
type Held struct{ until atomic.Pointer[time.Time] }

// Extend trusts a lease of length ttl that was requested at asked. This time was taken before the
// request was sent, so the lease began no earlier by the store's clock.
func (h *Held) Extend(asked time.Time, ttl time.Duration) { h.until.Store(new(asked.Add(ttl))) }

// Lose ends the trust permanently, unless Extend restores it.
func (h *Held) Lose() { h.until.Store(nil) }

// Valid reports whether the lease certainly still holds.
func (h *Held) Valid() bool { return h.Left() > 0 }

// Left returns for how long the lease certainly holds. If it is 0 or less, the lease may have
// ended.
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
	// Failed is called for a renewal that got no response. The renewal is then repeated.
	Failed func(error)
}

// Keep returns when ctx ends or when the lease is lost. In the latter case h is no longer valid,
// because the store refused the renewal, or no renewal succeeded before the lease expired. If a
// renewal succeeds after that, the lease still counts as lost: work may have been dropped in
// between, and only the next holder makes up for it.
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
