package app_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres/devpg"
)

// A base backup and the archived WAL restore the database as it was at a point in time, and the
// node continues from there (S1-66). The settings are those of docs/operations.md.
func TestARestoreToAPointInTimeIsFinishedByTheEngine(t *testing.T) {
	t.Parallel()
	c := &calls{t: t, bodies: map[string]string{}, times: map[string]int{}, hold: make(chan struct{})}
	participant := httptest.NewServer(c)
	defer participant.Close()
	archive := t.TempDir()
	for d := archive; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // the server's account writes and reads here
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	primary := startServer(t, t.TempDir(), map[string]string{"fsync": "off", "archive_mode": "on",
		"archive_command": "test ! -f " + archive + "/%f && cp %p " + archive + "/%f"})
	soon := func(cfg *config.Config) { cfg.Engine.DrainTimeout = 0 }
	a := start(t, primary.DSN(devpg.Database), "a", soon)
	if status, doc := call(t, "POST", a.url+"/api/v1/workflows",
		strings.ReplaceAll(twoSteps, "URL", participant.URL)); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	begin := func(query string) string {
		t.Helper()
		status, doc := call(t, "POST", a.url+"/api/v1/sagas"+query, `{"workflow_name": "pair"}`)
		if status != 201 {
			t.Fatalf("create: %d %v", status, doc)
		}
		return doc["saga_id"].(string)
	}
	ended := begin("?wait=4m")
	dir := takeBase(t, primary)
	afterwards := begin("?wait=4m") // only in the WAL
	c.held.Store("/two", true)
	flying := begin("")
	c.seen("/two/execute", 3)
	p := owner(t, primary.DSN("postgres"))
	var moment time.Time
	if err := p.QueryRow(`SELECT clock_timestamp()`).Scan(&moment); err != nil {
		t.Fatal(err)
	}
	undone := begin("") // the mistake that the restore reverts
	var full string
	if err := p.QueryRow(`SELECT pg_walfile_name(pg_switch_wal())`).Scan(&full); err != nil {
		t.Fatal(err)
	}
	until(t, p, `SELECT last_archived_wal >= '`+full+`' FROM pg_stat_archiver`)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if err := primary.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	touch(t, dir, "recovery.signal")
	restored := startServer(t, dir, map[string]string{"fsync": "off",
		"restore_command": "cp " + archive + "/%f %p", "recovery_target_action": "promote",
		"recovery_target_time": moment.UTC().Format("2006-01-02 15:04:05.000000-07")})
	until(t, owner(t, restored.DSN("postgres")), `SELECT NOT pg_is_in_recovery()`)
	close(c.hold)
	b := start(t, restored.DSN(devpg.Database), "b", soon)
	for what, tt := range map[string]struct {
		id   string
		want any
		two  int // calls of step two
	}{
		"ended before the backup": {ended, "COMPLETED", 1},
		"ended after the backup":  {afterwards, "COMPLETED", 1},
		"in flight at the moment": {flying, "COMPLETED", 2},
		"begun after the moment":  {undone, 404.0, 1},
	} {
		_, doc := call(t, "GET", b.url+"/api/v1/sagas/"+tt.id+"?wait=4m", "")
		if doc["status"] != tt.want || c.count(tt.id+"/two/execute") > tt.two {
			t.Errorf(
				"%s: %v after %d calls of step two, want %v after at most %d",
				what,
				doc["status"],
				c.count(tt.id+"/two/execute"),
				tt.want,
				tt.two,
			)
		}
	}
}
