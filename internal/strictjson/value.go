package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Stored bounds what was accepted once: it passed the edge's narrower limits
// then, and storage may have written its numbers out.
var Stored = Limits{MaxDepth: 1000, MaxNumberDigits: 100_000}

// Encode returns v as canonical JSON within Stored.
func Encode(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Canonical(nil, b, Stored)
}

// Decode reads canonical JSON; numbers are a json.Number and so keep their
// digits. Nil is nil, as is what is no JSON.
func Decode(j json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(j))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// At finds what a path leads to in decoded JSON: through objects by name, through
// arrays by index from 0. False: it leads nowhere; null is a value.
func At(v any, path []string) (any, bool) {
	for _, part := range path {
		switch in := v.(type) {
		case map[string]any:
			next, there := in[part]
			if !there {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.ParseUint(part, 10, 31)
			if err != nil || int(i) >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}
