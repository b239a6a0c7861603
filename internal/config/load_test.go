package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes a file into a new directory and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "skald.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, yaml string, environ ...string) Config {
	t.Helper()
	c, err := Load(write(t, yaml), environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lineNumber matches a line of a file; TestAMistakeInAFileHasItsLine has them.
var lineNumber = regexp.MustCompile(`FILE:\d+`)

// mistakes loads an invalid configuration and returns one line per mistake, with the file's
// path shortened to FILE.
func mistakes(t *testing.T, yaml string, environ ...string) []string {
	t.Helper()
	path := ""
	if yaml != "" {
		path = write(t, yaml)
	}
	c, err := Load(path, environ)
	var invalid *Error
	if !errors.As(err, &invalid) {
		t.Fatalf("Load = %v, want an *Error", err)
	}
	if !reflect.ValueOf(c).IsZero() {
		t.Error("a refused configuration is not zero")
	}
	var lines []string
	for _, m := range invalid.Mistakes {
		line := m.String()
		if path != "" {
			line = lineNumber.ReplaceAllString(strings.ReplaceAll(line, path, "FILE"), "FILE")
		}
		lines = append(lines, line)
	}
	return lines
}

func get(c Config, key string) any {
	v := reflect.ValueOf(c)
	for part := range strings.SplitSeq(key, ".") {
		v = v.FieldByIndex(fieldNamed(v.Type(), part))
	}
	return v.Interface()
}

func TestEverySettingIsReadUnderEachOfItsNames(t *testing.T) {
	for _, f := range fields {
		sample, ok := samples[f.key]
		if !ok {
			t.Errorf("%s has no sample", f.key)
			continue
		}
		if cmp.Equal(get(Default(Test), f.key), sample.want) {
			t.Errorf("%s: the sample is the default, so it proves nothing", f.key)
		}
		section, key, nested := strings.Cut(f.key, ".")
		yaml := section + ": \"" + sample.text + "\"\n"
		if nested {
			yaml = section + ":\n  " + key + ": \"" + sample.text + "\"\n"
		}
		profile := "SKALD_ENV=test"
		if f.key == "app.environment" {
			profile = "PATH=/bin"
		}
		environ := append([]string{profile}, beside[f.key]...)
		if got := get(load(t, yaml, environ...), f.key); !cmp.Equal(got, sample.want) {
			t.Errorf("%s in a file = %v, want %v", f.key, got, sample.want)
		}
		for _, name := range f.names {
			c, err := Load("", append(slices.Clone(environ), name+"="+sample.text))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if got := get(c, f.key); !cmp.Equal(got, sample.want) {
				t.Errorf("%s = %v, want %v", name, got, sample.want)
			}
		}
	}
}

func TestTheNamesOthersRelyOn(t *testing.T) {
	for name, key := range map[string]string{
		"SKALD_ENV":                         "app.environment",
		"SKALD_DATABASE_URL":                "database.url",
		"SKALD_DATABASE_MAX_OPEN_CONNS":     "database.max_open_conns",
		"SKALD_DATABASE__MAX_OPEN_CONNS":    "database.max_open_conns",
		"SKALD_LISTEN_ADDR":                 "server.listen_addr",
		"SKALD_NODE_ID":                     "engine.node_id",
		"SKALD_LEASE_TTL":                   "engine.lease_ttl",
		"SKALD_REAPER_INTERVAL":             "engine.reaper_interval",
		"SKALD_EGRESS_ALLOW":                "egress.allow",
		"SKALD_FAILPOINTS":                  "failpoints",
		"SKALD_TEST_CLOCK_OFFSET":           "test.clock_offset",
		"SKALD_PG_BIN":                      "database.embedded_bin",
		"SKALD_ENGINE_DEFAULT_STEP_TIMEOUT": "engine.default_step_timeout",
		"SKALD_REDIS_URL":                   "jobs.redis_url",
		"SKALD_LOG_OFFLOAD_URL":             "jobs.log_offload_url",
		"SKALD_JOBS__LOG_OFFLOAD_URL":       "jobs.log_offload_url",
		"SKALD_BOOTSTRAP_ADMIN_KEY":         "auth.bootstrap_admin_key",
	} {
		c, err := Load("", []string{"SKALD_ENV=test", name + "=" + samples[key].text})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := get(c, key); !cmp.Equal(got, samples[key].want) {
			t.Errorf("%s sets %s to %v, want %v", name, key, got, samples[key].want)
		}
	}
}

func TestNoTwoSettingsShareAName(t *testing.T) {
	owner := map[string]string{}
	for _, f := range fields {
		for _, name := range f.names {
			if other, taken := owner[name]; taken {
				t.Errorf("%s belongs to %s and to %s", name, other, f.key)
			}
			if serviceLink(name, "x") {
				t.Errorf("%s would be taken for a variable of Kubernetes", name)
			}
			owner[name] = f.key
		}
		if f.doc == "" {
			t.Errorf("%s has no doc", f.key)
		}
	}
}

func TestLaterLayersWin(t *testing.T) {
	const file = "log: {level: warn}\ndatabase: {host: db, max_open_conns: 30}\n"
	if got := load(t, file); got.Log.Level != "warn" || got.Database.MaxOpenConns != 30 || got.Database.MaxIdleConns != 3 {
		t.Errorf("file over defaults: level %s, conns %d/%d; want warn, 30/3",
			got.Log.Level, got.Database.MaxOpenConns, got.Database.MaxIdleConns)
	}
	got := load(t, file, "SKALD_LOG_LEVEL=error", "SKALD_ENV=production")
	if got.Log.Level != "error" || got.App.Environment != Prod {
		t.Errorf("environment over file: %s in %s, want error in prod", got.Log.Level, got.App.Environment)
	}
	if got.Database.MaxOpenConns != 30 || got.Database.MaxIdleConns != 10 {
		t.Errorf("conns = %d/%d, want the file's 30 over prod's default 10 idle",
			got.Database.MaxOpenConns, got.Database.MaxIdleConns)
	}
	if got := load(t, "", "SKALD_LOG_LEVEL=warn", "SKALD_LOG_LEVEL=debug"); got.Log.Level != "debug" {
		t.Errorf("of a repeated variable %s counted, want the last", got.Log.Level)
	}
	if got := load(t, "egress: {allow: [10.0.0.0/8]}", "SKALD_EGRESS_ALLOW="); len(got.Egress.Allow) != 0 {
		t.Errorf("an empty variable left %v", got.Egress.Allow)
	}
	if got := load(t, "engine: {default_saga_timeout: 0}"); got.Engine.DefaultSagaTimeout != 0 {
		t.Errorf("a plain 0 in the file left %s", got.Engine.DefaultSagaTimeout)
	}
	if got := load(t, "server:\n  debug_addr:\nlog:\n"); !cmp.Equal(got, load(t, "")) {
		t.Error("a key or section with nothing behind it changed something")
	}
}

func TestNoFileIsSearchedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"skald.yaml", "config.yaml"} {
		if err := os.WriteFile(name, []byte("nonsense: true"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SKALD_LOG_LEVEL", "debug")
	got, err := Load("", nil)
	if diff := cmp.Diff(Default(Dev), got); err != nil || diff != "" {
		t.Errorf("Load without file and environment: %v (-default +got)\n%s", err, diff)
	}
}

func TestProfilesHaveTheirDefaults(t *testing.T) {
	type profile struct {
		SSLMode     string
		Open, Idle  int
		AutoMigrate bool
		Loopback    bool
	}
	for env, want := range map[string]profile{
		"dev":        {"disable", 10, 3, true, true},
		"test":       {"disable", 10, 3, true, true},
		"staging":    {"require", 25, 5, false, false},
		"prod":       {"verify-full", 50, 10, false, false},
		"production": {"verify-full", 50, 10, false, false},
	} {
		c := load(t, "app: {environment: "+env+"}\ndatabase: {host: db}")
		d := c.Database
		got := profile{d.SSLMode, d.MaxOpenConns, d.MaxIdleConns, d.AutoMigrate, c.Egress.AllowLoopback}
		if got != want {
			t.Errorf("%s = %+v, want %+v", env, got, want)
		}
	}
}

func TestTheLaterOfTwoAlternativesWins(t *testing.T) {
	c := load(
		t,
		"database: {host: db, password: old}",
		"SKALD_DATABASE_URL=postgres://other/x",
		"SKALD_DATABASE_PASSWORD_FILE=testdata/password",
	)
	if c.Database.Host != "" || c.Database.URL != "postgres://other/x" {
		t.Errorf("host %q beside url %q, want the variable's url alone", c.Database.Host, string(c.Database.URL))
	}
	if c.Database.Password != "correct horse battery staple" {
		t.Errorf("password = %q, want the file's, without its line end", string(c.Database.Password))
	}
	c = load(t, "database: {url: postgres://other/x}", "SKALD_DATABASE_HOST=db")
	if c.Database.Host != "db" || c.Database.URL != "" {
		t.Errorf("host %q beside url %q, want the variable's host alone", c.Database.Host, string(c.Database.URL))
	}
}
