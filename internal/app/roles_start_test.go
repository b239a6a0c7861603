package app_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// loginOf is the name in a DSN.
func loginOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

func TestALoginThatDoesNotInheritItsRolesServes(t *testing.T) {
	t.Parallel()
	s := forgetfulCluster(t)
	admin := s.DSN(devpg.Database)
	owner := testdb.Login(t, admin, "")
	server := testdb.Login(t, admin, "NOINHERIT")
	execute(t, admin, db.RolesSQL(loginOf(t, owner), loginOf(t, server)))
	if _, err := db.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	set(t, admin, "fsync", "on")
	if err := inProd(t, server); err != nil {
		t.Errorf("in prod: %v", err)
	}
}

// A refused start reports which login lacks what, and what to run.
func TestALoginWithoutTheRolesIsToldWhatToRun(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	admin := s.DSN(devpg.Database)
	owner := testdb.Login(t, admin, "")
	execute(t, admin, db.RolesSQL(loginOf(t, owner)))
	if _, err := db.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, options string
		parts         []string
	}{
		{"no member", "", []string{"may not act as saga_app_role", "may not act as saga_engine_role"}},
		{"a member of one", "IN ROLE saga_app_role", []string{"may not act as saga_engine_role"}},
		{"a member of the other, without inheriting", "IN ROLE saga_engine_role NOINHERIT", []string{"may not act as saga_app_role"}},
		{"for people", "IN ROLE saga_readonly_role", []string{"may not act as saga_engine_role"}},
	} {
		login := testdb.Login(t, admin, tt.options)
		err := inProd(t, login)
		if err == nil {
			t.Errorf("%s: it serves", tt.name)
			continue
		}
		line := "`skald migrate roles " + loginOf(t, owner) + " " + loginOf(t, login) + " | psql " + devpg.Database + "`"
		for _, part := range append(tt.parts, "login "+loginOf(t, login), line) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the refusal lacks %q: %v", tt.name, part, err)
			}
		}
		for _, part := range []string{"column", "42501", "skald migrate up", "is open", "are open"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the refusal speaks of %q: %v", tt.name, part, err)
			}
		}
		if len(err.Error()) > 500 {
			t.Errorf("%s: the refusal is long: %v", tt.name, err)
		}
	}
	// A login that may only serve cannot migrate; the message names one that can.
	stranger := testdb.Login(t, admin, "IN ROLE saga_app_role, saga_engine_role")
	if _, err := db.Up(t.Context(), stranger); err == nil ||
		!strings.Contains(err.Error(), "belongs to "+loginOf(t, owner)) {
		t.Errorf("a login that does not own the schema migrates: %v", err)
	}
}
