package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/skald-saga/skald/internal/postgres/devpg"
)

// privateDatabase starts a durable PostgreSQL in dir.
func privateDatabase(ctx context.Context, dir string) (url string, stop func() error, err error) {
	server, err := devpg.Start(ctx, devpg.Config{
		Dir:       filepath.Join(dir, "postgres"),
		Exclusive: true,
		Log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return "", nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return server.DSN(devpg.Database), func() error { return server.Stop(context.WithoutCancel(ctx)) }, nil
}

// runDir returns the directory of a run: asked, which is kept, or if that is "" a
// temporary one.
func runDir(asked string) (dir string, remove func() error, err error) {
	if asked != "" {
		if err := os.MkdirAll(asked, 0o711); err != nil {
			return "", nil, fmt.Errorf("create the directory of the run: %w", err)
		}
		return asked, func() error { return nil }, nil
	}
	if dir, err = os.MkdirTemp("", "skald-bench-"); err != nil {
		return "", nil, fmt.Errorf("create a directory for the run: %w", err)
	}
	// PostgreSQL may run as another user, who needs to traverse this directory.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", nil, fmt.Errorf("open the directory of the run: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
