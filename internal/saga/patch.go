package saga

import (
	"bytes"
	"encoding/json"

	"github.com/skald-saga/skald/internal/strictjson"
)

// mergePatch applies an RFC 7386 merge patch. Both are canonical JSON, target
// may be nil; so is the result.
func mergePatch(target, patch json.RawMessage) json.RawMessage {
	merged := merge(decode(target), decode(patch))
	b, err := json.Marshal(merged)
	if err == nil {
		b, err = strictjson.Canonical(nil, b, strictjson.Limits{MaxDepth: 1000, MaxNumberDigits: 100_000})
	}
	if err != nil {
		panic("saga: a merge of canonical JSON is none: " + err.Error())
	}
	return b
}

func merge(target, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	out, isObject := target.(map[string]any)
	if !isObject {
		out = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = merge(out[name], value)
		}
	}
	return out
}

// decode reads canonical JSON; numbers keep their digits.
func decode(j json.RawMessage) any {
	if j == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(j))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}
