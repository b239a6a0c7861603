package storetest

import (
	"time"
)

var leases = []contract{
	{"a lease is renewed until it ends, and then never again", leaseEnds},
	{"renewing counts from now, not from the former end", leaseRenewedShorter},
	{"a resigned lease has ended", leaseResigned},
	{"a lease that was never taken cannot be renewed", leaseUnknown},
	{"the holder of a node's lease is known until it ends", leaseFormer},
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
	for range 3 { // longer in total than one lease
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

func leaseFormer(f *fixture) {
	want := func(node, process string) {
		f.t.Helper()
		got, found, err := f.Ownership.Former(f.t.Context(), node)
		if err != nil || found != (process != "") || got.Process != process || found && !got.LeaseUntil.After(f.Now()) {
			f.t.Errorf("%s: %+v, %v, %v; want %q", node, got, found, err, process)
		}
	}
	owner := f.register("node", 10*time.Second)
	f.register("another node", time.Hour)
	want("node", "process of node")
	before, _, _ := f.Ownership.Former(f.t.Context(), "node")
	f.Advance(5 * time.Second)
	f.wantRenewed(owner, 10*time.Second, true)
	if after, _, _ := f.Ownership.Former(f.t.Context(), "node"); !after.LeaseUntil.After(before.LeaseUntil) {
		f.t.Errorf("the lease ends at %v after a renewal, at %v before", after.LeaseUntil, before.LeaseUntil)
	}
	f.Advance(11 * time.Second)
	want("node", "")
	want("nobody", "")
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
