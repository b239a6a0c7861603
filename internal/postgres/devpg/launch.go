package devpg

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/loop"
)

// launch starts the server process and returns when it accepts connections.
func (s *Server) launch(ctx context.Context, cfg Config, c cluster) error {
	for {
		port, err := freePort()
		if err != nil {
			return err
		}
		said, err := s.launchOn(ctx, cfg, c, port)
		if err == nil {
			return nil
		}
		// Two errors are temporary: another process has taken the port in the meantime, or children
		// of a killed server have not exited yet.
		passing := bytes.Contains(said, []byte("could not bind")) ||
			bytes.Contains(said, []byte("pre-existing shared memory block"))
		if !passing || !loop.Sleep(ctx, 20*pollEvery) {
			return fmt.Errorf("%w; the end of %s:\n%s", err, logPath(s.dir), said)
		}
	}
}

// launchOn makes one attempt. It also returns the end of the server's log.
func (s *Server) launchOn(ctx context.Context, cfg Config, c cluster, port int) ([]byte, error) {
	log, err := openLog(s.dir)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the server has its own descriptor
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}

	args := []string{"-D", c.pgdata}
	for _, name := range slices.Sorted(maps.Keys(cfg.Settings)) {
		args = append(args, "-c", name+"="+cfg.Settings[name])
	}
	args = append(args, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port),
		"-c", "unix_socket_directories=", "-c", "log_destination=stderr", "-c", "logging_collector=off")
	cmd := c.runAs.command(c.pgdata, filepath.Join(c.bin, "postgres"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	for {
		state, err := readPidFile(c.pgdata)
		// The PID alone proves nothing: containers reuse PIDs, and the file may still belong to the
		// previous server.
		if err == nil && state.ready && state.pid == proc.cmd.Process.Pid && state.port == port {
			s.proc, s.pid, s.port = proc, state.pid, state.port
			return nil, nil
		}
		select {
		case <-proc.done:
			return logSince(log, before), fmt.Errorf("postgres exited at startup: %s", proc.cmd.ProcessState)
		default:
		}
		if !loop.Sleep(ctx, pollEvery) {
			proc.abort()
			return logSince(log, before), fmt.Errorf("postgres is not ready yet: %w", ctx.Err())
		}
	}
}

// ensureDatabase creates Database unless it exists.
func (s *Server) ensureDatabase(ctx context.Context) error {
	db, err := s.open("postgres")
	if err != nil {
		return err
	}
	defer db.Close()
	var exists bool
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, Database).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+pq.QuoteIdentifier(Database)+" OWNER "+pq.QuoteIdentifier(User))
	return err
}

// open prepares connections to database for our own queries. The server is on this machine, so we
// would wait only if the port now belonged to another program.
func (s *Server) open(database string) (*sql.DB, error) {
	u := s.url(database)
	q := u.Query()
	q.Set("connect_timeout", "5")
	u.RawQuery = q.Encode()
	connector, err := pq.NewConnector(u.String())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// freePort returns a TCP port that is free now.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// maxLog is the size in bytes from which the log is renamed when the server starts.
const maxLog = 16 << 20

func openLog(dir string) (*os.File, error) {
	info, err := os.Stat(logPath(dir))
	switch {
	case err == nil && info.Size() > maxLog:
		if err := os.Rename(logPath(dir), logPath(dir)+".1"); err != nil {
			return nil, err
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return os.OpenFile(logPath(dir), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// logSince returns the last lines of log written at or after offset.
func logSince(log *os.File, offset int64) []byte {
	const enough = 4 << 10
	said, err := io.ReadAll(io.NewSectionReader(log, offset, maxLog))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(said[max(0, len(said)-enough):])
}
