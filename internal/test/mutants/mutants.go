// Package mutants shows that the tests which docs/requirements names are proofs: it
// draws rows by a seed, breaks the code behind each of them in a copy of the tree, and
// runs the row's test, which has to fail.
//
//	make mutants                         fifty rows, by a seed that is printed
//	make mutants SEED=7 N=10             the same ten rows again
//	make mutants ROWS='X10,gap 2'        these rows
//	make mutants SEED=day N=20           twenty rows of the day
//
// The files:
//
//	mutants.go       the draw, the copy, the table that is printed
//	table.go         the mutations of rules, edges and the engine
//	table_stores.go  those of stores and migrations
//	table_seeds.go   those of the tables and views of the seed documents
package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Mutant is one way to break what rows of the requirements claim.
type Mutant struct {
	Rows []string // their numbers; those of one-product.md with "one-product " before them
	File string
	// Old occurs exactly once in File; with New instead, Test fails.
	Old, New string
	Test     string // package.Name, as the rows write it
}

// drawn is a row and the mutant behind it.
type drawn struct {
	row string
	m   *Mutant
}

const (
	killed   = "killed"
	survived = "SURVIVED"
	broken   = "DOES NOT BUILD"
	hung     = "NO RESULT"
)

// Run breaks the code behind n rows drawn by the seed, or behind the given rows, separated by
// commas, and prints a table. It returns an error when a test does not fail.
func Run(seed uint64, n int, rows string) error {
	all := draw(seed, n, rows)
	if len(all) == 0 {
		return errors.New("no row has such a number")
	}
	if rows == "" {
		fmt.Printf("seed %d: %d rows\n", seed, len(all))
	}
	dir, err := os.MkdirTemp("", "skald-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyTree(dir); err != nil {
		return fmt.Errorf("copy the tree: %w", err)
	}
	results := map[*Mutant]string{} // several rows may depend on the same code
	alive := 0
	fmt.Printf("%-15s %-16s %6s  %-60s %s\n", "row", "result", "time", "test", "broken in")
	for _, d := range all {
		begin := time.Now()
		result, known := results[d.m]
		if !known {
			if result, err = try(dir, d.m); err != nil {
				return fmt.Errorf("row %s: %w", d.row, err)
			}
			results[d.m] = result
		}
		if result != killed {
			alive++
		}
		fmt.Printf("%-15s %-16s %5.1fs  %-60s %s\n", d.row, result, time.Since(begin).Seconds(), d.m.Test, d.m.File)
	}
	fmt.Printf("%d rows, %d mutants, %d of the rows not proved\n", len(all), len(results), alive)
	if alive > 0 {
		return fmt.Errorf("the tests of %d rows did not fail although the code behind them was broken", alive)
	}
	return nil
}

// draw returns n rows that have a mutant, by the seed, or the given rows.
func draw(seed uint64, n int, rows string) (all []drawn) {
	wanted := strings.Split(rows, ",")
	for i := range All {
		for _, row := range All[i].Rows {
			if rows == "" || slices.Contains(wanted, row) {
				all = append(all, drawn{row, &All[i]})
			}
		}
	}
	if rows != "" {
		return all
	}
	random := rand.New(rand.NewPCG(seed, seed))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// copyTree copies the files of the working tree, with uncommitted changes, so that the
// mutations never touch the tree itself.
func copyTree(to string) error {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	names, err := list.Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		} else if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
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

// try breaks the code in the copy, runs the test, and restores the copy.
func try(dir string, m *Mutant) (string, error) {
	path := filepath.Join(dir, m.File)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return "", fmt.Errorf("%s has the text to break %d times", m.File, n)
	}
	name := m.Test[strings.Index(m.Test, ".")+1:]
	pkg, err := packageOf(dir, m.Test)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), m.Old, m.New, 1)), 0o644); err != nil {
		return "", err
	}
	defer func() { _ = os.WriteFile(path, text, 0o644) }()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-trimpath", "-vet=off", "-ldflags=-w", "-count=1", "-timeout=5m",
		"-run=^"+name+"$", ".")
	cmd.Dir = filepath.Join(dir, pkg) // which may be in a module of its own
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return survived, nil
	case !errors.As(err, &exit) || ctx.Err() != nil:
		return hung, nil
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		fmt.Printf("%s\n", out)
		return broken, nil
	case !regexp.MustCompile(`(?m)^(--- FAIL|FAIL|panic)`).Match(out):
		fmt.Printf("%s\n", out)
		return hung, nil
	}
	return killed, nil
}

// packageOf returns the directory of a test given as package.Name.
func packageOf(dir, test string) (string, error) {
	pkg, name, _ := strings.Cut(test, ".")
	declared := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	clause := regexp.MustCompile(`(?m)^package ` + pkg + `(_test)?$`)
	found := ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || found != "" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && clause.Match(text) && declared.Match(text) {
			found, err = filepath.Rel(dir, filepath.Dir(path))
		}
		return err
	})
	if err == nil && found == "" {
		err = fmt.Errorf("there is no test %s", test)
	}
	return found, err
}
