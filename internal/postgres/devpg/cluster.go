package devpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A cluster is PostgreSQL's term for a data directory with all its databases.
type cluster struct {
	pgdata   string
	bin      string
	runAs    account
	password string // password of User
}

const passwordFile = "skald.password"

// Exists reports whether dir already has a cluster, which Start would use instead of creating one.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "pgdata", "PG_VERSION"))
	return err == nil
}

// openCluster returns the cluster of cfg.Dir, and creates it if there is none. The caller must own
// the directory, and no server may be running on it.
func openCluster(ctx context.Context, cfg Config) (cluster, error) {
	removeHalfMade(cfg)
	pgdata := filepath.Join(cfg.Dir, "pgdata")
	if _, err := os.Stat(pgdata); errors.Is(err, fs.ErrNotExist) {
		return makeCluster(ctx, cfg, pgdata)
	}
	made, err := madeBy(pgdata)
	if err != nil {
		return cluster{}, err
	}
	c := cluster{pgdata: pgdata, bin: cfg.Bin}
	if c.bin == "" {
		if c.bin, err = FindBinaries(ctx, made); err != nil {
			return cluster{}, err
		}
	}
	major, err := Major(ctx, c.bin)
	if err != nil {
		return cluster{}, err
	}
	if major != made {
		return cluster{}, fmt.Errorf(`%w: %s was made by version %d, and the programs in %s are version %d.
Nothing was changed. Install PostgreSQL %d or set %s to where it is, move the data with
pg_upgrade or pg_dump, or choose another directory`,
			ErrVersionMismatch, pgdata, made, c.bin, major, made, BinEnv)
	}
	if c.password, err = readPassword(pgdata); err != nil {
		return cluster{}, err
	}
	owners, err := accountsOf(pgdata)
	if err != nil {
		return cluster{}, err
	}
	var refusals error
	for _, c.runAs = range owners {
		if err = c.runAs.probe(ctx, pgdata, c.bin); err == nil {
			return c, nil
		}
		refusals = errors.Join(refusals, err)
	}
	return cluster{}, refusals
}

// madeBy returns the major version of PostgreSQL that created pgdata.
func madeBy(pgdata string) (int, error) {
	b, err := os.ReadFile(filepath.Join(pgdata, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s is not a PostgreSQL data directory (it has no PG_VERSION): move it away or choose another directory", pgdata)
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION says %q, which is not a version that this program knows", pgdata, b)
	}
	return major, nil
}

func readPassword(pgdata string) (string, error) {
	b, err := os.ReadFile(filepath.Join(pgdata, passwordFile))
	return strings.TrimSpace(string(b)), err
}

// halfMade is the pattern of directories in which initdb works. A finished directory is renamed to
// pgdata, so an interrupted initdb leaves nothing that could be mistaken for data.
const halfMade = "pgdata.init-*"

func removeHalfMade(cfg Config) {
	left, _ := filepath.Glob(filepath.Join(cfg.Dir, halfMade))
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			// An initdb that is being killed may still be writing. The next start removes the directory.
			cfg.Log.Warn("could not remove the remains of an interrupted initdb", slog.Any("error", err))
		}
	}
}

// makeCluster creates pgdata as the first account that works here.
func makeCluster(ctx context.Context, cfg Config, pgdata string) (cluster, error) {
	c := cluster{pgdata: pgdata, bin: cfg.Bin}
	var err error
	if c.bin == "" {
		if c.bin, err = FindBinaries(ctx, 0); err != nil {
			return cluster{}, err
		}
	}
	var refusals error
	for _, c.runAs = range accounts() {
		work, err := c.workplace(ctx, cfg.Dir)
		if err == nil {
			c.password, err = initdb(ctx, cfg, c, work)
			return c, errors.Join(err, os.RemoveAll(work))
		}
		if ctx.Err() != nil {
			return cluster{}, err
		}
		refusals = errors.Join(refusals, err)
	}
	return cluster{}, fmt.Errorf("PostgreSQL cannot run here; choose a directory that other users can reach, or do not run as root. Tried:\n%w", refusals)
}

// workplace creates a directory in dir in which c.runAs can work. If it cannot, it returns the
// reason and leaves nothing behind.
func (c cluster) workplace(ctx context.Context, dir string) (string, error) {
	work, err := os.MkdirTemp(dir, halfMade)
	if err != nil {
		return "", err
	}
	if err = c.runAs.own(work); err == nil {
		err = c.runAs.probe(ctx, work, c.bin)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(work))
	}
	return work, nil
}

// initdb creates a cluster in work and moves it, with its password, to c.pgdata. When it returns,
// everything is on disk, unless cfg disables fsync.
func initdb(ctx context.Context, cfg Config, c cluster, work string) (string, error) {
	password := rand.Text()
	secret, err := verifier(password)
	if err != nil {
		return "", err
	}
	pwfile := filepath.Join(work, "password")
	if err := os.WriteFile(pwfile, []byte(secret+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := c.runAs.own(pwfile); err != nil {
		return "", err
	}
	made := filepath.Join(work, "pgdata")
	args := []string{"-D", made, "-U", User, "-A", "scram-sha-256", "--pwfile", pwfile,
		"-E", "UTF8", "--locale=C", "--no-instructions"}
	durable := cfg.Settings["fsync"] != "off"
	if !durable {
		args = append(args, "--no-sync")
	}
	if _, err := run(ctx, c.runAs.command(work, filepath.Join(c.bin, "initdb"), args...)); err != nil {
		return "", err
	}
	if err := os.WriteFile(pwfile, []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := os.Rename(pwfile, filepath.Join(made, passwordFile)); err != nil {
		return "", err
	}
	if durable {
		for _, path := range []string{filepath.Join(made, passwordFile), made} {
			if err := syncPath(path); err != nil {
				return "", err
			}
		}
	}
	if err := os.Rename(made, c.pgdata); err != nil {
		return "", err
	}
	if durable {
		return password, syncPath(cfg.Dir)
	}
	return password, nil
}

// syncPath makes the content of a file, or the entries of a directory, durable.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func logPath(dir string) string { return filepath.Join(dir, "postgres.log") }
