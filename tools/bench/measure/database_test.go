package measure

import (
	"context"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/postgres/devpg"
)

// startPostgres returns a private server with additional settings.
func startPostgres(t *testing.T, settings map[string]string) *devpg.Server {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Config{Dir: t.TempDir(), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestOpenDatabaseRefusesWhatMayLoseCommits(t *testing.T) {
	server := startPostgres(t, map[string]string{"fsync": "off", "full_page_writes": "off"})
	_, err := openDatabase(t.Context(), server.DSN(devpg.Database))
	if err == nil {
		t.Fatal("openDatabase gave no error")
	}
	for setting, refused := range map[string]bool{"fsync": true, "full_page_writes": true, "synchronous_commit": false} {
		if got := strings.Contains(err.Error(), setting+" is off"); got != refused {
			t.Errorf("openDatabase = %v; names %s: %t, want %t", err, setting, got, refused)
		}
	}
}

func TestOpenDatabaseFindsTheLocalPostmaster(t *testing.T) {
	server := startPostgres(t, nil)
	db, err := openDatabase(t.Context(), server.DSN(devpg.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	if db.postmaster != server.PID() {
		t.Errorf("postmaster = %d; want %d", db.postmaster, server.PID())
	}
	if err := db.findPostmaster(t.Context(), fakeProc(t, nil)); err != nil || db.postmaster != server.PID() {
		t.Errorf("a process that cannot be found changed the postmaster to %d, %v", db.postmaster, err)
	}
}
