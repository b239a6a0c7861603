package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// cluster is a private server: roles belong to the cluster, and these tests need one without
// them.
func cluster(t *testing.T) *devpg.Server {
	t.Helper()
	return clusterIn(t, t.TempDir(), map[string]string{"fsync": "off"})
}

func clusterIn(t *testing.T, dir string, settings map[string]string) *devpg.Server {
	t.Helper()
	s, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// forgetfulCluster is cluster without fsync, which can be turned on before prod starts:
// migrations would take ten times as long with it.
func forgetfulCluster(t *testing.T) *devpg.Server {
	t.Helper()
	dir := t.TempDir()
	s, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s.DSN(devpg.Database), "ALTER SYSTEM SET fsync = off")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return clusterIn(t, dir, nil)
}

// set changes a setting of the whole server, and waits until it is in effect.
func set(t *testing.T, admin, name, value string) {
	t.Helper()
	execute(t, admin, "ALTER SYSTEM SET "+name+" = "+value, "SELECT pg_reload_conf()")
	pool, err := sql.Open("postgres", admin)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	patience.Until(t, name+" is "+value, func() bool {
		var is string
		if err := pool.QueryRowContext(t.Context(), "SELECT current_setting($1)", name).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is == value
	})
}

func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	pool, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, s := range statements {
		if _, err := pool.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// inProd starts a node in production, stops it when it is ready, and returns why it did not
// start.
func inProd(t *testing.T, dsn string) error {
	t.Helper()
	cfg := config.Default(config.Prod)
	cfg.Server.DrainDelay = 0 // it gets no requests
	cfg.Database.URL, cfg.Server.ListenAddr = config.Secret(dsn), "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	return app.Run(ctx, cfg, app.Options{Log: slog.New(slog.DiscardHandler), Ready: func(string) { stop() }})
}

// served creates a saga, which calls a closed port, and reads it.
func served(t *testing.T, url string) (status int) {
	t.Helper()
	_, doc := call(
		t,
		"POST",
		url+"/api/v1/sagas",
		`{"steps": [{"name": "one", "action": {"http": {"url": "http://127.0.0.1:1/"}}, "compensation": "none"}], "workflow_name": "w"}`,
	)
	id, ok := doc["saga_id"].(string)
	if !ok {
		t.Fatalf("create: %v", doc)
	}
	status, _ = call(t, "GET", url+"/api/v1/sagas/"+id, "")
	return status
}

func TestWithoutTheRolesDevWarnsAndProdRefuses(t *testing.T) {
	t.Parallel()
	s := forgetfulCluster(t)
	weak := testdb.Login(t, s.DSN(devpg.Database), "")
	n := start(t, weak, "weak")
	if status := served(t, n.url); status != 200 {
		t.Errorf("without roles a saga is read with %d", status)
	}
	if log := n.logs.String(); !strings.Contains(log, "role saga_app_role does not exist") ||
		!strings.Contains(log, "skald migrate roles "+loginOf(t, weak)+" | psql") {
		t.Errorf("the log lacks the reason or the remedy: %s", log)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	var insecure *db.Insecure
	err := inProd(t, weak)
	if !errors.As(err, &insecure) {
		t.Fatalf("in prod: %v; want a refusal", err)
	}
	for _, part := range []string{"role saga_engine_role does not exist", "skald migrate roles " + insecure.Login + " | psql " + devpg.Database,
		"skald migrate up", "tables are open"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal lacks %q: %v", part, err)
		}
	}
	// The administrator runs the statements from the message.
	execute(t, s.DSN(devpg.Database), db.RolesSQL(insecure.Login))
	if err := inProd(t, weak); !errors.As(err, &insecure) ||
		!slices.Contains(insecure.Problems, "table saga.saga_states is open") ||
		strings.Contains(err.Error(), "migrate roles") {
		t.Errorf("with roles, and tables that are still open: %v", err)
	}
	if _, err := db.Up(t.Context(), weak); err != nil {
		t.Fatal(err)
	}
	set(t, s.DSN(devpg.Database), "fsync", "on")
	if err := inProd(t, weak); err != nil {
		t.Errorf("secured, prod refuses: %v", err)
	}
	// The owner of the tables drives its sagas, although row-level security is forced on it
	// too.
	if status := served(t, start(t, weak, "weak again").url); status != 200 {
		t.Errorf("a saga is read with %d", status)
	}
	// Another login may serve, with no right to change the schema.
	server := testdb.Login(t, s.DSN(devpg.Database), "IN ROLE saga_app_role, saga_engine_role")
	if err := inProd(t, server); err != nil {
		t.Errorf("a login of its own: %v", err)
	}
	stranger := testdb.Login(t, s.DSN(devpg.Database), "IN ROLE saga_engine_role")
	if err := inProd(t, stranger); !errors.As(err, &insecure) ||
		!strings.Contains(err.Error(), "may not act as saga_app_role") {
		t.Errorf("a login that is not a member: %v", err)
	}
}

func TestDatabasesOfOneClusterMigratedTogetherShareTheRoles(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	dsns := []string{s.DSN(devpg.Database)}
	for i := range 3 {
		name := fmt.Sprint("other", i)
		execute(t, s.DSN("postgres"), "CREATE DATABASE "+name)
		dsns = append(dsns, s.DSN(name))
	}
	var all sync.WaitGroup
	for _, dsn := range dsns {
		all.Go(func() {
			if _, err := db.Up(t.Context(), dsn); err != nil {
				t.Error(err)
			}
			if err := db.Secured(t.Context(), dsn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// The schema of one database is dropped; the roles of the others stay.
	if _, err := db.Down(t.Context(), dsns[1], 0); err != nil {
		t.Error(err)
	}
	if err := db.Secured(t.Context(), dsns[2]); err != nil {
		t.Error(err)
	}
}

func TestALoginThatMayCreateRolesNeedsNoAdministrator(t *testing.T) {
	t.Parallel()
	admin := forgetfulCluster(t).DSN(devpg.Database)
	owner := testdb.Login(t, admin, "CREATEROLE")
	if _, err := db.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	set(t, admin, "fsync", "on")
	if err := inProd(t, owner); err != nil {
		t.Error(err)
	}
}

// Skald logs in to the private PostgreSQL as its superuser, whom no policy restricts; requests
// must be served with the application's role nevertheless.
func TestThePrivateDatabasesSuperuserActsAsTheRoles(t *testing.T) {
	t.Parallel()
	cfg := config.Default(config.Dev)
	cfg.Database.EmbeddedDir, cfg.Server.ListenAddr = t.TempDir(), "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	logs := &syncBuffer{}
	go func() {
		ended <- app.Run(ctx, cfg, app.Options{Log: slog.New(slog.NewJSONHandler(logs, nil)),
			Ready: func(url string) { ready <- url }})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	url := patience.Receive(t, "it is ready", ready)
	if strings.Contains(logs.String(), "row-level security") {
		t.Errorf("the log warns: %s", logs)
	}
	s, err := devpg.Start(t.Context(), devpg.Config{Dir: cfg.Database.EmbeddedDir}) // attaches
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	admin := s.DSN(devpg.Database)
	if status := served(t, url); status != 200 {
		t.Fatalf("a saga is read with %d", status)
	}
	execute(t, admin, `REVOKE SELECT ON saga.saga_states FROM saga_app_role`)
	if status := served(t, url); status < 500 { // created by the engine's role, not readable by the application's
		t.Errorf(
			"without the application's right to read, a saga is read with %d: the login's own rights are at work",
			status,
		)
	}
	execute(t, admin, `GRANT SELECT ON saga.saga_states TO saga_app_role`)
	if status := served(t, url); status != 200 {
		t.Errorf("a saga is read with %d", status)
	}
}
