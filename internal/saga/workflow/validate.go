package workflow

import (
	"encoding/json"
	"fmt"
)

const (
	maxMS = 366 * 86400 * 1000

	maxRetentionMS = 100 * maxMS
)

func (r *reader) definition(doc any, l Limits) *Definition {
	m := r.object(
		doc,
		"",
		"name",
		"description",
		"timeout_ms",
		"compensation_timeout_ms",
		"retry",
		"compensation_retry",
		"on_failure",
		"on_compensation_failure",
		"retention",
		"steps",
		"output",
		"expressions",
		"payload_schema",
	)
	d := &Definition{
		Name:                  r.name(m, ""),
		Description:           r.text(m, "", "description", 2000),
		TimeoutMS:             r.integer(m, "", "timeout_ms", 1, maxMS),
		CompensationTimeoutMS: r.integer(m, "", "compensation_timeout_ms", 1, maxMS),
		Retry:                 r.policy(m, "", "retry"),
		CompensationRetry:     r.policy(m, "", "compensation_retry"),
		OnFailure:             r.onFailure(m, ""),
		OnCompensationFailure: r.onUndoFailure(m, ""),
		Retention:             r.retention(m),
	}
	steps, isList := m["steps"].([]any)
	switch {
	case m == nil:
		return d
	case m["steps"] != nil && !isList:
		r.fail("/steps", CodeInvalid, "must be a list")
	case len(steps) == 0:
		r.fail("/steps", CodeEmpty, "a workflow needs at least one step")
	case len(steps) > l.MaxSteps:
		r.fail("/steps", CodeTooManySteps, "has %d steps; at most %d are allowed", len(steps), l.MaxSteps)
		return d
	}
	seen := map[string]int{}
	for i, v := range steps {
		at := fmt.Sprintf("/steps/%d", i)
		s := r.step(v, at)
		if first, twice := seen[s.Name]; twice && s.Name != "" {
			r.fail(at+"/name", CodeDuplicateStep, "step %q is already defined at /steps/%d", s.Name, first)
		}
		seen[s.Name] = i
		d.Steps = append(d.Steps, s)
	}
	d.Output = r.output(m["output"])
	if v := m["payload_schema"]; v != nil {
		d.PayloadSchema = r.schema(v, "/payload_schema")
	}
	if v := m["expressions"]; v != nil && v != ExpressionsCEL {
		r.fail("/expressions", CodeInvalid, "must be %q; the server adds it where it is needed", ExpressionsCEL)
	}
	return d
}

// schema reads and checks a JSON Schema.
func (r *reader) schema(v any, at string) json.RawMessage {
	switch v.(type) {
	case map[string]any:
		return r.template(v, at)
	}
	r.fail(at, CodeInvalid, "must be a JSON Schema: an object")
	return nil
}

// retention reads m["retention"]. It returns nil if the member is absent or empty.
func (r *reader) retention(m map[string]any) *Retention {
	v := m["retention"]
	if v == nil {
		return nil
	}
	const at = "/retention"
	o := r.object(v, at, "completed_ms", "failed_ms")
	p := Retention{
		CompletedMS: r.integer(o, at, "completed_ms", Forever, maxRetentionMS),
		FailedMS:    r.integer(o, at, "failed_ms", Forever, maxRetentionMS),
	}
	if p == (Retention{}) {
		return nil
	}
	return &p
}

func (r *reader) step(v any, at string) Step {
	m := r.object(
		v,
		at,
		"name",
		"type",
		"action",
		"job",
		"args",
		"answer",
		"output_schema",
		"when",
		"compensation",
		"depends_on",
		"timeout_ms",
		"retry",
		"compensation_retry",
		"on_failure",
		"on_compensation_failure",
		"pivot",
		"checkpoint",
		"metadata",
	)
	if m == nil {
		return Step{}
	}
	s := Step{
		Name:              r.name(m, at),
		DependsOn:         r.texts(m, at, "depends_on"),
		TimeoutMS:         r.integer(m, at, "timeout_ms", 1, maxMS),
		Retry:             r.policy(m, at, "retry"),
		CompensationRetry: r.policy(m, at, "compensation_retry"),
		OnFailure:         r.onFailure(m, at),
		Pivot:             r.flag(m, at, "pivot"),

		OnCompensationFailure: r.onUndoFailure(m, at),
	}
	if v := m["metadata"]; v != nil {
		if _, ok := v.(map[string]any); !ok {
			r.fail(at+"/metadata", CodeInvalid, "must be an object")
		} else {
			s.Metadata = r.template(v, at+"/metadata")
		}
	}
	s.Action = r.action(m, at)
	s.Checkpoint = r.checkpoint(m, at, &s)
	s.Answer = r.answer(m, at, s.Action.Job != "")
	s.When = r.text(m, at, "when", 4096)
	if s.When != "" && m["pivot"] == true {
		r.fail(at+"/when", CodeInvalid, "cannot be combined with pivot: make an unconditional step the pivot")
	}
	switch v := m["output_schema"]; {
	case v == nil:
	case s.Action.Job != "":
		r.fail(at+"/output_schema", CodeInvalid, "is not allowed for a job: its worker checks its own results")
	default:
		s.OutputSchema = r.schema(v, at+"/output_schema")
	}
	if a, _ := m["action"].(map[string]any); a["answer"] != nil {
		r.fail(at+"/action/answer", CodeInvalid, "belongs in the step, next to action")
	}
	if s.Action.Job != "" && s.Retry != nil {
		r.fail(at+"/retry", CodeInvalid, "is not allowed for a job: its definition sets the retries")
	}
	switch c := m["compensation"]; c {
	case nil:
		r.fail(at+"/compensation", CodeMissingCompensation, "step %q needs a compensation, or `compensation: none`", s.Name)
	case "none":
	default:
		if _, isText := c.(string); isText {
			r.fail(at+"/compensation", CodeMissingCompensation, `must be a call or the word "none"`)
			break
		}
		s.Compensation.Call = r.call(c, at+"/compensation")
		s.Compensation.Answer = r.undoAnswer(c, at+"/compensation", s.Compensation.Job != "")
	}
	if s.OnCompensationFailure != "" && m["compensation"] == "none" {
		r.fail(at+"/on_compensation_failure", CodeInvalid, "step %q has no compensation that could give up: omit this field",
			s.Name)
	}
	if s.Compensation.Job != "" && s.CompensationRetry != nil {
		r.fail(at+"/compensation_retry", CodeInvalid, "is not allowed for a job: its definition sets the retries")
	}
	return s
}
