package main

import (
	"database/sql"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// holdMigration makes a migration wait halfway, while it creates a table, as long as the gate table
// has a row.
const holdMigration = `
	CREATE TABLE public.gate AS SELECT true AS closed;
	CREATE FUNCTION public.hold() RETURNS event_trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE object_identity = 'saga.webhooks') THEN
			WHILE EXISTS (SELECT FROM public.gate) LOOP
				PERFORM pg_sleep(0.02);
			END LOOP;
		END IF;
	END $$;
	CREATE EVENT TRIGGER held ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.hold()`

// TestTwoNodesStartBesideTheirMigration plays the worst case of the chart in a cluster: both nodes
// start before the migration job, which is killed halfway and started again, twice concurrently.
func TestTwoNodesStartBesideTheirMigration(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	execute := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	execute(holdMigration)
	var nodes [2]string
	for i := range nodes {
		cmd, url, logged := launch(t, dsn, []string{"SKALD_DATABASE_AUTO_MIGRATE=false"})
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			if err := patience.Receive(t, "the node stops", ended); err != nil || t.Failed() {
				text, _ := os.ReadFile(logged)
				t.Errorf("%v\n%s", err, text)
			}
		})
		nodes[i] = url
	}
	// wait waits until each node is alive, is not ready, and reports the migration for which it
	// waits.
	wait := func(migration string) {
		t.Helper()
		for _, url := range nodes {
			patience.Until(t, url+" waits for "+migration, func() bool {
				res, err := http.Get(url + "/readyz")
				if err != nil {
					return false
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				return err == nil && res.StatusCode == 503 &&
					strings.Contains(string(text), "the database lacks migration "+migration)
			})
			must(t, "GET", url+"/healthz", "")
			status, said := ask(t, "POST", url+"/api/v1/sagas", `{"workflow_name":"w"}`)
			if status != 503 || !strings.Contains(said["detail"].(string), "`skald migrate up`") {
				t.Errorf("a saga before the migration: %d %v", status, said)
			}
		}
	}
	job := func() *exec.Cmd {
		t.Helper()
		cmd := exec.Command(program, "migrate", "up")
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"SKALD_ENV=test", "SKALD_DATABASE_URL=" + dsn}
		cmd.Stdout, cmd.Stderr = &strings.Builder{}, &strings.Builder{}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	wait("0001_schema")
	first := job()
	patience.Until(t, "the migration is in its middle", func() bool {
		var held bool
		err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep')`).Scan(&held)
		return err == nil && held
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	wait("0012_webhooks")
	again, beside := job(), job()
	execute(`DELETE FROM public.gate`)
	var counts []string
	for _, cmd := range []*exec.Cmd{again, beside} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("migrating again: %v: %s", err, cmd.Stderr)
		}
		said := cmd.Stdout.(*strings.Builder).String()
		n, ok := strings.CutSuffix(said, " migrations applied\n")
		if !ok {
			t.Errorf("a job says %q", said)
		}
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if counts[0] != "0" || counts[1] == "0" {
		t.Errorf("two jobs at once have applied %q migrations: one of them finds nothing to do", counts)
	}
	for _, url := range nodes {
		ready(t, url)
		must(t, "GET", url+"/api/v1/sagas", "")
	}
}
