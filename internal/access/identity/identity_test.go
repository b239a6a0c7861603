package identity_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/tenant"
)

// world contains a store of keys that counts look-ups, and a checker that uses it.
type world struct {
	access.Store
	t       *testing.T
	checker *identity.Checker
	asked   atomic.Int64
	gate    chan struct{} // if it is not nil, Find waits for it
	down    error         // the error of Find and Used
	log     bytes.Buffer
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, Store: memstore.New(time.Now).Keys}
	w.checker = identity.New(identity.Config{
		Keys: w, Sessions: memstore.New(time.Now).Sessions, Now: time.Now, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	return w
}

func (w *world) Find(ctx context.Context, prefix string) (access.Key, error) {
	w.asked.Add(1)
	if w.gate != nil {
		<-w.gate
	}
	if w.down != nil {
		return access.Key{}, w.down
	}
	return w.Store.Find(ctx, prefix)
}

func (w *world) Used(ctx context.Context, at map[uuid.UUID]time.Time) error {
	if w.down != nil {
		return w.down
	}
	return w.Store.Used(ctx, at)
}

var home = tenant.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-00000000000a")}

// issue stores a key with the given lifetime; 0 means unlimited.
func (w *world) issue(name string, life time.Duration) (access.Key, string) {
	w.t.Helper()
	r := access.Request{Name: name, Role: principal.Operator, Tenant: &home}
	if life > 0 {
		at := time.Now().Add(life)
		r.ExpiresAt = &at
	}
	var chance [access.EntropyBytes]byte
	_, _ = rand.Read(chance[:])
	k, token, err := access.Issue(r, principal.Anonymous, uuid.Must(uuid.NewV7()), chance, time.Now())
	if err == nil {
		err = w.Create(w.t.Context(), k)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return k, string(token)
}

// wants fails the test unless the credential has the given result, where nil means that it is
// accepted.
func (w *world) wants(when, credential string, why error) {
	w.t.Helper()
	_, err := w.checker.Identify(w.t.Context(), credential)
	switch {
	case why == nil:
		if err != nil {
			w.t.Errorf("%s: %v, want that it counts", when, err)
		}
	case fault.KindOf(err) != fault.Unauthenticated || !fault.IsCode(err, principal.CodeInvalid) || !errors.Is(err, why):
		w.t.Errorf("%s: %v, want it refused because %v", when, err, why)
	}
}

func TestKeyIdentifiesItsPrincipal(t *testing.T) {
	w := newWorld(t)
	k, token := w.issue("orders", 0)
	got, err := w.checker.Identify(t.Context(), token)
	if diff := cmp.Diff(k.Principal(), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestCauseOfARefusedCredentialIsNotShown(t *testing.T) {
	w := newWorld(t)
	revoked, revokedToken := w.issue("revoked", 0)
	if _, err := w.Revoke(t.Context(), nil, revoked.ID, "x", time.Now()); err != nil {
		t.Fatal(err)
	}
	_, good := w.issue("good", 0)
	_, unknown := newWorld(t).issue("elsewhere", 0)
	other := []byte(good) // the prefix is correct, but the secret is not
	other[20] ^= 1
	var said string
	for name, credential := range map[string]string{
		"unknown": unknown, "revoked": revokedToken, "another secret": string(other), "nothing": "", "garbage": "hunter2",
		"a JWT where there are none": "a.b.c", "endless": strings.Repeat("x", 100_000),
	} {
		_, err := w.checker.Identify(t.Context(), credential)
		f := fault.As(err)
		if f == nil || f.Kind != fault.Unauthenticated || f.Code != principal.CodeInvalid || f.Unwrap() == nil {
			t.Fatalf("%s: %v, want it refused with a cause", name, err)
		}
		if said == "" {
			said = f.Detail
		}
		if f.Detail != said {
			t.Errorf("%s: clients are told %q, others %q", name, f.Detail, said)
		}
	}
}

func TestLookupsOfAKeyAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k, token := w.issue("orders", 0)
		for range 1000 {
			w.wants("again and again", token, nil)
		}
		if n := w.asked.Load(); n != 1 {
			t.Errorf("a thousand requests asked the store %d times", n)
		}
		if _, err := w.Revoke(t.Context(), nil, k.ID, "x", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		w.wants("five seconds after it was revoked", token, access.ErrKeyRevoked)
		for range 1000 {
			w.wants("revoked", token, access.ErrKeyRevoked)
		}
		if n := w.asked.Load(); n != 2 {
			t.Errorf("the store was asked %d times, want 2", n)
		}
	})
}

func TestCacheAgeCountsFromTheStartOfTheLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k, token := w.issue("orders", 0)
		w.gate = make(chan struct{})
		slow := make(chan struct{})
		go func() { // after three seconds, the store returns the state from before the revocation
			defer close(slow)
			w.wants("a slow answer", token, nil)
		}()
		time.Sleep(3 * time.Second)
		close(w.gate)
		<-slow
		if _, err := w.Revoke(t.Context(), nil, k.ID, "x", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.wants("four seconds after the question", token, access.ErrKeyRevoked)
	})
}

func TestCachedKeyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, token := w.issue("orders", 2*time.Second)
		w.wants("before its end", token, nil)
		time.Sleep(2 * time.Second)
		if _, err := w.checker.Identify(t.Context(), token); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("at its end: %v", err)
		}
		if n := w.asked.Load(); n != 1 {
			t.Errorf("the store was asked %d times, so the cache was not tried", n)
		}
	})
}

func TestConcurrentRequestsShareOneLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, token := w.issue("orders", 0)
		w.gate = make(chan struct{})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { w.wants("at once", token, nil) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.checker.Identify(ctx, token); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has left waits: %v", err)
		}
		close(w.gate)
		all.Wait()
		if n := w.asked.Load(); n != 1 {
			t.Errorf("fifty requests asked the store %d times", n)
		}
	})
}

func TestOutageIsNotCachedAsARefusal(t *testing.T) {
	w := newWorld(t)
	_, token := w.issue("orders", 0)
	w.down = errors.New("connection refused")
	if _, err := w.checker.Identify(t.Context(), token); err == nil || fault.As(err) != nil {
		t.Errorf("error = %v, want an outage", err)
	}
	w.down = nil
	w.wants("after the outage", token, nil)
}

func TestTheFirstUseIsRecordedSoonLaterOnesOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k, token := w.issue("orders", 0)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.checker.Run(ctx) }()
		lastUse := func() *time.Time {
			got, err := w.Get(t.Context(), nil, k.ID)
			if err != nil {
				t.Fatal(err)
			}
			return got.LastUsedAt
		}
		first := time.Now().Truncate(time.Microsecond)
		w.wants("the first use", token, nil)
		if got := lastUse(); got != nil {
			t.Errorf("the request itself wrote %v", got)
		}
		time.Sleep(3 * time.Second)
		if got := lastUse(); got == nil || !got.Equal(first) {
			t.Errorf("soon after it the last use is %v, want %v", got, first)
		}
		for range 11 { // until 58 s after the first
			time.Sleep(5 * time.Second)
			w.wants("a use within the minute", token, nil)
		}
		if got := lastUse(); !got.Equal(first) {
			t.Errorf("within the minute the last use became %v", got)
		}
		time.Sleep(5 * time.Second)
		next := time.Now().Truncate(time.Microsecond)
		w.wants("a use after the minute", token, nil)
		time.Sleep(3 * time.Second)
		if got := lastUse(); !got.Equal(next) {
			t.Errorf("after the minute the last use is %v, want %v", got, next)
		}
		w.down = errors.New("connection refused")
		w.wants("during an outage, from the cache or not", "x", errForm(w))
		time.Sleep(time.Minute)
		w.down = nil
		last := time.Now().Truncate(time.Microsecond)
		w.wants("the last use", token, nil)
		stop()
		<-ended
		if got := lastUse(); got == nil || !got.Equal(last) {
			t.Errorf("after the end the last use is %v, want %v", got, last)
		}
	})
}

// errForm is the cause for refusing something that is not a credential.
func errForm(w *world) error {
	_, err := w.checker.Identify(w.t.Context(), "hunter2")
	return fault.As(err).Unwrap()
}

func TestUnknownCredentialsCannotFillTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // without delay, because cached results expire after seconds
		w := newWorld(t)
		_, token := w.issue("orders", 0)
		w.wants("before", token, nil)
		for i := range 25_000 {
			if _, err := w.checker.Identify(t.Context(), strings.Repeat("x", i%4000)+"."+
				strings.Repeat("y", i/4000)); err == nil {
				t.Fatal("garbage counts")
			}
		}
		if n := identity.Remembered(w.checker); n > 10_001 {
			t.Errorf("%d results are kept", n)
		}
		w.wants("after", token, nil)
		if n := w.asked.Load(); n != 1 {
			t.Errorf("garbage drove a key that counts out of the cache: the store was asked %d times", n)
		}
	})
}

func BenchmarkIdentifyCached(b *testing.B) {
	w := newWorld(&testing.T{})
	var chance [access.EntropyBytes]byte
	k, token, err := access.Issue(
		access.Request{Name: "a", Role: principal.Admin},
		principal.Anonymous,
		uuid.New(),
		chance,
		time.Now(),
	)
	if err == nil {
		err = w.Create(b.Context(), k)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.checker.Identify(b.Context(), string(token)); err != nil {
			b.Fatal(err)
		}
	}
}
