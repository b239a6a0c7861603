package app_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func TestProfilesAreServedAtTheirOwnAddress(t *testing.T) {
	t.Parallel()
	debug := testnet.FreeAddress(t)
	n := start(t, testdb.DSN(t), "profiled", func(c *config.Config) { c.Server.DebugAddr = debug })
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
		for base, want := range map[string]int{"http://" + debug: http.StatusOK, n.url: http.StatusNotFound} {
			res, err := http.Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != want || len(text) == 0 {
				t.Errorf("%s%s: %d with %d bytes, %v; want %d", base, path, res.StatusCode, len(text), err, want)
			}
		}
	}
}
