package workflow

import (
	"encoding/json"
	"fmt"
)

// A step may be a job run: `type: job`, `job` and `args` beside its name, or the
// same in `action`. It is stored in the latter form, which is also that of a
// compensation.

// maxJob is how many characters the name of a job definition may have.
const maxJob = 255

// action reads what does the step m.
func (r *reader) action(m map[string]any, at string) Call {
	kind := r.text(m, at, "type", 10)
	switch {
	case kind != "" && kind != "http" && kind != "job":
		r.fail(at+"/type", CodeInvalid, "must be http or job")
	case m["job"] != nil && m["action"] != nil:
		r.fail(at+"/job", CodeInvalid, "cannot be combined with action")
	case m["job"] != nil && kind == "http":
		r.fail(at+"/type", CodeInvalid, "must be job, because the step has a job")
	case m["job"] != nil:
		return r.job(m, at)
	case m["args"] != nil:
		r.fail(at+"/args", CodeInvalid, "is allowed for jobs only")
	case m["action"] == nil && kind == "job":
		r.fail(at+"/job", CodeInvalid, "is required")
	case m["action"] == nil:
		r.fail(at+"/action", CodeInvalid, "is required")
	default:
		c := r.call(m["action"], at+"/action")
		if kind == "job" && c.HTTP != nil || kind == "http" && c.Job != "" {
			r.fail(at+"/type", CodeInvalid, "does not match the action of the step")
		}
		return c
	}
	return Call{}
}

// job reads the members job and args of m.
func (r *reader) job(m map[string]any, at string) Call {
	if m["http"] != nil {
		r.fail(at+"/http", CodeInvalid, "cannot be combined with job")
	}
	c := Call{Job: r.text(m, at, "job", maxJob)}
	if c.Job == "" {
		r.fail(at+"/job", CodeInvalid, "must name a job definition")
	}
	if v := m["args"]; v != nil {
		if _, ok := v.(map[string]any); !ok {
			r.fail(at+"/args", CodeInvalid, "must be an object")
			return c
		}
		c.Args = r.template(v, at+"/args")
	}
	return c
}

// templates checks the references in the arguments of all jobs, which may name
// any step of the workflow.
func (r *reader) templates(steps []Step) {
	names := namesOf(steps)
	check := func(c Call, at string) {
		var v any
		if c.Args != nil && json.Unmarshal(c.Args, &v) == nil {
			r.references(v, at, names)
		}
	}
	for i := range steps {
		at := fmt.Sprintf("/steps/%d", i)
		check(steps[i].Action, at+"/args")
		check(steps[i].Compensation.Call, at+"/compensation/args")
	}
}

// JobArgs fills the arguments of a job from the payload and the outputs of the
// steps by name, all canonical JSON, and returns canonical JSON. References that
// find nothing are null. Nil when c has no template.
func (d *Definition) JobArgs(c *Call, payload json.RawMessage, outputs map[string]json.RawMessage) json.RawMessage {
	if c.Args == nil {
		return nil
	}
	args, _ := d.filled(c.Args, payload, outputs)
	return args
}
