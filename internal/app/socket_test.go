package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/config"
)

// A node that starts waits for what passes, and says so at once and then each minute; what no waiting changes ends it.
func TestAStartWaitsForWhatPassesAndSaysSoOnceAMinute(t *testing.T) {
	passing := map[string]error{
		"not there":               io.EOF,
		"no connection left":      &pq.Error{Code: "53300"},
		"starting":                &pq.Error{Code: "57P03"},
		"a full disk":             &pq.Error{Code: "53100"},
		"read-only":               &pq.Error{Code: "25006"},
		"does not answer in time": context.DeadlineExceeded,
		"not migrated":            &db.Pending{},
	}
	for name, problem := range passing {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				var s socket
				began := time.Now()
				err := s.openWaiting(t.Context(), slog.New(slog.NewTextHandler(&text, nil)), func() error {
					if time.Since(began) < 150*time.Second {
						return fmt.Errorf("open: %w", problem)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for said, want := range map[string]int{"waiting for the database": 3, "the database is usable": 1} {
					if n := strings.Count(text.String(), said); n != want {
						t.Errorf("in 150 s the log says %q %d times, want %d:\n%s", said, n, want, text.String())
					}
				}
				if s.obstacle.Load() == nil || *s.obstacle.Load() == "" {
					t.Error("responses do not say what is missing")
				}
			})
		})
	}
	for name, problem := range map[string]error{
		"a wrong password": &pq.Error{Code: "28P01"}, "no such database": &pq.Error{Code: "3D000"},
		"a missing right": &pq.Error{Code: "42501"}, "of the program": errors.New("a bug"),
	} {
		var s socket
		tries := 0
		err := s.openWaiting(t.Context(), slog.New(slog.DiscardHandler), func() error { tries++; return problem })
		if tries != 1 || !errors.Is(err, problem) {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
	}
}

// The error about an address that is in use names the setting and suggests a remedy.
func TestAPortInUseIsExplained(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := config.Default(config.Test)
	cfg.Server.ListenAddr = taken.Addr().String()
	err = Run(t.Context(), cfg, Options{EUID: 1000, Log: slog.New(slog.DiscardHandler)})
	want := "server.listen_addr (SKALD_LISTEN_ADDR): another process uses " + taken.Addr().String() +
		": end it, or choose another port (port 0 takes a free one)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
	_, err = new(node).serveProfiling(taken.Addr().String())
	if err == nil || !strings.HasPrefix(err.Error(), "server.debug_addr (SKALD_SERVER_DEBUG_ADDR): another process uses") {
		t.Errorf("for profiling: %v", err)
	}
}
