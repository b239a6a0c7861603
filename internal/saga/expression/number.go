package expression

import (
	"encoding/json"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// number converts a JSON number for computation: to an int if it fits, to a double if no digit is
// lost, and otherwise to an error. Nothing is ever rounded.
func number(n json.Number) ref.Val {
	s := string(n)
	if !strings.Contains(s, ".") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return types.Int(i)
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && strconv.FormatFloat(f, 'f', -1, 64) == shortest(s) {
		return types.Double(f)
	}
	return types.NewErr("%s", exactly)
}

const exactly = "a number has too many digits for exact computation; copy it with a path, or send it as a string"

// shortest removes trailing zeros from a fraction.
func shortest(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// adapter passes decoded JSON to CEL. Objects and lists are converted only as far as they are
// accessed.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}
