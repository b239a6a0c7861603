package storetest

import (
	"time"
)

var leases = []contract{
	{"a lease is renewed until it ends, and then never again", leaseEnds},
	{"renewing counts from now, not from the former end", leaseRenewedShorter},
	{"a resigned lease has ended", leaseResigned},
	{"a lease nobody took cannot be renewed", leaseUnknown},
	{"a node that registers again ends its former lease and no other", leaseRestart},
}

func (f *fixture) wantRenewed(owner int64, ttl time.Duration, want bool) {
	f.t.Helper()
	if got, err := f.Ownership.Renew(f.t.Context(), owner, ttl); err != nil || got != want {
		f.t.Errorf("renewed = %v, %v; want %v", got, err, want)
	}
}

func leaseEnds(f *fixture) {
	owner := f.register("node", 10*time.Second)
	for range 3 { // longer in all than one lease
		f.Advance(6 * time.Second)
		f.wantRenewed(owner, 10*time.Second, true)
	}
	f.Advance(11 * time.Second)
	f.wantRenewed(owner, time.Hour, false)
	f.wantRenewed(owner, time.Hour, false)
}

func leaseRenewedShorter(f *fixture) {
	owner := f.register("node", time.Hour)
	f.wantRenewed(owner, 10*time.Second, true)
	f.Advance(11 * time.Second)
	f.wantRenewed(owner, time.Hour, false)
}

func leaseResigned(f *fixture) {
	owner := f.register("node", time.Hour)
	for range 2 {
		if err := f.Ownership.Resign(f.t.Context(), owner); err != nil {
			f.t.Fatal(err)
		}
		f.wantRenewed(owner, time.Hour, false)
	}
}

func leaseUnknown(f *fixture) {
	const nobody = 1 << 40
	f.wantRenewed(nobody, time.Hour, false)
	if err := f.Ownership.Resign(f.t.Context(), nobody); err != nil {
		f.t.Errorf("resign: %v", err)
	}
}

func leaseRestart(f *fixture) {
	first, other := f.register("node", time.Hour), f.register("another node", time.Hour)
	second := f.register("node", time.Hour)
	if first == other || first == second || other == second {
		f.t.Errorf("incarnations %d, %d, %d; want three", first, other, second)
	}
	f.wantRenewed(first, time.Hour, false)
	f.wantRenewed(other, time.Hour, true)
	f.wantRenewed(second, time.Hour, true)
}
