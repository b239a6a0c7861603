package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// proxy sits between a store and its server. It can fall silent: connections stay open but no bytes
// pass, as when a machine loses power. It can cut once: the client's message still arrives, and the
// connection is cut when the server answers. It can also lead to another server.
type proxy struct {
	port         string
	target       atomic.Pointer[string]
	silent, mute atomic.Bool
	startup      func([]byte) []byte // changes a client's first message; nil: unchanged
}

func newProxy(t *testing.T, target string, startup func([]byte) []byte) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{port: port, startup: startup}
	p.target.Store(&target)
	var pumps sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn // guarded by mu
	pumps.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", *p.target.Load())
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client, server)
			mu.Unlock()
			pumps.Go(func() { p.pump(client, server, nil, p.startup) })
			pumps.Go(func() { p.pump(server, client, &p.mute, nil) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		pumps.Wait()
	})
	return p
}

// pump copies bytes until one side closes, or cut is set, which cuts once. The first message
// passes through first, unless that is nil.
func (p *proxy) pump(from, to net.Conn, cut *atomic.Bool, first func([]byte) []byte) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if p.silent.Load() {
			_, _ = io.Copy(io.Discard, from) // read and dropped
			return
		}
		if cut != nil && cut.CompareAndSwap(true, false) {
			from.Close()
			return
		}
		message := buf[:n]
		if first != nil {
			message, first = first(message), nil
		}
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

func TestASilentServerIsAnOutageWithinTheIOTimeout(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	server, err := pq.NewConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, net.JoinHostPort(server.Host, fmt.Sprint(server.Port)), nil)
	dsn = pgtest.With(t, pgtest.With(t, dsn, "host", "127.0.0.1"), "port", p.port)
	// The timeout of reads and writes is a second above the server's own, which
	// is two for leases.
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, StatementTimeout: 500 * time.Millisecond,
		IOTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	pgtest.Registered(t, db)
	st := sagadb.NewSagas(db)
	ctx := context.Background() // without its own deadline
	calls := map[string]func() error{
		"a read":    func() error { _, err := st.Load(ctx, pgtest.RefsOf(pgtest.Big)); return err },
		"a create":  func() error { _, err := st.Create(ctx, pgtest.SomeSagas(1)); return err },
		"a commit":  func() error { _, err := st.Commit(ctx, pgtest.SomeChanges(1)); return err },
		"a renewal": func() error { _, err := st.Renew(ctx, 1, time.Minute); return err },
		"a list": func() error {
			_, err := st.List(ctx, pgtest.Big, saga.Filter{ByTime: page.ByTime{Limit: 1}})
			return err
		},
	}
	for what, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("%s before the silence: %v", what, err)
		}
	}
	p.silent.Store(true)
	var wg sync.WaitGroup
	for what, call := range calls {
		wg.Go(func() {
			if err := call(); err == nil || fault.As(err) != nil {
				t.Errorf("%s in the silence: %v; want an outage", what, err)
			}
		})
	}
	found := make(chan struct{})
	go func() { wg.Wait(); close(found) }()
	patience.Receive(t, "all calls have found out", found)
	p.silent.Store(false)
	for what, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s after the silence: %v", what, err)
		}
	}
}
