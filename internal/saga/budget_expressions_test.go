package saga

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Bodies that are larger than the payload p or the output that they are made of.
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

// TestNoStepIsSentWhoseComputedCompensationCouldNotBe: whatever makes the body of a compensation, a step is not
// executed if that is too large already, and an output that makes it too large is dropped (docs/participants.md).
func TestNoStepIsSentWhoseComputedCompensationCouldNotBe(t *testing.T) {
	const plain = `http: {url: "http://h/undo"}`
	compensations := map[string]string{"": plain}
	for name, c := range largeCompensations {
		compensations[name] = c
	}
	for name, undo := range compensations {
		for _, action := range []string{"reserve", "${payload.id}"} {
			// Three times 900 bytes and less than 500 others, against 3,200 and 2,400 bytes.
			payload := fmt.Sprintf(`{"id":"1","p":"%s"}`, strings.Repeat("x", 900))
			fits, not := int64(3200), int64(2400)
			if name == "" {
				fits, not = 1200+900, 1200 // the payload is in it twice
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
				fits, not = 2400, 1200 // the output is in it twice
			}
			if strings.HasPrefix(name, "job") {
				continue // what was once a job has no output of its own
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

// A later output that the compensation of an earlier step names counts as well.
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
