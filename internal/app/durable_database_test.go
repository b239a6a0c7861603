package app_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestProdRefusesANonDurableDatabase(t *testing.T) {
	t.Parallel()
	admin := forgetfulCluster(t).DSN(devpg.Database)
	server := testdb.Login(t, admin, "")
	execute(t, admin, db.RolesSQL(loginOf(t, server)))
	if _, err := db.Up(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	set(t, admin, "fsync", "on")
	if err := inProd(t, server); err != nil {
		t.Fatalf("with everything on: %v", err)
	}
	for _, name := range postgres.Settings {
		set(t, admin, name, "off")
		if err := inProd(t, server); err == nil || !strings.Contains(err.Error(), name+" is off") {
			t.Errorf("%s off: %v", name, err)
		}
		set(t, admin, name, "on")
	}
	execute(t, admin, "ALTER ROLE "+loginOf(t, server)+" SET synchronous_commit = off")
	if err := inProd(t, server); err == nil || !strings.Contains(err.Error(), "synchronous_commit is off") {
		t.Errorf("off for the login alone: %v", err)
	}
	if err := inProd(t, admin); err == nil || !strings.Contains(err.Error(), "is a superuser") {
		t.Errorf("as a superuser: %v", err)
	}
}

func TestOutsideProdANonDurableDatabaseIsAWarning(t *testing.T) {
	t.Parallel()
	n := start(t, testdb.DSN(t), "a") // test servers trade durability for speed
	_, doc := call(t, "GET", n.url+"/readyz", "")
	warnings, _ := doc["warnings"].([]any)
	res, err := http.Get(n.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range postgres.Settings {
		if !strings.Contains(n.logs.String(), name+" is off") {
			t.Errorf("the log does not warn of %s: %s", name, n.logs)
		}
		if !slices.Contains(warnings, any("PostgreSQL's "+name+" is off")) {
			t.Errorf("readiness does not warn of %s: %v", name, doc)
		}
		if !strings.Contains(string(metrics), `skald_database_risk{risk="`+name+`"} 1`) {
			t.Errorf("no metric warns of %s", name)
		}
	}
	if version, _ := doc["schema_version"].(float64); doc["status"] != "ok" || version < 175 {
		t.Errorf("readiness: %v", doc)
	}
	if !strings.Contains(string(metrics), "skald_database_writable 1") {
		t.Error("no metric says that the database takes writes")
	}
}
