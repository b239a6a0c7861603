// Package devpg runs a private PostgreSQL: a server that is started from the PostgreSQL programs on
// the machine, stores its data durably in one directory, is reachable only on 127.0.0.1, and stops
// with the process that started it. `skald serve` uses it when no database is configured; tests and
// benchmarks use it as well.
//
// A directory belongs to one process at a time, its owner, which holds a lock that the kernel
// releases when the owner dies. Other processes that start on the same directory attach to the
// owner's server. When the owner exits, even by kill -9, the server shuts down cleanly. Attached
// processes then lose their connections and may call Start again; the first of them becomes the
// owner. (On systems other than Linux a server survives the kill -9 of its owner until the next
// Start on its directory.)
//
// In the directory:
//
//	postgres.lock   locked by the owner
//	postgres.log    PostgreSQL's log; renamed to postgres.log.1 when large
//	pgdata/         the data directory, with the password in skald.password
//
// This package never deletes a complete data directory.
//
// Files, each on top of those before it: config, process, account, binaries, verifier, cluster,
// pidfile, server, devpg, launch.
package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/skald-saga/skald/internal/loop"
)

// ErrInUse is returned by Start with Config.Exclusive if another process owns the directory.
var ErrInUse = errors.New("the directory belongs to another running process")

// Start starts the server of cfg.Dir, after creating the data directory if there is none, or
// attaches to the server that another process runs there. When it returns, the server accepts
// connections and Database exists. If the owner of a server has died, Start first waits until that
// server has stopped, or stops it, and waits for crash recovery. ctx limits only the startup and
// does not affect the running server. If the data has another major version, Start returns
// ErrVersionMismatch.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := prepareDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
	}
	cfg.Dir = dir
	if cfg.Bin != "" { // programs run in another working directory
		if cfg.Bin, err = filepath.Abs(cfg.Bin); err != nil {
			return nil, fmt.Errorf("private PostgreSQL: %w", err)
		}
	}
	s, err := startOrAttach(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL in %s: %w", dir, err)
	}
	return s, nil
}

func startOrAttach(ctx context.Context, cfg Config) (*Server, error) {
	for {
		lock, err := lockDir(cfg.Dir)
		if err == nil {
			s, err := startOwned(ctx, cfg, lock)
			if err != nil {
				_ = lock.Close()
			}
			return s, err
		}
		if !errors.Is(err, ErrInUse) || cfg.Exclusive {
			return nil, err
		}
		s, err := attach(ctx, cfg)
		if err == nil {
			return s, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("it runs, but as a different user: %w", err)
		}
		// The owner is still starting or already stopping.
		if !loop.Sleep(ctx, pollEvery) {
			return nil, fmt.Errorf("%w; cannot attach to its server: %w", ErrInUse, err)
		}
	}
}

// prepareDir creates dir and returns its canonical path, because attaching compares paths.
func prepareDir(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("no directory given")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		// The account that PostgreSQL will run as must be able to traverse the directory;
		// everything inside has its own permissions.
		mode := os.FileMode(0o700)
		if os.Getuid() == 0 {
			mode = 0o711
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return "", err
		}
		if err := os.Chmod(dir, mode); err != nil { // regardless of the umask
			return "", err
		}
	}
	return filepath.EvalSymlinks(dir)
}

// lockDir makes the caller the owner of dir until it closes the file or dies. It returns ErrInUse
// if there is another owner.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "postgres.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrInUse
	}
	return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
}
