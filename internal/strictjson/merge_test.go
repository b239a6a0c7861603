package strictjson

import (
	"encoding/json"
	"testing"
)

// The examples of RFC 7396, appendix A, in canonical JSON.
func TestMergePatch(t *testing.T) {
	for _, tt := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{``, `{"a":1.50}`, `{"a":1.50}`},
		{`{"n":12345678901234567890.10}`, `{"m":1e3}`, `{"m":1000,"n":12345678901234567890.10}`},
	} {
		var target json.RawMessage
		if tt.target != "" {
			target = json.RawMessage(tt.target)
		}
		if got := Merge(target, json.RawMessage(tt.patch)); string(got) != tt.want {
			t.Errorf("%s merged with %s is %s, want %s", tt.target, tt.patch, got, tt.want)
		}
		if string(target) != tt.target {
			t.Errorf("the target %s became %s", tt.target, target)
		}
	}
}
