// Package mutants checks that the tests named in docs/requirements prove what they claim to: it
// draws rows by a seed, breaks the code behind each row, and runs the row's test, which must fail.
//
//	make mutants                         every row
//	make mutants SEED=7 N=10             ten rows, drawn by a seed
//	make mutants SEED=day N=20           twenty rows of the day
//	make mutants SEED=day BUDGET=30s     rows of the day with cheap tests, for that long
//	make mutants ROWS='X10,gap 2'        these rows
//
// The files:
//
//	mutants.go  the draw and the table that is printed
//	rows.go     the rows of docs/requirements and their tests; the rows that nothing can break
//	try.go      one mutant: its build overlay, its test, and the outcome
//	table*.go   the mutants, grouped by what they break
package mutants

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mutant is one way to break what rows of the requirements promise.
type Mutant struct {
	Rows string // row numbers as in Row.No, separated by commas
	File string
	// Old occurs exactly once in File; once it is replaced with New, the test of each of Rows
	// fails. If File contains Old several times, From occurs once, and the first Old after it is
	// replaced.
	Old, New string
	From     string
}

// Break applies the mutant to a file's text.
func (m *Mutant) Break(text string) (string, error) {
	if m.File == afterMigrations {
		return text, nil
	}
	head, tail := "", text
	if m.From != "" {
		if n := strings.Count(text, m.From); n != 1 {
			return "", fmt.Errorf("%s: %s contains the text of From %d times, want once:\n%s", m.Rows, m.File, n, m.From)
		}
		head, tail, _ = strings.Cut(text, m.From)
		head += m.From
	}
	n := strings.Count(tail, m.Old)
	if n == 0 || n > 1 && m.From == "" || m.Old == m.New {
		return "", fmt.Errorf("%s: %s contains the text %d times: adapt the mutant to today's code:\n%s", m.Rows, m.File, n, m.Old)
	}
	return head + strings.Replace(tail, m.Old, m.New, 1), nil
}

// after returns a mutant of the schema: a statement that the tests' databases execute after the
// migrations. It requires no compilation.
func after(rows, statement string) Mutant {
	return Mutant{Rows: rows, File: afterMigrations, New: statement}
}

// afterMigrations takes the place of a file name.
const afterMigrations = "db/migrations"

// trial is a row, its test and a mutant of the code behind it.
type trial struct {
	row, test string
	m         *Mutant
}

// Draw selects the rows to try.
type Draw struct {
	Seed   uint64
	N      int           // at most this many rows; 0: all
	Rows   string        // only these rows, separated by commas
	Budget time.Duration // rows of cheap packages only, and no new ones after this time; 0: no limit
	Beside int           // how many are tried concurrently
}

// Run breaks the code behind the drawn rows and prints a table. It returns an error if a test
// doesn't fail.
func Run(d Draw) error {
	rows, err := Rows(".")
	if err != nil {
		return err
	}
	all := draw(d, rows)
	if len(all) == 0 {
		return errors.New("no row was selected")
	}
	if d.Rows == "" && d.N+int(d.Budget) > 0 {
		fmt.Printf("seed %d\n", d.Seed)
	}
	w, err := newWorkshop(".")
	if err != nil {
		return err
	}
	defer w.close()
	type experiment struct {
		m    *Mutant
		test string
	}
	var lock sync.Mutex
	results := map[experiment]string{} // several rows may share the same code and test
	tried, proved, alive := 0, 0, 0
	begin := time.Now()
	next := func() (t trial, of []string, ok bool) {
		lock.Lock()
		defer lock.Unlock()
		for len(all) > 0 && (d.Budget == 0 || time.Since(begin) < d.Budget) {
			t, all = all[0], all[1:]
			if _, known := results[experiment{t.m, t.test}]; known {
				continue // listed together with the first of its rows
			}
			results[experiment{t.m, t.test}] = ""
			of = append(of, t.row)
			for _, other := range all {
				if other.m == t.m && other.test == t.test {
					of = append(of, other.row)
				}
			}
			return t, of, true
		}
		return t, nil, false
	}
	var failed error
	var working sync.WaitGroup
	fmt.Printf("%-16s %6s  %-60s %-48s %s\n", "result", "time", "test", "broken in", "rows")
	for range max(1, d.Beside) {
		working.Go(func() {
			for t, of, ok := next(); ok; t, of, ok = next() {
				since := time.Now()
				result, err := w.try(t.m, t.test)
				lock.Lock()
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("row %s: %w", t.row, err))
				}
				results[experiment{t.m, t.test}] = result
				tried += len(of)
				switch {
				case result == killed:
					proved += len(of)
				case result == hung && d.Budget > 0:
					// A draw with a budget runs on a busy machine, where a test that doesn't finish
					// proves nothing.
				default:
					alive += len(of)
				}
				fmt.Printf("%-16s %5.1fs  %-60s %-48s %s\n",
					result, time.Since(since).Seconds(), t.test, t.m.File, strings.Join(of, ", "))
				lock.Unlock()
			}
		})
	}
	working.Wait()
	fmt.Printf("%d rows, %d mutants, %.0f s, %d of the rows not proved\n",
		tried, len(results), time.Since(begin).Seconds(), tried-proved)
	if alive > 0 {
		failed = errors.Join(failed, fmt.Errorf(
			"the tests of %d rows did not fail although the code behind them was broken", alive))
	}
	return failed
}

// draw returns rows that have a mutant: a random selection by the seed, the given rows, or all of
// them. The latter two are in the order of their tests, so that compiled packages are reused by the
// next test.
func draw(d Draw, rows []Row) (all []trial) {
	tests := map[string]string{}
	for _, r := range rows {
		tests[r.No] = r.Test
	}
	wanted := strings.Split(d.Rows, ",")
	for i := range All {
		for _, no := range All[i].rows() {
			if d.Rows == "" && (d.Budget == 0 || cheap(tests[no])) || slices.Contains(wanted, no) {
				all = append(all, trial{no, tests[no], &All[i]})
			}
		}
	}
	if d.Rows != "" || d.N == 0 && d.Budget == 0 {
		slices.SortStableFunc(all, func(a, b trial) int { return strings.Compare(a.test, b.test) })
		return all
	}
	random := rand.New(rand.NewPCG(d.Seed, d.Seed))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if d.N > 0 {
		all = all[:min(d.N, len(all))]
	}
	return all
}

func (m *Mutant) rows() []string { return strings.Split(m.Rows, ", ") }

// cheap reports whether a test's package builds and runs its mutants within a few seconds.
func cheap(test string) bool {
	pkg, _, _ := strings.Cut(test, ".")
	return slices.Contains(cheapPackages, pkg)
}

var cheapPackages = []string{"audit", "cache", "config", "db", "dlq", "egress", "httpkit", "jobrun", "participant",
	"principal", "retry", "saga", "schedule", "webhooks", "workflow"}
