package main

import (
	"database/sql"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	dsn := testdb.DSN(t)
	env := []string{"SKALD_DATABASE_URL=" + dsn, "SKALD_LOG_LEVEL=error"}
	const tenant = "0198a5b0-0000-7000-8000-000000000002"
	for _, tt := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"create", "--name", "ops", "--role", "admin", "--any-tenant"}, "role admin, tenant any", 0},
		{[]string{"create", "--name", "orders", "--role", "operator", "--tenant", tenant, "--expires", "720h", "--reason", "new shop"}, "role operator, tenant " + tenant, 0},
		{[]string{"create", "--name", "here", "--role", "auditor"}, "role auditor, tenant 00000000-0000-0000-0000-000000000001", 0},
		{[]string{"create", "--name", "papers", "--role", "worker", "--queues", "b,a"}, "role worker, tenant 00000000-0000-0000-0000-000000000001, queues a,b", 0},
		{[]string{"create", "--name", "x", "--role", "operator", "--queues", "a"}, "/queues is for the role worker only", 1},
		{[]string{"create", "--name", "x", "--role", "worker", "--queues", ""}, "/queues must be 1 to 100 names", 1},
		{[]string{"create", "--name", "x", "--role", "worker", "--queues="}, "/queues must be 1 to 100 names", 1},
		{[]string{"create", "--name", "a b", "--role", "auditor"}, "/name", 1},
		{[]string{"create", "--name", "x", "--role", "operator", "--any-tenant"}, "/any_tenant", 1},
		{[]string{"create", "--name", "x", "--role", "operator", "--expires=-1h"}, "/expires_at", 1},
		{[]string{"create", "--name", "x", "--role", "root"}, "must be one of", 1},
		{[]string{"create", "--name", "x", "--role", "admin", "--any-tenant", "--tenant", tenant}, "can't be used together", 1},
		{[]string{"create", "--name", "x", "--role", "admin", "--reason", strings.Repeat("x", 501)}, "at most 500 characters", 1},
		{[]string{"revoke", "0198a5b0-0000-7000-8000-000000000003", "--reason", "lost"}, access.CodeKeyNotFound, 1},
		{[]string{"revoke", "0198a5b0-0000-7000-8000-000000000003"}, "give the reason with --reason", 1},
		{[]string{"revoke", "0198a5b0-0000-7000-8000-000000000003", "--reason", " "}, "give the reason with --reason", 1},
		{[]string{"revoke", "ops", "--reason", "lost"}, "invalid UUID", 1},
	} {
		out, code := run(t, env, append([]string{"key"}, tt.args...)...)
		if (code != 0) != (tt.code != 0) || !strings.Contains(out, tt.want) {
			t.Errorf("key %v: exit %d, %s; want %q", tt.args, code, out, tt.want)
		}
		if _, ok := access.ParseToken(lastLine(out)); ok != (tt.code == 0) {
			t.Errorf("key %v prints a key: %t\n%s", tt.args, ok, out)
		}
	}
	list, _ := run(t, env, "key", "list")
	row := regexp.MustCompile(`(?m)^(\S{36})  \w{8}  orders  operator  ` + tenant).FindStringSubmatch(list)
	if row == nil || strings.Count(list, "\n") != 5 || !strings.Contains(list, "  a,b  ") ||
		!strings.Contains(list, "any ") || strings.Contains(list, "skald_") {
		t.Fatalf("the list is\n%s", list)
	}
	if out, code := run(t, env, "key", "revoke", row[1], "--reason", "it was in a ticket"); code != 0 ||
		!strings.Contains(out, "(orders) is revoked") {
		t.Errorf("revoke: exit %d, %s", code, out)
	}
	if list, _ := run(t, env, "key", "list"); strings.Contains(list, "orders") {
		t.Errorf("a revoked key is listed:\n%s", list)
	}
	if list, _ := run(t, env, "key", "list", "--all"); !strings.Contains(list, "orders") {
		t.Errorf("a revoked key is not listed with --all:\n%s", list)
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for operation, want := range map[string]string{"skald key revoke": "it was in a ticket",
		"skald key create": "new shop"} {
		var why string
		err := db.QueryRowContext(t.Context(), `SELECT reason FROM saga.audit_actions WHERE kind = 'api_key' AND subject = $1 AND operation = $2 AND actor = 'cli'`,
			row[1], operation).
			Scan(&why)
		if err != nil || why != want {
			t.Errorf("%s is on record with the reason %q, %v", operation, why, err)
		}
	}
}

// TestAKeyGoesToTheOutputAlone ensures that scripts can capture the key: KEY=$(skald key create …).
func TestAKeyGoesToTheOutputAlone(t *testing.T) {
	env := []string{"SKALD_DATABASE_URL=" + testdb.DSN(t), "HOME=" + t.TempDir()}
	for _, args := range [][]string{{"key", "create", "--name", "a", "--role", "admin", "--any-tenant"},
		{"key", "generate"}} {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = t.TempDir(), env
		out, err := cmd.Output()
		if _, ok := access.ParseToken(strings.TrimSuffix(string(out), "\n")); !ok || err != nil {
			t.Errorf("%v: %q, %v; want a key and nothing else", args, out, err)
		}
	}
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}
