// Package ratelimit limits, on one node, how many requests each credential and each tenant may
// make. It uses token buckets in memory.
package ratelimit

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
)

// Limits are in requests per second; 0 means no limit. Bursts may use up to two seconds' worth.
type Limits struct {
	Key     int // for one credential
	Tenant  int // for all credentials of a tenant together
	Creates int // for a tenant's requests that create something
}

// seconds is the size of a burst, in seconds of the rate.
const seconds = 2

// Names of the limits in the headers and in the metric.
const (
	ofKey     = "key"
	ofTenant  = "tenant"
	ofCreates = "creates"
)

// Limiter counts requests. It is safe for concurrent use; a nil Limiter allows all requests.
type Limiter struct {
	limits Limits
	now    func() time.Time
	policy [2]string // for requests that create nothing, and for those that create something

	mu      sync.Mutex
	buckets map[bucketKey]*rate.Limiter // guarded by mu
}

type bucketKey struct {
	limit  string
	tenant uuid.UUID
	key    string
}

// maxBuckets limits the memory. Beyond it, full buckets are dropped, which has no effect on their
// owners.
const maxBuckets = 10_000

// New returns a limiter, nil if nothing is limited.
func New(l Limits, now func() time.Time) *Limiter {
	if l == (Limits{}) {
		return nil
	}
	out := &Limiter{limits: l, now: now, buckets: map[bucketKey]*rate.Limiter{}}
	add := func(to *string, name string, limit int) {
		if limit == 0 {
			return
		}
		if *to != "" {
			*to += ", "
		}
		*to += fmt.Sprintf("%q;q=%d;w=%d", name, limit*seconds, seconds)
	}
	for i := range out.policy {
		add(&out.policy[i], ofKey, l.Key)
		add(&out.policy[i], ofTenant, l.Tenant)
	}
	add(&out.policy[1], ofCreates, l.Creates)
	return out
}

// Verdict is the decision whether a request is allowed, with information for its client.
type Verdict struct {
	Limit  string        // the limit that the request exceeds; "": none
	Wait   time.Duration // wait until the request would be allowed
	Policy string        // header RateLimit-Policy: the limits of this request
	State  string        // header RateLimit: the remainder of the limit that is closest to being exhausted
}

// Take counts a request against the limits of its credential and tenant. If it exceeds one of them,
// it is counted against none.
func (l *Limiter) Take(key string, tenant uuid.UUID, creates bool) Verdict {
	if l == nil {
		return Verdict{}
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var (
		v    = Verdict{Policy: l.policy[0]}
		all  [3]*rate.Limiter
		n    int
		left = math.Inf(1) // remaining tokens, as a fraction of the burst
	)
	if creates {
		v.Policy = l.policy[1]
	}
	for _, b := range [...]struct {
		key   bucketKey
		limit int
	}{
		{bucketKey{ofKey, tenant, key}, l.limits.Key},
		{bucketKey{ofTenant, tenant, ""}, l.limits.Tenant},
		{bucketKey{ofCreates, tenant, ""}, l.limits.Creates},
	} {
		if b.limit == 0 || b.key.limit == ofCreates && !creates {
			continue
		}
		bucket := l.bucket(b.key, b.limit, now)
		all[n], n = bucket, n+1
		tokens := bucket.TokensAt(now)
		if tokens < 1 && v.Limit == "" {
			v.Limit, v.Wait = b.key.limit, time.Duration((1-tokens)/float64(b.limit)*float64(time.Second))
		}
		if share := tokens / float64(bucket.Burst()); share < left {
			left = share
			full := math.Ceil((float64(bucket.Burst()) - tokens) / float64(b.limit))
			v.State = `"` + b.key.limit + `";r=` + strconv.Itoa(int(max(0, tokens-1))) + ";t=" + strconv.Itoa(int(full))
		}
	}
	if v.Limit == "" {
		for _, bucket := range all[:n] {
			bucket.AllowN(now, 1)
		}
	}
	return v
}

func (l *Limiter) bucket(key bucketKey, limit int, now time.Time) *rate.Limiter {
	b, ok := l.buckets[key]
	if ok {
		return b
	}
	if len(l.buckets) >= maxBuckets {
		l.forget(now)
	}
	b = rate.NewLimiter(rate.Limit(limit), limit*seconds)
	l.buckets[key] = b
	return b
}

// forget drops the full buckets or, if there are none, an arbitrary one.
func (l *Limiter) forget(now time.Time) {
	for key, b := range l.buckets {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(l.buckets, key)
		}
	}
	for key := range l.buckets {
		if len(l.buckets) < maxBuckets {
			return
		}
		delete(l.buckets, key)
	}
}
