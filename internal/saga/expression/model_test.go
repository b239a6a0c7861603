package expression_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson"
)

// someValue draws a typical JSON value.
func someValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 7).Draw(t, "kind")
		if depth == 0 {
			kind %= 5
		}
		switch kind {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?`).Draw(t, "number"))
		case 3, 4:
			return strings.ReplaceAll(rapid.String().Draw(t, "text"), "\x00", "")
		case 5:
			return rapid.SliceOfN(someValue(depth-1), 0, 4).Draw(t, "list")
		}
		return rapid.MapOfN(someKey(), someValue(depth-1), 0, 4).Draw(t, "object")
	})
}

func someKey() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"a", "b", "aa", "0", "1", "a-b", "ü", "x:y", "_id", "quote\"d", "with blank", "back\\slash",
	})
}

// Paths are copied with the same result as in a simple model, which decodes everything and encodes
// it again.
func TestPathsCopyWhatAModelFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload, err := strictjson.Encode(someValue(4).Draw(t, "payload"))
		if err != nil {
			t.Skip(err)
		}
		parts := rapid.SliceOfN(someKey(), 0, 4).Draw(t, "parts")
		source := "payload"
		for _, part := range parts {
			switch {
			case strings.ContainsAny(part, "\"\\"):
				t.Skip("cannot be written")
			case strings.Contains(part, " ") || rapid.Bool().Draw(t, "brackets"):
				source += `["` + part + `"]`
			default:
				source += "." + part
			}
		}
		w := world{variables: map[string]string{"payload": string(payload)}}
		quoted, err := json.Marshal("${" + source + "}")
		if err != nil {
			t.Fatal(err)
		}
		tmpl := expression.NewTemplate(quoted, place(expression.Action), func(_ string, err error) { t.Fatal(source, err) })
		got, failed := tmpl.Append(nil, expression.Evaluate(w))
		found, there := strictjson.At(strictjson.Decode(payload), parts)
		if there != (failed == nil) {
			t.Fatalf("%s in %s: %v, the model finds %v", source, payload, failed, there)
		}
		if !there {
			return
		}
		want, err := strictjson.Encode(found)
		if err != nil || string(got) != string(want) {
			t.Fatalf("%s in %s:\n got %s\nwant %s", source, payload, got, want)
		}
		if most := tmpl.Most(len(want)); most < len(want) || most > len(want)+2 {
			t.Fatalf("%s in %s: at most %d bytes; it has %d", source, payload, most, len(want))
		}
	})
}
