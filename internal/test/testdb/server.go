package testdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/skald-saga/skald/internal/postgres/devpg"
)

// urlEnv names the environment variable with the DSN of an existing server.
const urlEnv = "TEST_DATABASE_URL"

// address describes how to connect to a server as a superuser.
type address struct {
	maintenance string                       // DSN of a database that always exists
	dsn         func(database string) string // DSN of another database
	private     bool                         // no other process uses the server
}

// settings trade durability for speed: after a crash of the machine, the data is worthless.
// Autovacuum would make plans and timings vary from run to run. A test with several nodes needs up
// to fifty connections, and tests of a package run in parallel.
var settings = map[string]string{
	"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
	"max_connections": "600", "max_wal_size": "64MB", "autovacuum": "off",
}

var started struct {
	sync.Mutex
	address *address
}

// server returns this process's server, which the first call starts. After a failed start, the next
// call tries again.
func server(ctx context.Context) (address, error) {
	started.Lock()
	defer started.Unlock()
	if started.address != nil {
		return *started.address, nil
	}
	a, err := external(os.Getenv(urlEnv))
	if err == nil && a.dsn == nil {
		a, err = private(ctx)
	}
	if err != nil {
		return address{}, fmt.Errorf("tests need PostgreSQL: %w", err)
	}
	started.address = &a
	return a, nil
}

// external returns the server of dsn, or the zero address if dsn is empty.
func external(dsn string) (address, error) {
	if dsn == "" {
		return address{}, nil
	}
	if !strings.Contains(dsn, "://") { // key=value form: the last value wins
		return address{maintenance: dsn, dsn: func(database string) string { return dsn + " dbname=" + database }}, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return address{}, fmt.Errorf("%s is not a URL", urlEnv) // the parse error would reveal the password
	}
	return address{maintenance: dsn, dsn: func(database string) string {
		other := *u
		other.Path = "/" + database
		return other.String()
	}}, nil
}

// private starts a private server in the first free directory.
func private(ctx context.Context) (address, error) {
	base, err := baseDir()
	if err != nil {
		return address{}, err
	}
	bin, err := devpg.FindBinaries(ctx, 0)
	if err != nil {
		return address{}, err
	}
	major, err := devpg.Major(ctx, bin)
	if err != nil {
		return address{}, err
	}
	for n := 0; ; n++ {
		dir := filepath.Join(base, fmt.Sprintf("pg%d-%d", major, n))
		s, err := devpg.Start(ctx, devpg.Config{Dir: dir, Bin: bin, Settings: settings, Exclusive: true})
		if errors.Is(err, devpg.ErrInUse) {
			continue // another test process uses it
		}
		if err != nil {
			return address{}, fmt.Errorf("%w\n(if a crash of the machine has damaged it, delete it: it holds nothing of value)", err)
		}
		a := address{maintenance: s.DSN("postgres"), dsn: s.DSN, private: true}
		if err := removeLeftovers(ctx, a); err != nil {
			return address{}, errors.Join(err, s.Stop(ctx))
		}
		return a, nil
	}
}

// baseDir creates the directory that contains all servers' directories. All users of the machine
// know its name, so if it already exists it must belong to the current user.
func baseDir() (string, error) {
	parent := os.TempDir()
	if memory := inMemory(); memory != "" && os.Getenv("TMPDIR") == "" {
		parent = memory
	}
	base := filepath.Join(parent, fmt.Sprintf("skald-testdb-%d", os.Getuid()))
	// Other users may traverse it, because root's servers run as another user.
	if err := os.Mkdir(base, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ok || int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not a directory that only this user can write to: remove it", base)
	}
	return base, nil
}
