package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// ordered returns the steps in execution order: every step comes after those it depends on, and
// otherwise the declared order is kept. Steps run one at a time, so depends_on determines the
// order, not parallelism (decision 0009). It returns nil if no such order exists, or if names are
// missing or duplicated, which has already been reported.
func (r *reader) ordered(steps []Step) []Step {
	index := make(map[string]int, len(steps))
	for i, s := range steps {
		index[s.Name] = i
	}
	if _, nameless := index[""]; nameless || len(index) < len(steps) || !r.dependencies(steps, index) {
		return nil
	}
	out := make([]Step, 0, len(steps))
	done := make([]bool, len(steps))
	for len(out) < len(steps) {
		next := slices.IndexFunc(steps, func(s Step) bool {
			return !done[index[s.Name]] && waitsFor(s, done, index) < 0
		})
		if next < 0 {
			r.fail("/steps", CodeCyclic, "steps depend on each other: %s", strings.Join(cycle(steps, done, index), " → "))
			return nil
		}
		done[next] = true
		out = append(out, steps[next])
	}
	return out
}

// dependencies reports dependencies on the step itself and on steps that do not exist.
func (r *reader) dependencies(steps []Step, index map[string]int) bool {
	ok := true
	for i, s := range steps {
		at := fmt.Sprintf("/steps/%d/depends_on", i)
		if len(s.DependsOn) > len(steps) { // limits the work of ordered
			r.fail(at, CodeInvalid, "lists more steps than the workflow has")
			ok = false
			continue
		}
		for k, dep := range s.DependsOn {
			switch j, known := index[dep]; {
			case !known:
				ok = false
				r.fail(fmt.Sprintf("%s/%d", at, k), CodeUnknownDependency, "there is no step %q", dep)
			case j == i:
				ok = false
				r.fail(fmt.Sprintf("%s/%d", at, k), CodeCyclic, "step %q depends on itself", dep)
			}
		}
	}
	return ok
}

// waitsFor returns the first unfinished step that s depends on, or -1 if s can run.
func waitsFor(s Step, done []bool, index map[string]int) int {
	for _, dep := range s.DependsOn {
		if i := index[dep]; !done[i] {
			return i
		}
	}
	return -1
}

// cycle returns the names of steps that wait for each other, with the first one repeated at the
// end. It must only be called when no remaining step can run.
func cycle(steps []Step, done []bool, index map[string]int) []string {
	var names []string
	for at := slices.Index(done, false); ; at = waitsFor(steps[at], done, index) {
		name := steps[at].Name
		if first := slices.Index(names, name); first >= 0 {
			return append(names[first:], name)
		}
		names = append(names, name)
	}
}
