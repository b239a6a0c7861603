package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	got := mistakes(t, `
databse: {host: db}
database:
  max_open_cons: 5
  max_open_conns: 0
  conn_max_lifetime: 300
  ssl_mode: prefer
  version: 1
app:
  version: 1.10
server: fast
lease_ttl: 5s
`,
		"SKALD_LISTEN_ADR=:80",
		"SKALD_LEASE_TTL=soon",
		"SKALD_DATABASE_AUTO_MIGRATE=",
		"SKALD_DATABASE_IO_TIMEOUT=5s",
		"SKALD_EGRESS_ALLOW=10.0.0.0/8,nonsense:port,10.0.0.0/33",
		"SKALD_XYZZY=1",
	)
	want := []string{
		"app.version (FILE; env SKALD_APP_VERSION): must be text, at most 64 characters; put it in quotes",
		"database.conn_max_lifetime (FILE; env SKALD_DATABASE_CONN_MAX_LIFETIME): must be 0 or a duration from 1s to 24h",
		"database.max_open_cons (FILE): unknown key; did you mean database.max_open_conns?",
		"database.version (FILE): unknown key; did you mean app.version?",
		"databse (FILE): unknown key; did you mean database?",
		"lease_ttl (FILE): unknown key; did you mean engine.lease_ttl?",
		"server (FILE): must be a section with keys under it",
		"database.auto_migrate (SKALD_DATABASE_AUTO_MIGRATE): must be true or false",
		"engine.lease_ttl (SKALD_LEASE_TTL): must be a duration from 1s to 5m",
		"SKALD_LISTEN_ADR: unknown variable; did you mean SKALD_LISTEN_ADDR?",
		"SKALD_XYZZY: unknown variable",
		"database.ssl_mode (FILE; env SKALD_DATABASE_SSL_MODE): must be one of disable, require, verify-ca, verify-full",
		"database.max_open_conns (FILE; env SKALD_DATABASE_MAX_OPEN_CONNS): must be a whole number from 10 to 1000",
		"egress.allow (SKALD_EGRESS_ALLOW): must be a list whose entries are an address, CIDR, host name or *.domain, each alone or with :port or :port-port; entry 2 is not",
		"egress.allow (SKALD_EGRESS_ALLOW): must be a list whose entries are an address, CIDR, host name or *.domain, each alone or with :port or :port-port; entry 3 is not",
		"database.io_timeout (SKALD_DATABASE_IO_TIMEOUT): must exceed database.statement_timeout",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

func TestTheErrorListsOneMistakePerLine(t *testing.T) {
	_, err := Load("", []string{"SKALD_ENV=qa", "SKALD_LOG_LEVEL=loud"})
	const want = `configuration: 2 errors
  app.environment (SKALD_ENV): must be one of dev, test, staging, prod
  log.level (SKALD_LOG_LEVEL): must be one of debug, info, warn, error`
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant %s", err, want)
	}
}

func TestMistakesInTheFile(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"a key given twice", "log:\n  level: info\n  level: warn\n", `FILE: line 3: mapping key "level" already defined at line 2`},
		{"bad syntax names the line", "log:\n\t- x", "FILE: is not valid YAML: line 2: found character that cannot start any token"},
		{"not a mapping", "- a\n- b\n", "FILE: must be sections with keys under them"},
		{"two documents", "log: {level: info}\n---\nlog: {level: warn}\n", "FILE: must contain a single YAML document"},
		{"a path in one piece", "database.host: db\n", "database.host (FILE; env SKALD_DATABASE_HOST): must be written as host under database"},
		{"another spelling", "database: {maxOpenConns: 5}\n", "database.maxOpenConns (FILE): unknown key; did you mean database.max_open_conns?"},
		{"nothing alike", "database: {xyzzy: 5}\n", "database.xyzzy (FILE): unknown key"},
		{"a key that is not text", "database: {5: x}\n", "database.5 (FILE): unknown key"},
		{"a section where a value belongs", "log: {level: {a: b}}\n", "log.level (FILE; env SKALD_LOG_LEVEL): must be one of debug, info, warn, error"},
		{"a number for text", "database: {host: db, password: 12345}\n", "database.password (FILE; env SKALD_DATABASE_PASSWORD): must be text; put it in quotes"},
		{"a fraction for a whole number", "engine: {max_running: 2.5}\n", "engine.max_running (FILE; env SKALD_ENGINE_MAX_RUNNING): must be a whole number from 1 to 10000"},
		{"a list with a number in it", "egress: {deny: [10]}\n", "egress.deny (FILE; env SKALD_EGRESS_DENY): must be " + customRules["egress_entry"]},
		{"a truth of another kind", "database: {auto_migrate: maybe}\n", "database.auto_migrate (FILE; env SKALD_DATABASE_AUTO_MIGRATE): must be true or false"},
		{"both alternatives in one layer", "database: {host: db, url: postgres://x/y}\n", "database.host (FILE; env SKALD_DATABASE_HOST): excludes database.url: set only one of them"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff([]string{tt.want}, mistakes(t, tt.yaml)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMistakesInTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"a typo", []string{"SKALD_DATABASE_MAX_OPEN_CONS=5"}, "SKALD_DATABASE_MAX_OPEN_CONS: unknown variable; did you mean SKALD_DATABASE_MAX_OPEN_CONNS?"},
		{"an old prefix of the right name", []string{"SKALD_DATABASEURL=x"}, "SKALD_DATABASEURL: unknown variable; did you mean SKALD_DATABASE_URL?"},
		{"names that disagree", []string{"SKALD_LEASE_TTL=5s", "SKALD_ENGINE_LEASE_TTL=6s"}, "engine.lease_ttl (SKALD_ENGINE_LEASE_TTL): is also set by SKALD_LEASE_TTL, to a different value: set only one of them"},
		{"an empty profile is not dev", []string{"SKALD_ENV="}, "app.environment (SKALD_ENV): must be one of dev, test, staging, prod"},
		{"a duration without a unit", []string{"SKALD_LEASE_TTL=5"}, "engine.lease_ttl (SKALD_LEASE_TTL): must be a duration from 1s to 5m"},
		{"the tenant nobody has", []string{"SKALD_TENANT_DEFAULT_ID=00000000-0000-0000-0000-000000000000"}, "tenant.default_id (SKALD_TENANT_DEFAULT_ID): must be a UUID that is not all zeros"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff([]string{tt.want}, mistakes(t, "", tt.environ...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesThatAgreeAreFine(t *testing.T) {
	c, err := Load("", []string{"SKALD_NODE_ID=n1", "SKALD_ENGINE_NODE_ID=n1", "SKALD_ENGINE__NODE_ID=n1"})
	if err != nil || c.Engine.NodeID != "n1" {
		t.Errorf("node id = %q, %v; want n1", c.Engine.NodeID, err)
	}
}

// A variable that the manual, a script, a test or an example names is a setting, or does not keep
// Skald from starting: a shell has them for both. Variables of tools and tests have another prefix.
func TestAShellMayHaveEveryVariableThatIsNamedAnywhere(t *testing.T) {
	root := filepath.Join("..", "..")
	places := []string{
		"Makefile", "README.md", "docker-compose.yml", "Dockerfile", "docs", "scripts", ".ci", "examples", "sdk", "deploy",
	}
	named := map[string]string{} // to a file that names it
	name, read := regexp.MustCompile(`SKALD_[A-Z0-9_]*[A-Z0-9]\b`), regexp.MustCompile(`env\("(SKALD_\w+)"`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "decisions" || d.Name() == "requirements" ||
			strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" && rel != "."):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		which := name
		if filepath.Ext(path) == ".go" {
			which = read // of those in the code
		} else if top, _, _ := strings.Cut(rel, string(filepath.Separator)); !slices.Contains(places, top) {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range which.FindAllStringSubmatch(string(text), -1) {
			named[m[len(m)-1]] = rel
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range fields {
		for _, n := range f.names {
			known[n] = true
		}
	}
	for _, n := range []string{"SKALD_API_KEY", "SKALD_KEY", "SKALD_RUN_ID", "SKALD_ARG_WHO"} {
		if named[n] == "" {
			t.Errorf("%s was not found: the search is broken", n)
		}
	}
	for n, file := range named {
		if known[n] {
			continue
		}
		if _, err := Load("", []string{n + "=x"}); err != nil {
			t.Errorf("%s names %s, with which Skald does not start: %v", file, n, err)
		}
	}
}

func TestVariablesOfKubernetesAreIgnored(t *testing.T) {
	got, err := Load("", []string{
		"SKALD_SERVICE_HOST=10.0.0.1", "SKALD_SERVICE_PORT=8080", "SKALD_SERVICE_PORT_HTTP=8080",
		"SKALD_PORT=tcp://10.0.0.1:8080", "SKALD_PORT_8080_TCP=tcp://10.0.0.1:8080",
		"SKALD_PORT_8080_TCP_ADDR=10.0.0.1", "SKALD_PORT_8080_TCP_PORT=8080", "SKALD_PORT_8080_TCP_PROTO=tcp",
		// A Kubernetes Service named skald-database.
		"SKALD_DATABASE_SERVICE_HOST=10.0.0.2", "SKALD_DATABASE_SERVICE_PORT=5432",
		"SKALD_DATABASE_PORT=tcp://10.0.0.2:5432", "SKALD_DATABASE_PORT_5432_TCP=tcp://10.0.0.2:5432",
		"SKALD_DATABASE_PORT_5432_TCP_ADDR=10.0.0.2",
	})
	if diff := cmp.Diff(Default(Dev), got); err != nil || diff != "" {
		t.Errorf("Load: %v (-default +got)\n%s", err, diff)
	}
	mistakes(t, "", "SKALD_SERVICES_HOST=x") // not one of them
}

func TestUnreadableFiles(t *testing.T) {
	if _, err := Load("no/such.yaml", []string{"SKALD_LOG_LEVEL=loud"}); err == nil ||
		!strings.Contains(err.Error(), "no/such.yaml: cannot be read: no such file or directory") ||
		!strings.Contains(err.Error(), "log.level") {
		t.Errorf("error = %v, want the missing file and log.level", err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 64<<10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"no/such":   "cannot be read: no such file or directory",
		t.TempDir(): "cannot be read: is a directory",
		empty:       "is empty",
		large:       "is too large for a secret",
	} {
		got := mistakes(t, "", "SKALD_DATABASE_PASSWORD_FILE="+path)
		if want := "database.password_file (SKALD_DATABASE_PASSWORD_FILE): " + want; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestMistakesNeverCiteValues(t *testing.T) {
	const canary = "hunter2"
	refused := func(what, path string, environ ...string) {
		t.Helper()
		if _, err := Load(path, environ); err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error shows the value: %v", what, err)
		}
	}
	file := write(t, "")
	rewrite := func(content string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, f := range fields {
		for _, value := range []string{canary, "postgres://u:" + canary + "@h:x/d", "'" + canary, "postgres://u:%" +
			canary + "@h/d"} {
			refused(f.key, "", f.names[0]+"="+value)
		}
		section, key, _ := strings.Cut(f.key, ".")
		for _, value := range []string{canary, "[" + canary + "]", "{a: " + canary + "}", "*" + canary,
			"`" + canary + "`", "'" + canary} {
			refused(f.key, rewrite(section+":\n  "+key+": "+value+"\n"))
		}
	}
	for _, content := range []string{canary, "- " + canary, "'" + canary, "*" + canary, "!!int " + canary,
		"a: !!int " + canary} {
		refused(content, rewrite(content))
	}
}

func TestAMistakeInAFileHasItsLine(t *testing.T) {
	path := write(t, "# a comment\nserver:\n  listen_adr: x\n  max_body_bytes: many\n\nengine: {lease_ttl: 9h}\nsaga: 1\n")
	_, err := Load(path, nil)
	var invalid *Error
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range invalid.Mistakes {
		got[m.Key] = strings.TrimPrefix(m.Origin, path)
	}
	want := map[string]string{
		"server.listen_adr": ":3", "server.max_body_bytes": ":4", "engine.lease_ttl": ":6", "saga": ":7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
