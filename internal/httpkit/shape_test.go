package httpkit_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/strictjson"
)

// oddValues are tried in every place of every body.
var oddValues = []string{
	`null`, `true`, `0`, `-1`, `1`, `7`, `1.5`, `1.0`, `1e2`, `1e400`, `-2147483649`, `2147483648`, `99999999999999999999`,
	`9007199254740993`, `""`, `"x"`, `"é"`, `"a b"`, `"a\"b\\c"`, `"\u000a"`, `"***"`, `"2026-01-02T03:04:05Z"`, `"2026-13-41"`,
	`"0192f0c1-0000-7000-8000-000000000001"`, `"0192F0C1-0000-7000-8000-00000000000g"`, `"https://example.com/a?b=c"`,
	`[]`, `[null]`, `[[]]`, `["x","x"]`, `[1,"x"]`, `{}`, `{"x":1}`, `{"x":{"y":[1]}}`, `{"\u0022":null}`,
	`"` + strings.Repeat("é", 64) + `"`, `"` + strings.Repeat("x", 255) + `"`, `"` + strings.Repeat("é", 256) + `"`,
	`"` + strings.Repeat("x", 2001) + `"`, `[` + strings.Repeat(`"x",`, 300) + `"y"]`,
}

// sample returns a value that a schema is likely to accept.
func sample(s *openapi3.Schema, depth int) string {
	for s.Type == nil && len(s.AllOf) == 1 {
		s = s.AllOf[0].Value
	}
	switch {
	case s.Type == nil || depth > 5:
		return `{"a":[1,{"b":null}]}`
	case len(s.Enum) > 0:
		return fmt.Sprintf("%q", s.Enum[0])
	case s.Type.Is(openapi3.TypeObject):
		return object(s, depth, nil)
	case s.Type.Is(openapi3.TypeArray):
		item := sample(s.Items.Value, depth+1)
		return `[` + item + strings.Repeat(`,`+item, int(max(s.MinItems, 1)-1)) + `]` //nolint:gosec // few
	case s.Type.Is(openapi3.TypeBoolean):
		return `true`
	case s.Type.Is(openapi3.TypeString):
		for _, text := range oddValues {
			if text[0] == '"' && s.VisitJSON(strings.Trim(text, `"`)) == nil {
				return text
			}
		}
	case s.Min != nil:
		return fmt.Sprintf("%.0f", *s.Min)
	}
	return `1`
}

// object returns an object with a sample of each member. The members in instead replace these
// samples; an empty value omits the member.
func object(s *openapi3.Schema, depth int, instead map[string]string) string {
	members := map[string]string{}
	for name, property := range s.Properties {
		members[name] = sample(property.Value, depth+1)
	}
	maps.Copy(members, instead)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] != "" {
			texts = append(texts, fmt.Sprintf("%q:%s", name, members[name]))
		}
	}
	return `{` + strings.Join(texts, ",") + `}`
}

// bodies returns bodies with one odd value in each place, for each schema inside s as well.
func bodies(s *openapi3.Schema, depth int, around func(string) string, each func(string)) {
	for s.Type == nil && len(s.AllOf) == 1 {
		s = s.AllOf[0].Value
	}
	odds := oddValues
	if depth > 1 {
		odds = odds[:20]
	}
	for _, odd := range odds {
		each(around(odd))
	}
	each(around(sample(s, depth)))
	if depth > 2 {
		return
	}
	switch {
	case s.Type.Is(openapi3.TypeArray):
		bodies(s.Items.Value, depth+1, func(text string) string { return around(`[` + text + `]`) }, each)
	case s.Type.Is(openapi3.TypeObject):
		each(around(object(s, depth, map[string]string{"another": `1`})))
		for name, property := range s.Properties {
			with := func(text string) string { return around(object(s, depth, map[string]string{name: text})) }
			each(with(""))
			bodies(property.Value, depth+1, with, each)
		}
	}
}

// A compiled schema accepts nothing that the contract's validator refuses, so that the answer to
// every bad body is the validator's.
func TestShapesAcceptNothingThatTheirSchemaRefuses(t *testing.T) {
	t.Parallel()
	doc, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	tried, right, fast := 0, 0, 0
	seen := map[*openapi3.Schema]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil || op.RequestBody.Value.Content[httpkit.MediaJSON] == nil {
				continue
			}
			schema := op.RequestBody.Value.Content[httpkit.MediaJSON].Schema.Value
			if seen[schema] {
				continue
			}
			seen[schema] = true
			shape := httpkit.ShapeOf(schema)
			compiled, judge := httpkit.BodyOf(schema), &httpkit.Body{Schema: schema}
			bodies(schema, 0, func(text string) string { return text }, func(text string) {
				tried++
				got, adjusted, why := httpkit.Read(compiled, []byte(text), strictjson.Limits{})
				want, also, refused := httpkit.Read(judge, []byte(text), strictjson.Limits{})
				if !bytes.Equal(want, got) || !slices.Equal(also, adjusted) || !reflect.DeepEqual(refused, why) {
					t.Fatalf("%s %s with %s: compiled %s, %v, %v; judged %s, %v, %v", method, path, text,
						got, adjusted, why, want, also, refused)
				}
				if refused == nil {
					if right++; shape.Accepts(got) {
						fast++
					}
				}
			})
		}
	}
	t.Logf("%d bodies, %d in order, %d of them accepted by shapes", tried, right, fast)
	if right < 1000 || fast < right/2 {
		t.Errorf("of %d bodies %d are in order, and shapes accept only %d of them", tried, right, fast)
	}
}
