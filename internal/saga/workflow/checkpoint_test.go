package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

const unchecked = `"checkpoint":false`

// undone is a step whose compensation has this path.
func undone(name, path string, extra ...string) string {
	return fmt.Sprintf(`{"name":%q,"action":{"http":{"url":"http://h/"}},"compensation":{"http":{"url":%q}}%s}`,
		name, "http://h/"+path, strings.Join(append([]string{""}, extra...), ","))
}

func TestMistakesWithCheckpoints(t *testing.T) {
	bad := workflow.CodeInvalid
	job := func(extra string) string { return `{"name":"j","job":"nightly","compensation":"none"` + extra + `}` }
	for _, tt := range []struct {
		name, src string
		mistakes  []string
	}{
		{"on every step", flow(calls("a", unchecked), calls("b", unchecked)), nil},
		{"true on a job", flow(job(`,"checkpoint":true`)), nil},
		{"null", flow(step("a", `"checkpoint":null`)), nil},
		{"no boolean", flow(step("a", `"checkpoint":"no"`)), []string{problem("/steps/0/checkpoint", bad)}},
		{"on a job", flow(job(`,`+unchecked), step("b")), []string{problem("/steps/0/checkpoint", bad)}},
		{"on the pivot", flow(step("a", `"pivot":true`, unchecked)), []string{problem("/steps/0/checkpoint", bad)}},
		{
			"an undo reads what may be lost", flow(step("a", unchecked), undone("b", "${steps.a.id}")),
			[]string{problem("/steps/1/compensation/http/url", workflow.CodeExpression)},
		},
		{
			"or what may be lost with the step before", flow(step("a", unchecked), step("b", unchecked), undone("c", "${steps.a.id}")),
			[]string{problem("/steps/2/compensation/http/url", workflow.CodeExpression)},
		},
		{
			"in the order in which they run",
			flow(undone("b", "${steps.a.id}", `"depends_on":["a"]`), step("a", unchecked)),
			[]string{problem("/steps/0/compensation/http/url", workflow.CodeExpression)},
		},
		{"an undo reads what was on disk", flow(step("a", unchecked), step("b"), undone("c", "${steps.a.id}")), nil},
		{"an undo reads its own output", flow(step("a", unchecked), undone("b", "${output.id}")), nil},
		{"an undo reads what a later step gave", flow(undone("a", "${steps.b.id}", unchecked), step("b")), nil},
		{"an action reads it", flow(step("a", unchecked), acts("b", "${steps.a.id}")), nil},
	} {
		_, err := workflow.ParseJSON([]byte(tt.src), workflow.Limits{})
		if _, got := mistakes(err); !slices.Equal(got, tt.mistakes) {
			t.Errorf("%s: %v (%v), want %v", tt.name, got, err, tt.mistakes)
		}
	}
}

func acts(name, path string) string {
	return fmt.Sprintf(`{"name":%q,"action":{"http":{"url":%q}},"compensation":"none"}`, name, "http://h/"+path)
}

// TestTheDefaultIsNotStored: a definition that states the default is the same as one that omits it.
func TestTheDefaultIsNotStored(t *testing.T) {
	for _, extra := range []string{`"checkpoint":true`, `"checkpoint":null`} {
		d, err := workflow.ParseJSON([]byte(flow(step("a", extra))), workflow.Limits{})
		if err != nil || d.Steps[0].Checkpoint != nil {
			t.Errorf("%s: %v, %v", extra, d, err)
		}
	}
}

func TestWhichStepsAreCalledAhead(t *testing.T) {
	job := `{"name":"j","job":"nightly","compensation":"none"}`
	for _, tt := range []struct {
		name, src, want string // per step: > if the next step may be called before its outcome is on disk
	}{
		{"none by default", flow(calls("a"), calls("b")), "--"},
		{"all but the last", flow(calls("a", unchecked), calls("b", unchecked), calls("c", unchecked)), ">>-"},
		{"those that say so", flow(calls("a"), calls("b", unchecked), calls("c"), calls("d")), "->--"},
		{"not the pivot", flow(calls("a", unchecked), calls("b", unchecked), step("p", `"pivot":true`), step("c", unchecked), step("d")), ">--" + ">-"},
		{"not a step with a condition", flow(calls("a", unchecked), calls("b", `"when":"${payload.x}"`, unchecked), calls("c")), "->-"},
		{"not a job", flow(calls("a", unchecked), job, calls("c", unchecked), calls("d")), "-->-"},
	} {
		d, err := workflow.ParseJSON([]byte(tt.src), workflow.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := ""
		for i := range d.Steps {
			got += map[bool]string{true: ">", false: "-"}[d.Ahead(i)]
		}
		if got != tt.want || d.Ahead(-1) || d.Ahead(len(d.Steps)) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
