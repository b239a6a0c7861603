package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Stored contains the limits for JSON that has already been accepted. It was within the API's
// stricter limits at that time, but storage may have expanded its exponents.
var Stored = Limits{MaxDepth: 1000, MaxNumberDigits: 100_000}

// Encode returns v as canonical JSON within Stored.
func Encode(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Canonical(nil, b, Stored)
}

// Decode parses canonical JSON; numbers become json.Number, which keeps their digits. It
// returns nil for nil and for bytes that are not JSON.
func Decode(j json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(j))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// Same reports whether two JSON texts are equal except for white space. It returns false if one of
// them is not JSON, if members are in a different order, or if numbers or strings are written
// differently.
func Same(a, b []byte) bool {
	var one, other bytes.Buffer
	return json.Compact(&one, a) == nil && json.Compact(&other, b) == nil && bytes.Equal(one.Bytes(), other.Bytes())
}

// At returns the value at path in decoded JSON: members of objects by name, elements of arrays by
// index from 0. It returns false if there is no such value; null is a value.
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
