package devpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// Server is a running private PostgreSQL, owned or attached to. Its methods are
// safe for concurrent use.
type Server struct {
	dir       string
	password  string
	port, pid int

	// The remaining fields are only for the owner; proc is nil when attached.
	proc     *process
	lock     *os.File
	log      *slog.Logger
	stopping atomic.Bool
	done     chan struct{}
}

// Dir is the absolute path of the server's directory.
func (s *Server) Dir() string { return s.dir }

// Port is the server's TCP port on 127.0.0.1. It changes at every start.
func (s *Server) Port() int { return s.port }

// PID is the process ID of the server.
func (s *Server) PID() int { return s.pid }

// Attached reports whether another process owns the server.
func (s *Server) Attached() bool { return s.proc == nil }

// Done is closed when the server has stopped, by Stop or on its own. It is nil, and so never
// closed, when attached.
func (s *Server) Done() <-chan struct{} { return s.done }

// DSN returns the URL for connecting to database as User, including the password, in a form that
// lib/pq and pgx understand.
func (s *Server) DSN(database string) string { return s.url(database).String() }

func (s *Server) url(database string) *url.URL {
	return &url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(User, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
}

// Stop stops the server if we own it, and returns when its process has exited and the directory is
// free. This is a fast shutdown: open transactions are rolled back, and everything committed is on
// disk. If ctx ends first, the server is shut down immediately and Stop returns an error; no
// committed data is lost, but the next start requires crash recovery. When attached, Stop does
// nothing. It may be called twice.
func (s *Server) Stop(ctx context.Context) error {
	if s.Attached() {
		return nil
	}
	s.stopping.Store(true)
	clean := s.proc.end(ctx)
	<-s.done
	if !clean {
		return fmt.Errorf("private PostgreSQL in %s did not stop in time and was stopped without a checkpoint: %w", s.dir, ctx.Err())
	}
	if s.proc.err != nil {
		return fmt.Errorf("private PostgreSQL in %s: %w", s.dir, s.proc.err)
	}
	return nil
}

// watch waits until the server has exited and then frees the directory.
func (s *Server) watch() {
	<-s.proc.done
	if !s.stopping.Load() {
		s.log.Error("private PostgreSQL exited unexpectedly; see its log",
			slog.String("file", logPath(s.dir)), slog.Any("error", s.proc.err))
	}
	_ = s.lock.Close()
	close(s.done)
}

// attach returns the server of the directory's owner, or an error if the server is not ready.
func attach(ctx context.Context, cfg Config) (*Server, error) {
	pgdata := filepath.Join(cfg.Dir, "pgdata")
	state, err := readPidFile(pgdata)
	if err != nil {
		return nil, err
	}
	if !state.ready {
		return nil, errors.New("the server is not ready")
	}
	s := &Server{dir: cfg.Dir, port: state.port, pid: state.pid}
	if s.password, err = readPassword(pgdata); err != nil {
		return nil, err
	}
	// The file may be older than the owner's start, and the port may now belong to another program,
	// so query the server.
	db, err := s.open(Database)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var serves string
	if err := db.QueryRowContext(ctx, `SELECT current_setting('data_directory')`).Scan(&serves); err != nil {
		return nil, err
	}
	if serves != pgdata {
		return nil, fmt.Errorf("port %d belongs to a server of %s", s.port, serves)
	}
	cfg.Log.InfoContext(ctx, "attached to a running private PostgreSQL", slog.String("dir", s.dir),
		slog.Int("port", s.port), slog.Int("pid", s.pid))
	return s, nil
}

// startOwned starts the server of a directory that we own because we hold lock. On success, the
// server owns lock.
func startOwned(ctx context.Context, cfg Config, lock *os.File) (*Server, error) {
	if err := endFormerServer(ctx, filepath.Join(cfg.Dir, "pgdata"), cfg.Log); err != nil {
		return nil, err
	}
	c, err := openCluster(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: cfg.Dir, password: c.password, lock: lock, log: cfg.Log, done: make(chan struct{})}
	if err := s.launch(ctx, cfg, c); err != nil {
		return nil, err
	}
	if err := s.ensureDatabase(ctx); err != nil {
		s.proc.abort()
		return nil, fmt.Errorf("create the database %s: %w", Database, err)
	}
	go s.watch()
	cfg.Log.InfoContext(ctx, "started a private PostgreSQL",
		slog.String("dir", s.dir), slog.Int("port", s.port), slog.Int("pid", s.pid))
	return s, nil
}
