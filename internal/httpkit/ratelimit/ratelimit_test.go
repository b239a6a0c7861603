package ratelimit

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
)

var one, two = uuid.MustParse("00000000-0000-0000-0000-000000000001"), uuid.MustParse("00000000-0000-0000-0000-000000000002")

// allowed returns how many of n requests pass.
func allowed(l *Limiter, n int, key string, tenant uuid.UUID, creates bool) (passed int, last Verdict) {
	for range n {
		if last = l.Take(key, tenant, creates); last.Limit == "" {
			passed++
		}
	}
	return passed, last
}

func TestEachLimitAppliesOnItsOwn(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	for _, tt := range []struct {
		name   string
		limits Limits
		key    string // of the second client
		tenant uuid.UUID
		create bool
		first  int // of 100 requests of the first client
		second int
		limit  string // that refuses the first one's last
	}{
		{"a credential's own", Limits{Key: 5}, "b", one, false, 10, 10, "key"},
		{"the same credential in another tenant", Limits{Key: 5}, "a", two, false, 10, 10, "key"},
		{"the same credential", Limits{Key: 5}, "a", one, false, 10, 0, "key"},
		{"a tenant's", Limits{Key: 5, Tenant: 7}, "b", one, false, 10, 4, "key"},
		{"another tenant's", Limits{Tenant: 7}, "a", two, false, 14, 14, "tenant"},
		{"what creates something", Limits{Tenant: 20, Creates: 3}, "b", one, true, 6, 0, "creates"},
		{"what creates nothing", Limits{Tenant: 20, Creates: 3}, "b", one, false, 40, 0, "tenant"},
		{"no limit at all", Limits{}, "b", one, true, 100, 100, ""},
	} {
		l := New(tt.limits, clock)
		first, v := allowed(l, 100, "a", one, tt.create)
		second, _ := allowed(l, 100, tt.key, tt.tenant, tt.create)
		if first != tt.first || second != tt.second || v.Limit != tt.limit {
			t.Errorf("%s: %d and %d pass, the last is refused by %q; want %d, %d, %q", tt.name, first, second, v.Limit, tt.first,
				tt.second, tt.limit)
		}
	}
}

func TestARefusedRequestCostsNothing(t *testing.T) {
	now := time.Unix(0, 0)
	l := New(Limits{Tenant: 100, Creates: 1}, func() time.Time { return now })
	if n, _ := allowed(l, 500, "a", one, true); n != 2 {
		t.Fatalf("%d creates pass, want 2", n)
	}
	if n, _ := allowed(l, 500, "a", one, false); n != 198 {
		t.Errorf("%d other requests pass, want 198: refused creates were counted", n)
	}
}

func TestTheClientIsToldHowLongToWait(t *testing.T) {
	now := time.Unix(0, 0)
	l := New(Limits{Key: 2, Creates: 1}, func() time.Time { return now })
	v := l.Take("a", one, true)
	if v.Policy != `"key";q=4;w=2, "creates";q=2;w=2` || v.State != `"key";r=3;t=0` {
		t.Errorf("at first %+v", v)
	}
	l.Take("a", one, true)
	v = l.Take("a", one, true)
	if v.Limit != "creates" || v.Wait != time.Second || v.State != `"creates";r=0;t=2` {
		t.Errorf("when one is used up: %+v", v)
	}
	now = now.Add(v.Wait)
	if v = l.Take("a", one, true); v.Limit != "" {
		t.Errorf("after the wait: %+v", v)
	}
	for _, perSecond := range []int{1, 4, 10} {
		l := New(Limits{Creates: perSecond}, func() time.Time { return now })
		allowed(l, 2*perSecond, "a", one, true)
		now = now.Add(time.Second / time.Duration(4*perSecond)) // a quarter of the wait
		v := l.Take("a", one, true)
		if want := 3 * time.Second / time.Duration(4*perSecond); (v.Wait - want).Abs() > time.Microsecond {
			t.Errorf("%d a second: to wait %v, want %v", perSecond, v.Wait, want)
		}
	}
}

func TestUnusedBucketsAreRemoved(t *testing.T) {
	now := time.Unix(0, 0)
	l := New(Limits{Key: 1}, func() time.Time { return now })
	for i := range 3 * maxBuckets {
		l.Take(strconv.Itoa(i), one, false)
		if len(l.buckets) > maxBuckets {
			t.Fatalf("%d buckets", len(l.buckets))
		}
		now = now.Add(time.Millisecond)
	}
}

func BenchmarkTaking(b *testing.B) {
	l := New(Limits{Key: 1e6, Tenant: 1e6, Creates: 1e6}, time.Now)
	for b.Loop() {
		l.Take("a", one, true)
	}
}
