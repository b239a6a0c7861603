package workflow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

// depending is a step that depends on others.
func depending(name string, on ...string) string {
	list, _ := json.Marshal(on)
	if len(on) == 0 {
		return step(name)
	}
	return step(name, `"depends_on":`+string(list))
}

func TestStepsRunAfterWhatTheyDependOnAndElseAsDeclared(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []string
		want  string
	}{
		{"no dependencies", []string{depending("c"), depending("a"), depending("b")}, "c a b"},
		{"already in order", []string{depending("a"), depending("b", "a"), depending("c", "b")}, "a b c"},
		{"backwards", []string{depending("a", "b"), depending("b", "c"), depending("c")}, "c b a"},
		{"a diamond", []string{depending("d", "b", "c"), depending("c", "a"), depending("b", "a"), depending("a")}, "a c b d"},
		{"one late dependency delays nothing else", []string{depending("a", "d"), depending("b"), depending("c"), depending("d")}, "b c d a"},
		{"a dependency named twice", []string{depending("b", "a", "a"), depending("a")}, "a b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := mustJSON(t, flow(tt.steps...))
			if got := strings.Join(d.StepNames(), " "); got != tt.want {
				t.Errorf("order %q, want %q", got, tt.want)
			}
		})
	}
}

func TestACycleIsNamedAndNothingElse(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []string
		want  string
	}{
		{"two steps", []string{depending("a", "b"), depending("b", "a")}, "a → b → a"},
		{"three steps", []string{depending("x"), depending("a", "c"), depending("b", "a"), depending("c", "x", "b")}, "a → c → b → a"},
		{"a step that waits for a cycle is not in it", []string{depending("late", "a"), depending("a", "b"), depending("b", "a")}, "a → b → a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := workflow.ParseJSON([]byte(flow(tt.steps...)), workflow.Limits{})
			if want := "WORKFLOW_CYCLIC: /steps: steps depend on each other: " + tt.want; fmt.Sprint(err) != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestOrderProperty compares the result with the definition of the order: each position holds the
// first declared step that is left and whose dependencies all come earlier.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9.-]{0,3}`), 1, 12, rapid.ID).Draw(t, "names")
		rank := rapid.Permutation(names).Draw(t, "rank") // no cycles, because steps depend only on lower ranks
		deps := map[string][]string{}
		var steps []string
		for _, n := range names {
			if lower := rank[:slices.Index(rank, n)]; len(lower) > 0 {
				deps[n] = rapid.SliceOfNDistinct(rapid.SampledFrom(lower), 0, len(lower), rapid.ID).Draw(t, "deps of "+n)
			}
			steps = append(steps, depending(n, deps[n]...))
		}
		d, err := workflow.ParseJSON([]byte(flow(steps...)), workflow.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		left, placed := slices.Clone(names), []string{}
		for len(left) > 0 {
			i := slices.IndexFunc(left, func(n string) bool {
				return !slices.ContainsFunc(deps[n], func(dep string) bool { return !slices.Contains(placed, dep) })
			})
			placed, left = append(placed, left[i]), slices.Delete(left, i, i+1)
		}
		if diff := cmp.Diff(placed, d.StepNames()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		for _, s := range d.Steps {
			if diff := cmp.Diff(deps[s.Name], s.DependsOn,
				cmp.Transformer("empty", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Errorf("dependencies of %s (-want +got):\n%s", s.Name, diff)
			}
		}
		stored, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := workflow.ParseJSON(stored, workflow.Limits{})
		if err != nil || !bytes.Equal(again.Hash(), d.Hash()) {
			t.Errorf("what is in running order stays so: %v, %v", again.StepNames(), err)
		}
	})
}

func TestEveryCycleIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 10).Draw(t, "steps")
		deps := make([][]string, n)
		for i := range n {
			deps[i] = rapid.SliceOfNDistinct(rapid.Map(rapid.IntRange(0, n-1),
				func(j int) string { return fmt.Sprintf("s%d", j) }), 0, 2, rapid.ID).
				Draw(t, "deps")
			deps[i] = slices.DeleteFunc(deps[i], func(d string) bool { return d == fmt.Sprintf("s%d", i) })
		}
		var steps []string
		for i := range n {
			steps = append(steps, depending(fmt.Sprintf("s%d", i), deps[i]...))
		}
		_, err := workflow.ParseJSON([]byte(flow(steps...)), workflow.Limits{})
		if err == nil {
			if reaches(deps) {
				t.Errorf("a cycle went unnoticed: %q", deps)
			}
			return
		}
		_, named, _ := strings.Cut(err.Error(), "depend on each other: ")
		path := strings.Split(named, " → ")
		if len(path) < 3 || path[0] != path[len(path)-1] {
			t.Fatalf("no cycle is named: %v", err)
		}
		for i, from := range path[:len(path)-1] {
			var at int
			fmt.Sscanf(from, "s%d", &at)
			if !slices.Contains(deps[at], path[i+1]) {
				t.Errorf("%s does not depend on %s: %v", from, path[i+1], err)
			}
		}
	})
}

// reaches determines by brute force whether some step depends, directly or indirectly, on itself.
func reaches(deps [][]string) bool {
	index := func(name string) (i int) { fmt.Sscanf(name, "s%d", &i); return i }
	for start := range deps {
		seen, queue := map[int]bool{}, []int{start}
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			for _, d := range deps[at] {
				if index(d) == start {
					return true
				}
				if !seen[index(d)] {
					seen[index(d)] = true
					queue = append(queue, index(d))
				}
			}
		}
	}
	return false
}
