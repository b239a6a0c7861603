package workflow

import (
	"fmt"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
)

// ordered returns the steps in running order: every step after those it
// depends on, and otherwise as declared. Steps run one at a time, so
// depends_on decides order, not parallelism (decision 0009).
func ordered(steps []Step) ([]Step, []fault.Field) {
	index := make(map[string]int, len(steps))
	for i, s := range steps {
		index[s.Name] = i
	}
	var problems []fault.Field
	for i, s := range steps {
		for k, dep := range s.DependsOn {
			at := fmt.Sprintf("/steps/%d/depends_on/%d", i, k)
			switch j, known := index[dep]; {
			case !known:
				problems = append(problems, fault.Field{Pointer: at, Code: CodeUnknownDependency, Message: fmt.Sprintf("there is no step %q", dep)})
			case j == i:
				problems = append(problems, fault.Field{Pointer: at, Code: CodeCyclic, Message: fmt.Sprintf("step %q depends on itself", dep)})
			}
		}
	}
	if problems != nil {
		return nil, problems
	}
	out := make([]Step, 0, len(steps))
	done := make([]bool, len(steps))
	for len(out) < len(steps) {
		next := firstReady(steps, done, index)
		if next < 0 {
			return nil, []fault.Field{{Pointer: "/steps", Code: CodeCyclic, Message: "these steps wait for each other: " + strings.Join(remaining(steps, done), ", ")}}
		}
		done[next] = true
		out = append(out, steps[next])
	}
	return out, nil
}

// firstReady returns the first undone step whose dependencies are all done, -1 when there is none.
func firstReady(steps []Step, done []bool, index map[string]int) int {
next:
	for i, s := range steps {
		if done[i] {
			continue
		}
		for _, dep := range s.DependsOn {
			if !done[index[dep]] {
				continue next
			}
		}
		return i
	}
	return -1
}

func remaining(steps []Step, done []bool) []string {
	var names []string
	for i, s := range steps {
		if !done[i] {
			names = append(names, s.Name)
		}
	}
	return names
}
