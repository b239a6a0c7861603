package workflow

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/strictjson"
)

// A workflow's output declaration is a JSON template. A string that begins with "${" is a reference
// and is replaced by the JSON value it points to, which may have any type: "${steps.NAME.path}"
// points into a step's output, "${payload.path}" into the saga's payload. The path may be empty;
// its parts are object keys or array indexes. "$${" at the beginning of a string stands for a
// literal "${". References are never part of a longer string, so nothing is formatted or escaped
// (trap X6). A reference to a missing value becomes null and is reported.

// maxOutput limits the size of the declaration as canonical JSON, in bytes.
const maxOutput = 64 << 10

// reference is a parsed "${…}".
type reference struct {
	step string // "" means the payload
	path []string
}

// parseReference parses a reference. A step's name may contain dots, so the longest matching name
// wins.
func parseReference(s string, known func(step string) bool) (reference, error) {
	inner, closed := strings.CutSuffix(strings.TrimPrefix(s, "${"), "}")
	if !closed {
		return reference{}, fmt.Errorf("%.100q has no closing brace at its end", s)
	}
	if inner == "payload" {
		return reference{}, nil
	}
	if path, ok := strings.CutPrefix(inner, "payload."); ok {
		return reference{path: strings.Split(path, ".")}, nil
	}
	rest, ok := strings.CutPrefix(inner, "steps.")
	if !ok {
		return reference{}, fmt.Errorf(`%.100q begins with neither "steps." nor "payload"`, s)
	}
	for name := rest; ; {
		if known(name) {
			path := strings.TrimPrefix(rest[len(name):], ".")
			if path == "" && name == rest {
				return reference{step: name}, nil
			}
			return reference{name, strings.Split(path, ".")}, nil
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			return reference{}, fmt.Errorf("%.100q refers to a step that the workflow does not have", s)
		}
		name = name[:dot]
	}
}

// output reads the output declaration.
func (r *reader) output(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	if _, ok := v.(map[string]any); !ok {
		r.fail("/output", CodeInvalid, "must be an object")
		return nil
	}
	return r.template(v, "/output")
}

// template returns v as canonical JSON.
func (r *reader) template(v any, at string) json.RawMessage {
	b, err := json.Marshal(v)
	if err == nil {
		b, err = strictjson.Canonical(nil, b, strictjson.Limits{})
	}
	switch {
	case err != nil:
		r.fail(at, CodeInvalid, "is invalid: %s", err)
	case len(b) > maxOutput:
		r.fail(at, CodeInvalid, "has more than %d bytes", maxOutput)
	}
	return b
}

// Result fills in the output declaration from the payload and the outputs of the steps by name, all
// canonical JSON. It returns canonical JSON, and the JSON Pointers of the members whose value is
// missing. Without a declaration it returns nil.
func (d *Definition) Result(
	payload json.RawMessage,
	outputs map[string]json.RawMessage,
) (result json.RawMessage, missing []string) {
	if d.Output == nil {
		return nil, nil
	}
	return d.filled(d.Output, payload, outputs)
}

func (d *Definition) filled(
	template, payload json.RawMessage,
	outputs map[string]json.RawMessage,
) (filled json.RawMessage, missing []string) {
	f := filler{d: d, payload: payload, outputs: outputs, limit: maxFilled}
	b, err := strictjson.Encode(f.fill(strictjson.Decode(template), ""))
	if err != nil {
		panic("workflow: a filled template is not JSON: " + err.Error()) // its parts are valid
	}
	return b, f.missing
}

// maxFilled limits the total size of the values of one template's references in bytes, because a
// template of a few kilobytes can refer to a large value thousands of times. Beyond the limit, a
// reference becomes null and counts as missing.
const maxFilled = 16 << 20

type filler struct {
	d       *Definition
	payload json.RawMessage
	outputs map[string]json.RawMessage
	limit   int // 0 means no limit
	missing []string
	decoded map[string]any // by step, with "" for the payload; each value is decoded once
	size    int            // total size of everything found so far, as JSON
}

func (f *filler) fill(v any, at string) any {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "$${") {
			return v[1:]
		}
		if !strings.HasPrefix(v, "${") {
			return v
		}
		found, ok := f.find(v)
		if ok {
			f.size += sizeOf(found)
		}
		if !ok || f.limit > 0 && f.size > f.limit {
			f.missing = append(f.missing, at)
			return nil
		}
		return found
	case []any:
		for i := range v {
			v[i] = f.fill(v[i], at+"/"+strconv.Itoa(i))
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			v[key] = f.fill(v[key], at+"/"+strictjson.Token(key))
		}
	}
	return v
}

func (f *filler) find(s string) (any, bool) {
	ref, err := parseReference(s, f.d.hasStep)
	if err != nil {
		return nil, false // registration has rejected it
	}
	from := f.payload
	if ref.step != "" {
		from = f.outputs[ref.step]
	}
	if from == nil {
		return nil, false
	}
	doc, known := f.decoded[ref.step]
	if !known {
		doc = strictjson.Decode(from)
		if f.decoded == nil {
			f.decoded = map[string]any{}
		}
		f.decoded[ref.step] = doc
	}
	return strictjson.At(doc, ref.path)
}

// sizeOf returns the size of v as JSON.
func sizeOf(v any) int {
	switch v := v.(type) {
	case nil, bool:
		return len("null")
	case json.Number:
		return len(v)
	}
	b, err := strictjson.Encode(v)
	if err != nil {
		panic("workflow: a part of a JSON document is not JSON: " + err.Error())
	}
	return len(b)
}

func (d *Definition) hasStep(name string) bool {
	for i := range d.Steps {
		if d.Steps[i].Name == name {
			return true
		}
	}
	return false
}
