package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

const (
	killed    = "killed"
	survived  = "SURVIVED"
	broken    = "DOES NOT BUILD"
	unusable  = "NO DATABASE"
	hung      = "NO RESULT"
	noPackage = "NO TEST"
)

// workshop is where mutants are built. Go reads a mutant's file from a build overlay, so the tree
// is never modified, several mutants can be built at once, and everything they share is compiled
// once. Tests that read the tree themselves get a copy of it instead.
type workshop struct {
	root  string            // absolute path
	dir   string            // for overlay files and copies of the tree
	tests map[string]string // maps package.Name to the test's directory
	rapid map[string]bool   // directories whose tests are property tests run by rapid

	sync.Mutex
	made int
}

func newWorkshop(root string) (*workshop, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	w := &workshop{root: abs, tests: map[string]string{}, rapid: map[string]bool{}}
	if err := w.survey(); err != nil {
		return nil, err
	}
	w.dir, err = os.MkdirTemp("", "skald-mutants-")
	return w, err
}

func (w *workshop) close() { _ = os.RemoveAll(w.dir) }

// try breaks the code, runs the test, and returns the outcome.
func (w *workshop) try(m *Mutant, test string) (string, error) {
	at, ok := w.tests[test]
	if !ok {
		return noPackage, fmt.Errorf("there is no test %s", test)
	}
	_, name, _ := strings.Cut(test, ".")
	options := []string{"count=1", "timeout=5m", "failfast", "run=^" + name + "$"}
	if w.rapid[at] {
		options = append(options, "rapid.nofailfile") // rapid would leave the file in the tree
	}
	var cmd *exec.Cmd
	patient := patience.Env + "=90s"
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	if m.File == afterMigrations {
		binary, err := w.compiled(ctx, at)
		if err != nil {
			return "", err
		}
		for i := range options {
			options[i] = "-test." + options[i]
		}
		cmd = exec.CommandContext(ctx, binary, options...)
		cmd.Dir = filepath.Join(w.root, at)
		cmd.Env = append(os.Environ(), patient, testdb.AfterMigrationsEnv+"="+m.New)
	} else {
		dir, flags, err := w.overlaid(m, at, test)
		if err != nil {
			return "", err
		}
		for i := range options {
			options[i] = "-" + options[i]
		}
		arguments := slices.Concat([]string{"test", "-vet=off", "-ldflags=-s"}, options, []string{"."})
		cmd = exec.CommandContext(ctx, "go", arguments...)
		cmd.Dir = dir // dir may be in a module of its own
		cmd.Env = append(os.Environ(), patient, "GOFLAGS="+flags)
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	result := outcome(out, err, ctx.Err() != nil)
	if result != killed || os.Getenv("SHOW") != "" {
		fmt.Printf("%s\n", bytes.TrimSpace(out))
	}
	return result, nil
}

// compiled returns the test binary of a directory without mutants, which is compiled once.
func (w *workshop) compiled(ctx context.Context, at string) (string, error) {
	w.Lock()
	defer w.Unlock()
	binary := filepath.Join(w.dir, strings.ReplaceAll(at, "/", "_")+".test")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s", "-o", binary, ".")
	cmd.Dir = filepath.Join(w.root, at)
	cmd.Env = append(os.Environ(), "GOFLAGS="+trimmed(os.Getenv("GOFLAGS")))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w\n%s", at, err, out)
	}
	return binary, nil
}

// overlaid writes a mutant's file and returns the directory in which to run its test and the flags
// to use.
func (w *workshop) overlaid(m *Mutant, at, test string) (dir, flags string, err error) {
	text, err := os.ReadFile(filepath.Join(w.root, m.File))
	if err != nil {
		return "", "", err
	}
	mutated, err := m.Break(string(text))
	if err != nil {
		return "", "", err
	}
	w.Lock()
	w.made++
	own := filepath.Join(w.dir, fmt.Sprint(w.made))
	w.Unlock()
	flags = trimmed(os.Getenv("GOFLAGS"))
	if readsTheTree(at, test) || !slices.Contains([]string{".go", ".sql"}, filepath.Ext(m.File)) {
		if err := copyTree(w.root, own); err != nil {
			return "", "", err
		}
		return filepath.Join(own, at), flags, os.WriteFile(filepath.Join(own, m.File), []byte(mutated), 0o600)
	}
	overlay, err := writeOverlay(own, filepath.Join(w.root, m.File), []byte(mutated))
	// Set in the environment, so that programs which the test builds use the overlay as well.
	return filepath.Join(w.root, at), flags + " -overlay=" + overlay, err
}

// trimmed returns go's flags with exactly one -trimpath.
func trimmed(flags string) string {
	return strings.TrimSpace(strings.ReplaceAll(flags, "-trimpath", "") + " -trimpath")
}

var verdict = regexp.MustCompile(`(?m)^\s*--- FAIL|^panic|^FAIL\s.*\ds$`)

// outcome distinguishes a test that failed from one that never ran: a compile error doesn't count
// as a failed test, nor does a migration that PostgreSQL refuses.
func outcome(out []byte, err error, late bool) string {
	var exit *exec.ExitError
	switch {
	case bytes.Contains(out, []byte("no tests to run")):
		return noPackage
	case err == nil:
		return survived
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return broken
	case bytes.Contains(out, []byte("make the migrated template database")):
		return unusable
	case late, !errors.As(err, &exit), !verdict.Match(out):
		return hung
	}
	return killed
}

func writeOverlay(dir, path string, text []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file, overlay := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(file, text, 0o600), os.WriteFile(overlay, list, 0o600))
}

// readsTheTree reports whether a test reads files of the tree at run time rather than through the
// compiler. Files that are neither code nor migrations are always read that way.
func readsTheTree(dir, test string) bool {
	return slices.Contains([]string{"docs", "internal/test/archtest", "internal/test/manual"}, dir) ||
		test == "db.TestSQLNeedsNothingNewerThanPostgreSQL15"
}

// copyTree copies the files of the working tree, with uncommitted changes.
func copyTree(from, to string) error {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	names, err := list.Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		} else if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

var (
	packageClause = regexp.MustCompile(`(?m)^package (\w+?)(?:_test)?$`)
	testFunction  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// survey records the directory of each test.
func (w *workshop) survey() error {
	return filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(w.root, filepath.Dir(path))
		w.rapid[dir] = w.rapid[dir] || bytes.Contains(text, []byte(`"pgregory.net/rapid"`))
		if pkg := packageClause.FindSubmatch(text); pkg != nil {
			for _, m := range testFunction.FindAllSubmatch(text, -1) {
				w.tests[string(pkg[1])+"."+string(m[1])] = dir
			}
		}
		return err
	})
}
