package sagapages

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// retry adds the fields for a retry to its form: the step where it starts, and the input. An edited
// input is sent as a merge patch against the original.
func (p *pages) retry(v *web.Visit, a *web.Action, s *client.Saga, e *client.SagaExplanation) error {
	st := &story{saga: s, explain: e}
	if err := p.steps(v, st); err != nil {
		return err
	}
	from := v.Form.Get("from_step")
	if from == "" && e.Step != nil {
		from = e.Step.Name
	}
	picker := web.Field{
		Name: "from_step", Label: "From step", Kind: "select",
		Options: []web.Option{{Value: "", Label: "the step that failed or is waiting"}},
	}
	original := s.Payload
	for i := range st.steps {
		step := &st.steps[i]
		if step.Attempts == 0 && step.StateName == client.StepStateNamePending {
			continue // a retry cannot start at this step
		}
		picker.Options = append(picker.Options, web.Option{Value: step.Name, Label: step.Name})
		if step.Name == from || from == "" && step.StateName == client.StepStateNameFailed {
			if len(step.InputData) > 0 {
				original = step.InputData
			}
		}
	}
	slices.Reverse(picker.Options[1:]) // the last step comes first
	a.Fields = []web.Field{picker}
	var patch json.RawMessage
	if string(original) != hiddenText && len(original) > 0 && len(original) <= mostShown {
		a.Fields = append(a.Fields, web.Field{
			Name: "input", Label: "Input of the step; edit it to send something else", Kind: "json", Value: indented(original),
		}, web.Field{
			Name: "not_applied", Kind: "check",
			Label: "I have verified that no earlier attempt was applied (required to change the input of a step that may have been applied)",
		})
	}
	a.Body = func(form web.Form, members map[string]any) error {
		delete(members, "input")
		patch = nil
		text := strings.TrimSpace(form["input"])
		if text == "" {
			return nil
		}
		made, err := patchOf(original, text)
		if patch = made; patch != nil {
			members["input_patch"] = patch
		}
		return err
	}
	a.Show = func(answer []byte) (*web.Preview, error) {
		shown, err := showDryRun(answer)
		if err == nil && patch != nil {
			shown.Sentences = append(shown.Sentences, web.Sentence("Its input is changed by the merge patch %s.", string(patch)))
		}
		return shown, err
	}
	return nil
}

// patchOf returns the merge patch that turns original into the typed text, or nil if they are
// equal.
func patchOf(original json.RawMessage, typed string) (json.RawMessage, error) {
	before, err := exact(original)
	if err != nil {
		return nil, nil // the API always sends JSON
	}
	after, err := exact([]byte(typed))
	if err != nil {
		return nil, web.Malformed("The input is not valid JSON.")
	}
	if equal(before, after) {
		return nil, nil
	}
	patch, ok := mergePatch(before, after)
	if !ok {
		return nil, web.Malformed("A merge patch cannot set a member to null, only remove it.")
	}
	raw, err := json.Marshal(patch)
	return raw, err
}

// indented formats JSON for editing, keeping all digits of its numbers.
func indented(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}
