package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// At the signal to stop a node reports that it is not ready, and continues to serve until load
// balancers have had time to notice.
func TestANodeThatStopsIsNotReadyFirstAndClosesLater(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Second
	n := start(t, testdb.DSN(t), "draining", func(c *config.Config) { c.Server.DrainDelay = delay })
	begun, ended := time.Now(), make(chan error, 1)
	go func() { ended <- n.stop() }()
	for {
		res, err := http.Get(n.url + "/readyz")
		if err != nil {
			t.Fatalf("the socket is closed %s after the signal: %v", time.Since(begun), err)
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if time.Since(begun) > delay {
			t.Fatal("it is ready for as long as it is there")
		}
		time.Sleep(time.Millisecond)
	}
	// On a new connection, like a client that has not noticed yet.
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if status := served(t, n.url); status != 200 && time.Since(begun) < delay {
		t.Errorf("not ready, and it no longer serves: %d", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < delay {
		t.Errorf("it was gone after %s", took)
	}
	if res, err := http.Get(n.url + "/readyz"); err == nil {
		_ = res.Body.Close()
		t.Error("the socket is still there")
	}
}
