package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// When a node receives the signal to stop, it reports that it is not ready and continues to serve
// until load balancers have had time to notice.
func TestANodeThatStopsIsNotReadyFirstAndClosesLater(t *testing.T) {
	t.Parallel()
	const delay = 3 * time.Minute
	asked, over := make(chan time.Duration, 1), make(chan time.Time)
	n := startWith(t, testdb.DSN(t), "draining", func(o *app.Options) {
		o.After = func(d time.Duration) <-chan time.Time { asked <- d; return over }
	}, func(c *config.Config) { c.Server.DrainDelay = delay })
	ended := make(chan error, 1)
	go func() { ended <- n.stop() }()
	if d := patience.Receive(t, "it drains", asked); d != delay {
		t.Errorf("it drains for %s, want %s", d, delay)
	}
	// Use new connections, like a client that has not noticed yet.
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	res, err := http.Get(n.url + "/readyz")
	if err != nil {
		t.Fatalf("the socket is closed while it drains: %v", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while it drains /readyz answers %d", res.StatusCode)
	}
	if status := served(t, n.url); status != 200 {
		t.Errorf("not ready, and it no longer serves: %d", status)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended before its time: %v", err)
	default:
	}
	close(over)
	if err := patience.Receive(t, "it ends", ended); err != nil {
		t.Error(err)
	}
	if res, err := http.Get(n.url + "/readyz"); err == nil {
		_ = res.Body.Close()
		t.Error("the socket is still there")
	}
}
