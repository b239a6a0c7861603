package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/skald-saga/skald/internal/loop"
)

// pidFile is the part that we use of postmaster.pid, PostgreSQL's file about its state.
type pidFile struct {
	pid   int
	port  int  // 0 until the server has written it
	ready bool // whether the server accepts connections
}

func pidFilePath(pgdata string) string { return filepath.Join(pgdata, "postmaster.pid") }

// readPidFile reads as much of the file as has been written. If the file is missing, the error is
// fs.ErrNotExist.
func readPidFile(pgdata string) (pidFile, error) {
	b, err := os.ReadFile(pidFilePath(pgdata))
	if err != nil {
		return pidFile{}, err
	}
	line := func(n int) string { // lines are counted from 1
		lines := strings.Split(string(b), "\n")
		if n > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[n-1])
	}
	pid, err := strconv.Atoi(line(1))
	if err != nil || pid <= 0 {
		return pidFile{}, fmt.Errorf("%s does not begin with a process id", pidFilePath(pgdata))
	}
	port, _ := strconv.Atoi(line(4))
	return pidFile{pid: pid, port: port, ready: line(8) == "ready"}, nil
}

// endFormerServer is called by the owner of the directory and returns when no server is running on
// pgdata. A server that is still running has lost its owner: on Linux it is already stopping, and
// another request does no harm.
//
// If the process of postmaster.pid is gone, the file is left to PostgreSQL, which uses the shared
// memory named in it to look for remaining children. But if another program now has that PID
// (common in containers, where PIDs repeat from run to run), or the file is garbled, PostgreSQL
// would always refuse to start, so the file is removed.
func endFormerServer(ctx context.Context, pgdata string, log *slog.Logger) error {
	former, err := readPidFile(pgdata)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		log.WarnContext(ctx, "removing a garbled postmaster.pid", slog.Any("error", err))
		return removePidFile(pgdata)
	}
	process, err := os.FindProcess(former.pid)
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	if !serves(former.pid, pgdata) {
		if errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			return nil
		}
		log.WarnContext(ctx, "removing a stale postmaster.pid", slog.Int("pid", former.pid))
		return removePidFile(pgdata)
	}
	log.InfoContext(ctx, "waiting for an orphaned server to stop", slog.Int("pid", former.pid))
	if err := process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the orphaned server, process %d: %w", former.pid, err)
	}
	for serves(former.pid, pgdata) {
		if !loop.Sleep(ctx, pollEvery) {
			return fmt.Errorf("the orphaned server, process %d, has not stopped: %w", former.pid, ctx.Err())
		}
	}
	return nil
}

// removePidFile removes the file, unless a server that was shutting down has already done so.
func removePidFile(pgdata string) error {
	if err := os.Remove(pidFilePath(pgdata)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
