package app_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/secret/vault/vaulttest"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// owner connects as the owner of the test's database.
func owner(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	d, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func run(t *testing.T, d *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := d.Exec(s); err != nil { // in cleanups too
			t.Errorf("%s: %v", s, err)
		}
	}
}

// roles creates login roles like Vault's database engine, as members of a group with the rights
// of the application. They are dropped with the test.
type roles struct {
	t     *testing.T
	d     *sql.DB
	group string
}

func newRoles(t *testing.T, d *sql.DB) *roles {
	r := &roles{t: t, d: d, group: "skald_app_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	run(
		t,
		d,
		`CREATE ROLE `+r.group+` NOLOGIN`,
		`GRANT USAGE ON SCHEMA saga, skald TO `+r.group,
		`GRANT ALL ON ALL TABLES IN SCHEMA saga, skald TO `+r.group,
		`GRANT ALL ON ALL SEQUENCES IN SCHEMA saga TO `+r.group,
		`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA saga TO `+r.group,
		// The policies of row-level security, if there are any, apply to this role.
		`DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'saga_app_role') THEN GRANT saga_app_role, saga_engine_role TO `+r.group+`; END IF; END $$`,
	)
	t.Cleanup(func() {
		for n := 1; n <= 9; n++ {
			run(t, d, `DROP ROLE IF EXISTS `+r.name(n))
		}
		run(t, d, `DROP OWNED BY `+r.group, `DROP ROLE `+r.group)
	})
	return r
}

func (r *roles) name(n int) string { return fmt.Sprintf("%s_%d", r.group, n) }

// make is vaulttest.Role.Make.
func (r *roles) make(n int) (user, password string) {
	password = "canary-" + uuid.NewString()
	run(r.t, r.d, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s' VALID UNTIL '%s' IN ROLE %s`,
		r.name(n), password, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), r.group))
	return r.name(n), password
}

// endSessions terminates the sessions of the nth role.
func (r *roles) endSessions(n int) {
	if _, err := r.d.Exec(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1`, r.name(n)); err != nil {
		r.t.Error(err)
	}
}

// orders are clients that start sagas and repeat requests until they get an answer.
type orders struct {
	t        *testing.T
	url      string
	name     string // of the orders; distinguishes several lots
	accepted atomic.Int64
	again    atomic.Int64 // responses that asked for a retry
	mu       sync.Mutex
	ids      map[string]bool // guarded by mu
}

// place starts one saga. When one order is not accepted, the others are no longer tried.
func (o *orders) place(key string) {
	try := 0
	for ctx := patience.Context(o.t); ctx.Err() == nil; try++ {
		if o.t.Failed() {
			return
		}
		req, err := http.NewRequest("POST", o.url+"/api/v1/sagas", strings.NewReader(`{"workflow_name": "pair"}`))
		if err != nil {
			o.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			o.t.Error(err)
			return
		}
		var doc struct {
			ID   string `json:"saga_id"`
			Code string `json:"code"`
		}
		err = json.NewDecoder(res.Body).Decode(&doc)
		res.Body.Close()
		switch {
		case err == nil && (res.StatusCode == http.StatusCreated || res.StatusCode == http.StatusOK):
			o.mu.Lock()
			o.ids[doc.ID] = true
			o.mu.Unlock()
			o.accepted.Add(1)
			return
		case res.StatusCode == http.StatusServiceUnavailable:
			o.again.Add(1)
			time.Sleep(time.Duration(5+min(try, 200)) * time.Millisecond)
		default:
			o.t.Errorf("order %s: %d %s, %v", key, res.StatusCode, doc.Code, err)
			return
		}
	}
	o.t.Errorf("order %s was not accepted in %d tries", key, try)
}

// run places n orders with eight clients and calls at[i] once i orders have been accepted.
func (o *orders) run(n int, at map[int]func()) {
	var all sync.WaitGroup
	keys := make(chan string)
	for range 8 {
		all.Go(func() {
			for key := range keys {
				o.place(key)
			}
		})
	}
	for i := range n {
		if f := at[i]; f != nil {
			f()
		}
		keys <- fmt.Sprint(o.name, "order-", i)
	}
	close(keys)
	all.Wait()
}

// also adds the sagas of another lot.
func (o *orders) also(other *orders) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range other.ids {
		o.ids[id] = true
	}
	o.again.Add(other.again.Load())
}

// settled waits until every accepted saga has ended.
func (o *orders) settled(n int) {
	o.t.Helper()
	if len(o.ids) != n {
		o.t.Errorf("%d sagas for %d orders", len(o.ids), n)
	}
	if o.t.Failed() {
		return // those that do not end would be waited for
	}
	for id := range o.ids {
		if _, doc := call(o.t, "GET", o.url+"/api/v1/sagas/"+id+"?wait=4m", ""); doc["status"] != "COMPLETED" {
			o.t.Errorf("saga %s ended as %v: %v", id, doc["status"], doc["error_message"])
		}
	}
}

// pair serves the participants of the workflow pair and registers it.
func pair(t *testing.T, n *node) {
	t.Helper()
	participant := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"ok":true}`) }),
	)
	t.Cleanup(participant.Close)
	if status, doc := call(t, "POST", n.url+"/api/v1/workflows",
		strings.ReplaceAll(twoSteps, "URL", participant.URL)); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
}

// The database login of a running node is removed while the node works, in the ways that Vault and
// administrators do it (invariant F62).
func TestARoleDroppedWhileRunningLosesNoSaga(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	d := owner(t, dsn)
	r := newRoles(t, d)
	v := vaulttest.New()
	v.Role("database/creds/system-saga-rw", vaulttest.Role{TTL: time.Hour, MaxTTL: time.Hour, Make: r.make})
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	n := start(t, dsn, "a", func(c *config.Config) {
		c.Database.AutoMigrate = false
		c.Database.URL = config.Secret(withoutLogin(t, dsn))
		c.Vault.Address, c.Vault.Token, c.Vault.DynamicPath = server.URL, "root", "database/creds/system-saga-rw"
	})
	pair(t, n)
	o := &orders{t: t, url: n.url, ids: map[string]bool{}}
	const all = 400
	o.run(all, map[int]func(){
		100: func() { run(t, d, `ALTER ROLE `+r.name(1)+` NOLOGIN`); r.endSessions(1) },
		// At most one new login per second is requested from Vault. The sessions of this one
		// stay, and continue as Skald's roles.
		200: func() { time.Sleep(time.Second); run(t, d, `DROP ROLE `+r.name(2)) },
		300: func() {
			run(
				t,
				d,
				`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'skald %'`,
			)
		},
	})
	o.settled(all)
	t.Logf("%d orders accepted, %d asked to try again", o.accepted.Load(), o.again.Load())
	var now string
	err := d.QueryRow(`SELECT string_agg(DISTINCT usename, ' ') FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'skald %'`).
		Scan(&now)
	if err != nil || now != r.name(3) {
		t.Errorf("signed in as %s, %v; want %s alone", now, err, r.name(3))
	}
	if metrics := scrape(t, n.url); !strings.Contains(metrics, "skald_database_login_renewed_total 3") ||
		!strings.Contains(metrics, "skald_database_login_failed_total 0") {
		t.Errorf("the metrics do not show three logins:\n%s", lines(metrics, "skald_database_login"))
	}
	if strings.Contains(n.logs.String(), "canary") {
		t.Error("the log shows a password")
	}
}

func TestAChangedPasswordFileIsReadWhileRunning(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	d := owner(t, dsn)
	r := newRoles(t, d)
	user, password := r.make(1)
	file := filepath.Join(t.TempDir(), "password")
	write := func() {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	n := start(t, dsn, "a", func(c *config.Config) {
		c.Database.AutoMigrate = false
		c.Database.URL = config.Secret(withoutLogin(t, dsn))
		c.Database.User, c.Database.PasswordFile = user, file
	})
	pair(t, n)
	o := &orders{t: t, url: n.url, ids: map[string]bool{}}
	o.run(150, map[int]func(){
		50: func() { // the file first, the recommended order of a rotation
			password = "canary-second"
			write()
			run(t, d, `ALTER ROLE `+user+` PASSWORD '`+password+`'`)
			r.endSessions(1)
		},
		100: func() { // the server first: until the file follows, connections are refused
			password = "canary-third"
			run(t, d, `ALTER ROLE `+user+` PASSWORD '`+password+`'`)
			r.endSessions(1)
			time.AfterFunc(300*time.Millisecond, write)
		},
	})
	o.settled(150)
	t.Logf("%d orders accepted, %d asked to try again", o.accepted.Load(), o.again.Load())
	if strings.Contains(n.logs.String(), "canary") {
		t.Error("the log shows a password")
	}
}

func TestOtherCommandsSignInLikeTheServer(t *testing.T) {
	t.Parallel()
	v := vaulttest.New()
	v.Login(
		"auth/approle/login",
		vaulttest.Login{Want: map[string]string{"role_id": "skald"}, TTL: time.Hour, MaxTTL: time.Hour},
	)
	v.Role("database/creds/rw", vaulttest.Role{TTL: time.Hour, MaxTTL: time.Hour})
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	cfg := config.Default(config.Test)
	cfg.Database.URL = "postgres://db/x"
	cfg.Vault.Address, cfg.Vault.AuthMethod, cfg.Vault.RoleID, cfg.Vault.DynamicPath = server.URL, "approle", "skald",
		"database/creds/rw"
	got, err := app.DSN(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if want := "host='db' port='5432' dbname='x' user='v-user-1' password='canary-password-1'"; err != nil ||
		!strings.HasPrefix(got, want) {
		t.Errorf("DSN = %s, %v; want %s…", got, err, want)
	}
	if v.Live() != 1 {
		t.Error("the login was given up before it could be used")
	}
}

// withoutLogin removes user and password from an address.
func withoutLogin(t *testing.T, dsn string) string {
	t.Helper()
	c, err := pq.NewConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%d dbname=%s sslmode=disable", c.Host, c.Port, c.Database)
}

// passwordOf returns the password of a server's superuser.
func passwordOf(t *testing.T, s *devpg.Server) string {
	t.Helper()
	c, err := pq.NewConfig(s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Password
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lines returns the lines of text that contain a word.
func lines(text, word string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out.WriteString(line)
		}
	}
	return out.String()
}
