package workflow

import (
	"encoding/json"

	"github.com/skald-saga/skald/internal/strictjson"
)

// A step may be a job run: either with `type: job`, `job` and `args` next to its name, or with the
// same members in `action`. It is stored in the latter form, which compensations use as well.

// maxJob is the maximum length of a job definition's name in characters.
const maxJob = 255

// job reads the members job and args from m.
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

// JobArgs fills in the arguments of a job from the payload and the outputs of the steps by name.
// All of them, and the result, are canonical JSON. References to missing values become null. It
// returns nil if c has no template.
func (d *Definition) JobArgs(c *Call, payload json.RawMessage, outputs map[string]json.RawMessage) json.RawMessage {
	if c.Args == nil {
		return nil
	}
	args, _ := d.filled(c.Args, payload, outputs)
	return args
}

// ArgsSize estimates the size of the result of JobArgs in bytes, without building it.
func (d *Definition) ArgsSize(c *Call, payload json.RawMessage, outputs map[string]json.RawMessage) int {
	f := filler{d: d, payload: payload, outputs: outputs}
	f.fill(strictjson.Decode(c.Args), "")
	return len(c.Args) + f.size
}
