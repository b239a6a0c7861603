package saga

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// These bodies are larger than the payload p or the output from which they are built.
var largeCompensations = map[string]string{
	"references":  `http: {url: "http://h/undo", body: {a: "${VALUE}", b: ["${VALUE}", "${VALUE}"]}}`,
	"text":        `http: {url: "http://h/undo", body: {a: "it is ${VALUE}, ${VALUE} and ${VALUE}"}}`,
	"computation": `http: {url: "http://h/undo", body: {a: "${[VALUE, VALUE, VALUE]}"}}`,
	"condition":   `http: {url: "http://h/undo", body: {a: "${VALUE == 'x' ? '' : VALUE + VALUE + VALUE}"}}`,
	"form":        `http: {url: "http://h/undo", form: {a: ["${VALUE}", "${VALUE}", "${VALUE}"]}}`,
	"job":         `job: undo, args: {a: "${VALUE}", b: "${[VALUE, VALUE]}"}`,
	"job, plain":  `job: undo, args: {a: "${VALUE}", b: ["${VALUE}", "${VALUE}"]}`,
}

const threeSteps = `
name: order
steps:
- name: reserve
  action: {http: {url: "http://h/%s"}}
  compensation: {%s}
- name: charge
  action: {http: {url: "http://h/charge%s"}}
  compensation: none
- name: ship
  action: {http: {url: "http://h/ship"}}
  compensation: none
`

// TestNoStepIsSentWhoseComputedCompensationCouldNotBe checks that a step is not executed if the
// body of its compensation is already too large, however that body is built, and that an output
// which makes it too large is dropped (docs/participants.md).
func TestNoStepIsSentWhoseComputedCompensationCouldNotBe(t *testing.T) {
	const plain = `http: {url: "http://h/undo"}`
	compensations := map[string]string{"": plain}
	for name, c := range largeCompensations {
		compensations[name] = c
	}
	for name, undo := range compensations {
		for _, action := range []string{"reserve", "${payload.id}"} {
			// Three times 900 bytes plus less than 500 others, compared with 3,200 and 2,400 bytes.
			payload := fmt.Sprintf(`{"id":"1","p":"%s"}`, strings.Repeat("x", 900))
			fits, not := int64(3200), int64(2400)
			if name == "" {
				fits, not = 1200+900, 1200 // it contains the payload twice
			}
			what := name + ", action " + action
			early := fmt.Sprintf(threeSteps, action, strings.ReplaceAll(undo, "VALUE", "payload.p"), "")
			for limit, want := range map[int64]bool{fits: false, not: true} {
				r := sagaOf(t, early, payload)
				o, unsendable := r.Unsendable(Budget{Request: limit}, noon)
				if unsendable != want || want && o.Code != CodeRequestTooLarge {
					t.Errorf("%s, within %d bytes: unsendable %v, %+v", what, limit, unsendable, o)
				}
				if r.job() == nil {
					_, prepared, is := r.Prepared(Defaults{}, Budget{Request: limit}, noon)
					if is != want || prepared.Message != o.Message {
						t.Errorf("%s, within %d bytes: prepared %v, %+v", what, limit, is, prepared)
					}
				}
			}
			output := json.RawMessage(fmt.Sprintf(`{"p":"%s"}`, strings.Repeat("x", 900)))
			own := fmt.Sprintf(threeSteps, action, strings.ReplaceAll(undo, "VALUE", "output.p"), "")
			if name == "" {
				fits, not = 2400, 1200 // it contains the output twice
			}
			if strings.HasPrefix(name, "job") {
				continue // a step that used to be a job has no output of its own
			}
			for limit, want := range map[int64]State{fits: Running, not: Compensating} {
				r, _ := budgeted(t, Budget{Request: limit}, sagaOf(t, own, `{"id":"1"}`), doneWith(output))
				if r.State != want || want == Compensating && (r.CurrentStep != 0 || r.Error.Code != CodeSagaTooLarge) {
					t.Errorf("%s, output, within %d bytes: %s at step %d, %+v", what, limit, r.State, r.CurrentStep, r.Error)
				}
			}
		}
	}
}

// A later output that is named in the compensation of an earlier step counts as well.
func TestAnOutputIsDroppedThatAnEarlierComputedCompensationCouldNotCarry(t *testing.T) {
	for name, undo := range largeCompensations {
		undo = strings.ReplaceAll(undo, "VALUE", "steps.charge.p")
		definition := fmt.Sprintf(threeSteps, "reserve", undo, "/${payload.id}")
		output := json.RawMessage(fmt.Sprintf(`{"p":"%s"}`, strings.Repeat("x", 900)))
		for limit, want := range map[int64]State{3200: Running, 2400: Compensating} {
			r, _ := budgeted(t, Budget{Request: limit}, sagaOf(t, definition, `{"id":"1"}`), doneWith(nil), doneWith(output))
			if r.State != want || want == Compensating && (r.Error == nil || r.Error.Code != CodeSagaTooLarge) {
				t.Errorf("%s, within %d bytes: %s, %+v", name, limit, r.State, r.Error)
			}
		}
	}
}
