package dlq

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
)

func TestAPatchChangesWhatItNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, payload, patch, want string }{
		{"big numbers keep their digits", `{"n":12345678901234567890.10,"b":1.00,"a":"x"}`, `[{"op":"replace","path":"/a","value":98765432109876543210}]`, `{"n":12345678901234567890.10,"b":1.00,"a":98765432109876543210}`},
		{"order is kept", `{"z":1,"a":2}`, `[{"op":"add","path":"/m","value":3}]`, `{"z":1,"a":2,"m":3}`},
		{"the whole is replaced", `{"a":1}`, `[{"op":"replace","path":"","value":"text"}]`, `"text"`},
		{"the whole is added", `3`, `[{"op":"add","path":"","value":[1]}]`, `[1]`},
		{"a scalar is tested", `3`, `[{"op":"test","path":"","value":3}]`, `3`},
		{"null is a value", `{"a":1}`, `[{"op":"add","path":"/a","value":null}]`, `{"a":null}`},
		{"arrays", `[1,2,3]`, `[{"op":"remove","path":"/0"},{"op":"add","path":"/-","value":4}]`, `[2,3,4]`},
		{"move and copy", `{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"move","from":"/a/b","path":"/d"}]`, `{"a":{},"c":{"b":1},"d":1}`},
		{"escaped names", `{"a/b":1,"c~d":2}`, `[{"op":"replace","path":"/a~1b","value":5},{"op":"remove","path":"/c~0d"}]`, `{"a/b":5}`},
		{"markup stays as it is", `{"a":"<b>&"}`, `[{"op":"add","path":"/c","value":"<i>"}]`, `{"a":"<b>&","c":"<i>"}`},
		{"blanks around", " {\"a\": 1}\n", `[{"op":"add","path":"/b","value":2}]`, `{"a":1,"b":2}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Patched([]byte(tt.payload), json.RawMessage(tt.patch))
			if err != nil {
				t.Fatal(err)
			}
			if strings.ReplaceAll(string(got), " ", "") != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAPatchThatDoesNotApplyIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, payload, patch, pointer, code string }{
		{"a payload that is no JSON", "\x00", `[{"op":"remove","path":"/a"}]`, "", "not_json"},
		{"no payload", "", `[{"op":"remove","path":"/a"}]`, "", "not_json"},
		{"no array", `{}`, `{"op":"remove"}`, "", "invalid"},
		{"no operation", `{}`, `[]`, "", "invalid"},
		{"an unknown operation", `{}`, `[{"op":"merge","path":""}]`, "/0/op", "invalid"},
		{"no path", `{}`, `[{"op":"remove"}]`, "/0/path", "invalid"},
		{"a path that is none", `{}`, `[{"op":"remove","path":"a"}]`, "/0/path", "invalid"},
		{"an escape that is none", `{}`, `[{"op":"remove","path":"/a~2"}]`, "/0/path", "invalid"},
		{"no value", `{}`, `[{"op":"add","path":"/a"}]`, "/0/value", "invalid"},
		{"no from", `{}`, `[{"op":"copy","path":"/a"}]`, "/0/from", "invalid"},
		{"nothing left", `{}`, `[{"op":"remove","path":""}]`, "/0/path", "invalid"},
		{"moved into itself", `{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, "/0/from", "invalid"},
		{"a missing place, second", `{"a":1}`, `[{"op":"test","path":"/a","value":1},{"op":"remove","path":"/b"},{"op":"remove","path":"/c"}]`, "/1/path", "missing"},
		{"an index from the end", `[1]`, `[{"op":"remove","path":"/-1"}]`, "/0/path", "missing"},
		{"a failed test", `{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, "/0", "test_failed"},
		{"copies without end", `{"a":"` + strings.Repeat("x", 500_000) + `"}`, `[` + strings.Repeat(`{"op":"copy","from":"/a","path":"/b"},`, 30) + `{"op":"remove","path":"/a"}]`, "/20", "too_large"},
		{"a result that is too large", `{"a":"` + strings.Repeat("x", 500_000) + `"}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/c"},{"op":"copy","from":"/a","path":"/d"}]`, "", "not_json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Patched([]byte(tt.payload), json.RawMessage(tt.patch))
			f := fault.As(err)
			if f == nil || len(f.Fields) != 1 || got != nil {
				t.Fatalf("got %.40s, %v; want Invalid at %q, %s", got, err, tt.pointer, tt.code)
			}
			if f.Kind != fault.Invalid || f.Fields[0].Pointer != tt.pointer || f.Fields[0].Code != tt.code {
				t.Errorf("%v; want Invalid at %q, %s", err, tt.pointer, tt.code)
			}
		})
	}
}

func FuzzPatchedIsJSONOrAFault(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`), []byte(`[{"op":"add","path":"/a/0","value":1},{"op":"move","from":"/a/1","path":"/c"}]`))
	f.Add([]byte(`[]`), []byte(`[{"op":"copy","from":"","path":"/-"}]`))
	f.Add([]byte(`null`), []byte(`[{"op":"test","path":"/a","value":null},{"op":"replace","path":"","value":{}}]`))
	f.Fuzz(func(t *testing.T, payload, patch []byte) {
		out, err := Patched(payload, patch)
		if err != nil && fault.KindOf(err) != fault.Invalid || err == nil && !jsonPayload(out) {
			t.Errorf("patched %q with %q: %q, %v", payload, patch, out, err)
		}
	})
}
