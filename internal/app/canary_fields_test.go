package app_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unplantable are the free texts of the contract into which the owner cannot put the canary,
// with the reason. A new field is not listed: put the canary into it in writeAll, or add the
// reason here.
var unplantable = map[string]string{
	"previewSchedule": "looks into a calendar; nothing is stored, and it has no words",

	"Prefer":      "a time",
	"wait":        "a time",
	"traceparent": "hexadecimal numbers",

	".steps[].action.answer.done":                    "refused: the answer to an action is beside it",
	".steps[].action.answer.later":                   "refused: the answer to an action is beside it",
	".steps[].action.answer.not_applied":             "refused: the answer to an action is beside it",
	".steps[].action.answer.output":                  "refused: the answer to an action is beside it",
	".steps[].action.answer.refused":                 "refused: the answer to an action is beside it",
	".steps[].action.answer.unknown":                 "refused: the answer to an action is beside it",
	".steps[].compensation.answer.output":            "refused: the response to a compensation is not stored",
	".definition.steps[].action.answer.done":         "refused: the answer to an action is beside it",
	".definition.steps[].action.answer.later":        "refused: the answer to an action is beside it",
	".definition.steps[].action.answer.not_applied":  "refused: the answer to an action is beside it",
	".definition.steps[].action.answer.output":       "refused: the answer to an action is beside it",
	".definition.steps[].action.answer.refused":      "refused: the answer to an action is beside it",
	".definition.steps[].action.answer.unknown":      "refused: the answer to an action is beside it",
	".definition.steps[].compensation.answer.output": "refused: the response to a compensation is not stored",

	"createJobDefinition .schedule.value":     "a time",
	"createJobDefinition .schedule.timezone":  "the name of a zone",
	"replaceJobDefinition .schedule.value":    "as createJobDefinition",
	"replaceJobDefinition .schedule.timezone": "as createJobDefinition",
	"updateJobDefinition .schedule.value":     "as createJobDefinition",
	"updateJobDefinition .schedule.timezone":  "as createJobDefinition",
	"createJobDefinition .emit[].event_type":  "there is no Kafka here, so topics to emit to are refused",
	"createJobDefinition .emit[].topic":       "as .emit[].event_type",
	"replaceJobDefinition .emit[].event_type": "as createJobDefinition",
	"replaceJobDefinition .emit[].topic":      "as createJobDefinition",
	"updateJobDefinition .emit[].event_type":  "as createJobDefinition",
	"updateJobDefinition .emit[].topic":       "as createJobDefinition",
	"createWebhook .event_types[]":            "types of events, which Skald knows",
	"updateWebhook .event_types[]":            "as createWebhook",
	"createRedrive .target.job":               "redrives go to topics and URLs; the field is refused",
	"retryDeadLetter .target.topic":           "there is no Kafka here, so the retry is refused; the target of a push has the word",
	"retryDeadLetter .target.key_base64":      "as .target.topic; key_base64 beside it has the word",
}

// canaries are the forms of the canary to look for: plain, and in Base64 at each of the
// possible offsets.
var canaries = func() []string {
	all := []string{canary}
	for skip := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte("xx"[:skip] + canary))
		from := min(skip, 1) * 4 // the first four characters encode the xx as well
		all = append(all, strings.ToLower(text[from:from+8]))
	}
	return all
}()

// findCanary returns the position of the canary in a text, or -1 if there is none.
func findCanary(text string) int {
	text = strings.ToLower(text)
	for _, c := range canaries {
		if at := strings.Index(text, c); at >= 0 {
			return at
		}
	}
	return -1
}

// written is what the owner has sent to an operation.
type written struct {
	bodies []any  // JSON documents
	other  string // bodies of other media types, and parameters
}

// everyFieldIsWritten fails for each free text of a changing request into which the owner has
// never put the canary.
func (a *canaryNode) everyFieldIsWritten(d apiDoc) {
	a.t.Helper()
	var bare []string
	for id, op := range a.ops {
		said, called := a.said[id]
		if _, stated := unplantable[id]; stated {
			continue
		}
		if !called {
			bare = append(bare, id+" is never called by the owner")
			continue
		}
		for _, p := range op.parameters {
			schema := d.resolve(p["schema"].(map[string]any))
			name, _ := p["name"].(string)
			if p["in"] != "path" && schema["type"] == "string" && free(schema) &&
				!strings.Contains(said.other, "\n"+strings.ToLower(name)+"=") {
				bare = append(bare, id+" "+name)
			}
		}
		for media, schema := range op.bodies {
			if media == "application/json" {
				for _, field := range d.bare(schema, "", said.bodies) {
					bare = append(bare, id+" "+field)
				}
			} else if !strings.Contains(said.other, "\n"+media+"=") {
				bare = append(bare, id+" "+media)
			}
		}
	}
	slices.Sort(bare)
	for _, field := range slices.Compact(bare) {
		if _, of, _ := strings.Cut(field, " "); unplantable[field] == "" && unplantable[of] == "" {
			a.t.Errorf("%s: the owner never says a canary there", field)
		}
	}
	for field := range unplantable {
		if a.ops[field].method == "" &&
			!slices.ContainsFunc(bare, func(b string) bool { return b == field || strings.HasSuffix(b, " "+field) }) {
			a.t.Errorf("%s is excepted, and need not be", field)
		}
	}
}

// free reports whether a string can be chosen freely, so that it could contain the canary.
func free(s map[string]any) bool {
	if s["enum"] != nil || s["format"] == "uuid" || s["format"] == "date-time" {
		return false
	}
	pattern, is := s["pattern"].(string)
	if !is {
		return true
	}
	p := regexp.MustCompile(pattern)
	return p.MatchString(canary) || p.MatchString(canary+"="+canary)
}

// bare returns the free texts of a schema, by path, in which no value contains the canary.
func (d apiDoc) bare(schema map[string]any, at string, values []any) (all []string) {
	s := d.resolve(schema)
	for _, of := range []string{"oneOf", "anyOf"} {
		choices, _ := s[of].([]any)
		for _, choice := range choices {
			all = append(all, d.bare(choice.(map[string]any), at, values)...)
		}
		if choices != nil && s["properties"] == nil {
			return all
		}
	}
	said := slices.ContainsFunc(values, func(v any) bool { return findCanary(encoded(v)) >= 0 })
	properties, _ := s["properties"].(map[string]any)
	switch {
	case s["type"] == "array":
		var items []any
		for _, v := range values {
			some, _ := v.([]any)
			items = append(items, some...)
		}
		return append(all, d.bare(s["items"].(map[string]any), at+"[]", items)...)
	case properties != nil:
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			all = append(all, d.bare(properties[name].(map[string]any), at+"."+name, members(values, name))...)
		}
		return all
	case s["type"] == "object":
		if of, typed := s["additionalProperties"].(map[string]any); typed && d.resolve(of)["type"] != "string" {
			return all // numbers under names that the client chooses
		}
		if !said {
			all = append(all, at+".*")
		}
	case s["type"] == nil || s["type"] == "string" && free(s):
		if !said {
			all = append(all, at)
		}
	}
	return all
}

func members(of []any, name string) (all []any) {
	for _, v := range of {
		if object, is := v.(map[string]any); is && object[name] != nil {
			all = append(all, object[name])
		}
	}
	return all
}

// A field without the canary is found at any depth, and one with the canary is not reported.
func TestFieldsWithoutACanaryAreFound(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	err := json.Unmarshal(
		[]byte(`{"allOf":[{"type":"object","properties":{"name":{"type":"string"},"id":{"type":"string","format":"uuid"}}},
		{"type":"object","properties":{"list":{"type":"array","items":{"oneOf":[{"type":"string","enum":["x"]},{"type":"object","properties":{"url":{"type":"string"}}}]}},
		"labels":{"type":"object","additionalProperties":{"type":"string"}},"any":{},"counts":{"type":"object","additionalProperties":{"type":"number"}},
		"code":{"type":"string","pattern":"^[0-9]+$"},"body_base64":{"type":"string"}}}]}`),
		&schema,
	)
	if err != nil {
		t.Fatal(err)
	}
	d := apiDoc{t: t}
	all := []string{".any", ".body_base64", ".labels.*", ".list[].url", ".name"}
	if got := d.bare(schema, "", nil); !slices.Equal(slices.Sorted(slices.Values(got)), all) {
		t.Errorf("%q, want %q", got, all)
	}
	full := map[string]any{
		"name":        canary,
		"list":        []any{"x", map[string]any{"url": "http://" + canary}},
		"labels":      map[string]any{canary: "x"},
		"any":         map[string]any{"deep": []any{canary}},
		"body_base64": base64.StdEncoding.EncodeToString([]byte("a" + canary)),
	}
	if got := d.bare(schema, "", []any{full}); len(got) > 0 {
		t.Errorf("%q, want none", got)
	}
	for skip := range 6 {
		if text := base64.StdEncoding.EncodeToString([]byte("abcdef"[:skip] + canary + "abcdef")); findCanary(text) < 0 {
			t.Errorf("no canary in %s", text)
		}
	}
}
