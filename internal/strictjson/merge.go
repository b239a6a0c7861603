package strictjson

import "encoding/json"

// Merge applies an RFC 7396 merge patch. target (which may be nil), patch and the
// result are canonical JSON.
func Merge(target, patch json.RawMessage) json.RawMessage {
	b, err := Encode(merge(Decode(target), Decode(patch)))
	if err != nil {
		panic("strictjson: the result of merging canonical JSON is not JSON: " + err.Error())
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
