package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
)

// database is the PostgreSQL server of a run.
type database struct {
	dir string // directory of the private server; "" for an external one

	mu     sync.Mutex
	server *devpg.Server // guarded by mu; nil for an external one
	url    string        // guarded by mu
	pool   *sql.DB       // guarded by mu: only for reading
}

// ownDatabase starts a private server in dir with PostgreSQL's default settings, including fsync.
func ownDatabase(ctx context.Context, dir string) (*database, error) {
	db := &database{dir: filepath.Join(dir, "postgres")}
	return db, db.boot(ctx)
}

// boot starts the private server, possibly on a new port, and opens the pool.
func (db *database) boot(ctx context.Context) error {
	server, err := devpg.Start(ctx, devpg.Config{Dir: db.dir, Exclusive: true})
	if err != nil {
		return err
	}
	db.mu.Lock()
	db.server = server
	db.mu.Unlock()
	return db.use(server.DSN(devpg.Database))
}

// use connects to the database at url.
func (db *database) use(url string) error {
	pool, err := sql.Open("postgres", url)
	if err != nil {
		return err
	}
	pool.SetMaxOpenConns(12)
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.pool != nil {
		db.pool.Close()
	}
	db.url, db.pool = url, pool
	return nil
}

func (db *database) dsn() string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.url
}

func (db *database) sql() *sql.DB {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.pool
}

// crash kills one backend. PostgreSQL then terminates all other backends, recovers from its log and
// continues at the same address. crash returns when the recovery is complete.
func (db *database) crash(ctx context.Context) error {
	conn, err := db.sql().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var pid int
	err = conn.QueryRowContext(ctx, `
		SELECT pid FROM pg_stat_activity WHERE application_name LIKE '% writer' ORDER BY random() LIMIT 1`).Scan(&pid)
	if err != nil {
		return fmt.Errorf("find a backend to kill: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill backend %d: %w", pid, err)
	}
	// Our own backend is terminated with all others; until then the crash has not been noticed.
	_, _ = conn.ExecContext(ctx, `SELECT pg_sleep(4)`)
	for db.sql().PingContext(ctx) != nil {
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// shut refuses new connections for a while and terminates the open ones. No data is lost; the
// database is only unavailable.
func (db *database) shut(ctx context.Context, d time.Duration) error {
	door, err := sql.Open("postgres", db.server.DSN("postgres"))
	if err != nil {
		return err
	}
	defer door.Close()
	for _, s := range []string{
		`ALTER DATABASE ` + devpg.Database + ` WITH ALLOW_CONNECTIONS false`,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '` + devpg.Database + `'`,
	} {
		if _, err := door.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	pause(ctx, d)
	_, err = door.ExecContext(context.WithoutCancel(ctx), `ALTER DATABASE `+devpg.Database+` WITH ALLOW_CONNECTIONS true`)
	return err
}

// cut terminates all connections of one kind (reading, writing or lease), whatever they are doing.
// Connections that have just been opened are spared: a node that loses its database during startup
// gives up, which is correct.
func (db *database) cut(ctx context.Context, kind string) error {
	_, err := db.sql().ExecContext(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald ' || $1 AND backend_start < now() - interval '1 second'`, kind)
	return err
}

// kill stops the server with SIGKILL and waits until it has ended.
func (db *database) kill() error {
	db.mu.Lock()
	server := db.server
	db.mu.Unlock()
	if err := syscall.Kill(server.PID(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	<-server.Done()
	return nil
}

// close closes the pool and stops a private server.
func (db *database) close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.pool != nil {
		db.pool.Close()
	}
	if db.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	return db.server.Stop(ctx)
}
