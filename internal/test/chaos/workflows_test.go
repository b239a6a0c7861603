package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// flow is one workflow of the run.
type flow struct {
	name        string
	steps       []string
	withoutUndo []string
	ahead       []string // steps with checkpoint: false
	attempts    int      // max_attempts of a step
	undos       int      // max_attempts of a compensation
	definition  []byte
}

func stepName(i int) string { return fmt.Sprintf("s%d", i) }

// stepIndex is the inverse of stepName; -1 for any other name.
func stepIndex(name string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "s"))
	if err != nil {
		return -1
	}
	return i
}

// makeFlows generates workflows of three to six steps, some of them without a compensation. Half of
// the workflows give calls less time than participants sometimes take (shortTimeout). Every fourth
// gives up compensations early, so that there are dirty ends. In every second workflow, most steps
// don't wait for the disk.
func makeFlows(r *rand.Rand, participant string) []flow {
	var flows []flow
	for i := range 8 {
		f := flow{name: fmt.Sprintf("chaos-%d", i), attempts: 3, undos: 40}
		timeout := 1500
		if shortTimeout(i) {
			timeout = 250
		}
		if i%4 == 3 {
			f.undos = 2
		}
		var steps []map[string]any
		for k := range 3 + i%4 {
			name := stepName(k)
			f.steps = append(f.steps, name)
			url := "http://" + participant + "/steps/" + name
			step := map[string]any{
				"name": name, "timeout_ms": timeout,
				"action":       map[string]any{"http": map[string]any{"url": url}},
				"compensation": map[string]any{"http": map[string]any{"url": url + "/undo"}},
			}
			if r.Float64() < 0.2 && k > 0 {
				step["compensation"] = "none"
				f.withoutUndo = append(f.withoutUndo, name)
			}
			if i%2 == 1 && r.Float64() < 0.75 {
				step["checkpoint"] = false
				f.ahead = append(f.ahead, name)
			}
			steps = append(steps, step)
		}
		f.definition = encode(map[string]any{
			"name": f.name, "steps": steps,
			"retry": map[string]any{
				"max_attempts":        f.attempts,
				"initial_interval_ms": 20,
				"max_interval_ms":     200,
				"multiplier":          2,
				"jitter":              0.5,
			},
			"compensation_retry": map[string]any{
				"max_attempts":        f.undos,
				"initial_interval_ms": 20,
				"max_interval_ms":     300,
				"multiplier":          2,
				"jitter":              0.5,
			},
		})
		flows = append(flows, f)
	}
	return flows
}

func shortTimeout(i int) bool { return i >= 4 }

// checkpoint returns the lowest step that may lack a record when a step is called: from there on,
// steps don't wait for the disk.
func (f *flow) checkpoint(step int) int {
	for step > 0 && slices.Contains(f.ahead, stepName(step-1)) {
		step--
	}
	return step
}

func (f *flow) hasUndo(step string) bool { return !slices.Contains(f.withoutUndo, step) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it contains only maps of strings and numbers
	}
	return b
}
