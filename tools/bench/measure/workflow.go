package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// workflow is one of the measured workflows, with what its sagas must leave behind.
type workflow struct {
	name       string
	definition map[string]any
	wantStatus string // "": the sagas end in different ways
	wantState  int
	// undoneThird: every third saga ends as those of this workflow do.
	undoneThird *workflow
	// executed and compensated count the successful step logs of one saga.
	executed, compensated int
}

// The states of saga.saga_states that a saga of the benchmark may end in.
const (
	stateCompleted   = 3
	stateCompensated = 5
)

// orderStep is a step of an order by its name and the paths that it calls.
type orderStep struct {
	name, action, undo string // undo may be ""
}

// firstSteps are those of every order before its last, of which participants may refuse only that.
var firstSteps = []orderStep{
	{"reserve-stock", "/stock/reserve", "/stock/release"}, {"charge-payment", "/payment/charge", "/payment/refund"},
}

func lastStep(path string) orderStep { return orderStep{name: "ship-order", action: path} }

// define returns the definition of a workflow with these steps.
func define(participant, name string, steps []orderStep) map[string]any {
	var defined []any
	for _, step := range steps {
		compensation := any("none")
		if step.undo != "" {
			compensation = call(participant, step.undo)
		}
		defined = append(defined, map[string]any{
			"name": step.name, "action": call(participant, step.action), "compensation": compensation,
		})
	}
	return map[string]any{"name": name, "steps": defined}
}

// workflows returns the one that succeeds, the one whose third step is refused, so that two
// steps are undone, and the one to which that happens in every third saga.
func workflows(participant string) [3]workflow {
	ofThree := func(name, lastPath string) map[string]any {
		return define(participant, name, append(slices.Clone(firstSteps), lastStep(lastPath)))
	}
	undo := workflow{
		name: "bench-undo", definition: ofThree("bench-undo", "/shipment/refuse"),
		wantStatus: "FAILED", wantState: stateCompensated, executed: 2, compensated: 2,
	}
	return [3]workflow{
		{
			name: "bench-ok", definition: ofThree("bench-ok", "/shipment/create"),
			wantStatus: "COMPLETED", wantState: stateCompleted, executed: 3,
		},
		undo,
		{
			name: "bench-mixed", definition: ofThree("bench-mixed", "/shipment"+refuseThird),
			wantState: stateCompleted, executed: 3, undoneThird: &undo,
		},
	}
}

// goAhead lets the steps of the workflow run without waiting for the disk.
func (w *workflow) goAhead() {
	for _, step := range w.definition["steps"].([]any) { //nolint:forcetypeassert // made above
		step.(map[string]any)["checkpoint"] = false //nolint:forcetypeassert // made above
	}
}

func call(participant, path string) map[string]any {
	return map[string]any{"http": map[string]any{"method": http.MethodPost, "url": "http://" + participant + path}}
}

// registerWorkflow makes the workflow known to the server; that it already is
// counts as well.
func registerWorkflow(ctx context.Context, server string, flow workflow) error {
	body, err := json.Marshal(flow.definition)
	if err != nil {
		return fmt.Errorf("encode workflow %s: %w", flow.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/api/v1/workflows", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("register workflow %s: %w", flow.name, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("register workflow %s: %w", flow.name, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("register workflow %s: %w", flow.name, err)
	}
	if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusOK {
		return fmt.Errorf("register workflow %s: status %d: %s", flow.name, response.StatusCode, answer)
	}
	return nil
}
