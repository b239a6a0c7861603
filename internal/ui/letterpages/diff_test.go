package letterpages

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"pgregory.net/rapid"
)

func TestAnEditBecomesThePatchThatMakesIt(t *testing.T) {
	for name, c := range map[string]struct{ before, after, patch string }{
		"nothing":         {`{"b": 1, "a": [1]}`, `{"a":[1],"b":1}`, `null`},
		"64-bit numbers":  {`{"id": 9007199254740993}`, `{"id": 9007199254740992}`, `[{"op":"replace","path":"/id","value":9007199254740992}]`},
		"digits are kept": {`[1.0]`, `[1]`, `[{"op":"replace","path":"/0","value":1}]`},
		"members":         {`{"a": 1, "b/~": 2}`, `{"c": null}`, `[{"op":"remove","path":"/a"},{"op":"remove","path":"/b~1~0"},{"op":"add","path":"/c","value":null}]`},
		"an item before":  {`[1,2,3]`, `[0,1,2,3]`, `[{"op":"add","path":"/0","value":0}]`},
		"items removed":   {`[1,2,3,4]`, `[1,4]`, `[{"op":"remove","path":"/2"},{"op":"remove","path":"/1"}]`},
		"inside an item":  {`[{"a":1},2]`, `[{"a":3},2]`, `[{"op":"replace","path":"/0/a","value":3}]`},
		"another kind":    {`{"a":1}`, `[1]`, `[{"op":"replace","path":"","value":[1]}]`},
		"no name":         {`{"a":{"":[]}}`, `{"a":{"":[1]}}`, `[{"op":"replace","path":"/a","value":{"":[1]}}]`},
		"escapes":         {`"\u00e9<"`, `"é\u003c"`, `null`},
	} {
		patch, err := difference(json.RawMessage(c.before), json.RawMessage(c.after))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, _ := json.Marshal(patch); string(got) != c.patch {
			t.Errorf("%s: %s, want %s", name, got, c.patch)
		}
	}
	if _, err := difference(json.RawMessage(`{}`), json.RawMessage(`{`)); err == nil {
		t.Error("what is not JSON has a difference")
	}
}

// TestThePatchOfAnyEditAppliesAndMakesIt compares the result with an implementation of RFC 6902.
func TestThePatchOfAnyEditAppliesAndMakesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := document(3).Draw(t, "before"), document(3).Draw(t, "after")
		from, _ := json.Marshal(map[string]any{"d": before})
		to, _ := json.Marshal(map[string]any{"d": after})
		patch, err := difference(from, to)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(patch)
		if patch == nil {
			raw = []byte("[]")
		}
		ops, err := jsonpatch.DecodePatch(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		got, err := ops.Apply(from)
		if err != nil {
			t.Fatalf("%s does not apply to %s: %v", raw, from, err)
		}
		if rest, err := difference(got, to); err != nil || len(rest) > 0 {
			t.Fatalf("%s makes %s of %s, want %s (%v)", raw, got, from, to, err)
		}
	})
}

// document returns a random JSON value up to a given depth.
func document(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.IntRange(-2, 2), func(n int) any { return n }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "<é>", "/~"}), func(s string) any { return s }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Just[any](nil),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf,
		rapid.Map(rapid.SliceOfN(document(depth-1), 0, 4), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "", "x/y", "~"}), document(depth-1), 0, 3),
			func(m map[string]any) any { return m }),
	)
}
