package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// documented is the configuration of PgBouncer from docs/operations.md: every line of its section
// [pgbouncer].
func documented(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\n[pgbouncer]\n")
	lines, _, ended := strings.Cut(after, "```")
	if !found || !ended || !strings.Contains(lines, "pool_mode = session\n") {
		t.Fatal("docs/operations.md does not show PgBouncer's settings")
	}
	return lines
}

// pgbouncer starts Debian's PgBouncer in front of the server of dsn, and returns dsn with the
// address of PgBouncer.
func pgbouncer(t *testing.T, dsn, settings string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // where Debian has it
	}
	if err != nil {
		t.Fatalf("%v: run make programs", err) // without it this would prove nothing
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	addr := testnet.FreeAddress(t)
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp("", "skald-pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	password, _ := u.User.Password()
	files := map[string]string{
		"users": fmt.Sprintf("%q %q\n", u.User.Username(), password),
		"ini": fmt.Sprintf(
			"[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\nauth_type = plain\nauth_file = %s\n%s",
			u.Hostname(),
			u.Port(),
			port,
			filepath.Join(dir, "users"),
			settings,
		),
	}
	for name, content := range files { // as root it switches to a user who must be able to read them
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644),
			os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{filepath.Join(dir, "ini")}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	var log strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // immediately, regardless of connections
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("PgBouncer said:\n%s", log.String())
		}
	})
	u.Host = addr
	patience.Until(t, "PgBouncer listens", func() bool {
		c, err := net.Dial("tcp", u.Host)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return u.String()
}

// inDev is inProd with the development profile, which otherwise accepts almost anything.
func inDev(t *testing.T, dsn string) error {
	t.Helper()
	cfg := config.Default(config.Dev)
	cfg.Database.URL, cfg.Server.ListenAddr = config.Secret(dsn), "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	return app.Run(ctx, cfg, app.Options{Log: slog.New(slog.DiscardHandler), Ready: func(string) { stop() }})
}

// Behind PgBouncer in transaction mode nothing starts, whatever the pool is like
// and however much of it others use.
func TestAPoolerThatSharesSessionsIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	for _, mode := range []string{"transaction", "statement"} {
		for _, size := range []int{1, 2, 50} {
			for _, order := range []string{"server_round_robin = 0", "server_round_robin = 1"} {
				t.Run(fmt.Sprint(mode, " ", size, " ", order), func(t *testing.T) {
					list := strings.ReplaceAll(documented(t), "pool_mode = session", "pool_mode = "+mode)
					through := pgbouncer(
						t,
						dsn,
						list+order+fmt.Sprintf("\ndefault_pool_size = %d\nmin_pool_size = %d\n", size, size/2),
					)
					for _, start := range []func(*testing.T, string) error{inDev, inProd} {
						if err := start(t, through); !errors.Is(err, postgres.ErrSharedSessions) {
							t.Errorf("it starts, or does not say why not: %v", err)
						}
					}
				})
			}
		}
	}
	t.Run("whose parameters nobody has listed", func(t *testing.T) {
		if err := inDev(t, pgbouncer(t, dsn, "pool_mode = transaction\n")); !errors.Is(err, postgres.ErrSharedSessions) {
			t.Errorf("%v", err)
		}
	})
	t.Run("and is in use", func(t *testing.T) {
		through := pgbouncer(t, dsn, "pool_mode = transaction\ndefault_pool_size = 8\n")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				execute(t, through, `SELECT 1`, `SELECT pg_sleep(0.001)`)
			}
		}()
		for range 20 {
			if err := postgres.RequireOwnSessions(t.Context(), postgres.Config{DSN: through}); !errors.Is(err,
				postgres.ErrSharedSessions) {
				t.Errorf("%v", err)
			}
		}
		stop()
		<-done
	})
	t.Run("nor does it migrate", func(t *testing.T) {
		cfg := config.Default(config.Dev)
		cfg.Database.URL = config.Secret(pgbouncer(t, dsn, "pool_mode = transaction\n"))
		if err := app.RequireOwnSessions(t.Context(), cfg, string(cfg.Database.URL)); !errors.Is(err,
			postgres.ErrSharedSessions) {
			t.Errorf("%v", err)
		}
	})
}

func TestPgBouncerInSessionMode(t *testing.T) {
	t.Parallel()
	s := forgetfulCluster(t)
	admin := s.DSN(devpg.Database)
	owner, server := testdb.Login(t, admin, ""), testdb.Login(t, admin, "")
	execute(t, admin, db.RolesSQL(loginOf(t, owner), loginOf(t, server)))
	if _, err := db.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	t.Run("as documented", func(t *testing.T) {
		through := pgbouncer(t, server, documented(t))
		set(t, admin, "fsync", "on")
		if err := inProd(t, through); err != nil {
			t.Fatalf("in prod: %v", err)
		}
		n := start(t, through, "pooled", func(c *config.Config) { c.Database.AutoMigrate = false })
		for range 20 {
			if status := served(t, n.url); status != 200 {
				t.Errorf("a saga is read with %d", status)
			}
		}
		if log := n.logs.String(); strings.Contains(log, "ERROR") || strings.Contains(log, "prepared statement") {
			t.Errorf("%s", log)
		}
	})
	t.Run("without the list", func(t *testing.T) {
		err := inProd(t, pgbouncer(t, server, "pool_mode = session\n"))
		if err == nil || !strings.Contains(err.Error(), "ignore_startup_parameters = role,") {
			t.Errorf("%v", err)
		}
	})
	t.Run("with too few sessions", func(t *testing.T) {
		err := inProd(t, pgbouncer(t, server, documented(t)+"default_pool_size = 1\n"))
		if err == nil || !strings.Contains(err.Error(), "default_pool_size") || errors.Is(err, postgres.ErrSharedSessions) {
			t.Errorf("%v", err)
		}
	})
}
