package workflowpages

import (
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestADefinitionIsShownAsYAMLWithItsDigitsAndItsOrder(t *testing.T) {
	raw := `{"name":"order","steps":[{"name":"true","args":{"id":9007199254740993123,"n":null,"list":[],"1":"2",
		"rate":1e400,"text":"a\nb","odd":"\ud83d"}}]}`
	want := "name: order\nsteps:\n  - name: \"true\"\n    args:\n      id: 9007199254740993123\n      n: null\n" +
		"      list: []\n      \"1\": \"2\"\n      rate: 1e400\n      text: |-\n        a\n        b\n      odd: \uFFFD\n"
	if got := asYAML(json.RawMessage(raw)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := asYAML(json.RawMessage(`{"a":`)); got != `{"a":` {
		t.Errorf("what is not JSON became %q", got)
	}
	var back map[string]any
	if err := yaml.Unmarshal([]byte(want), &back); err != nil || back["name"] != "order" {
		t.Errorf("%v %v", back, err)
	}
}

func TestPointersHaveLines(t *testing.T) {
	asYAML := "name: order\nsteps:\n  - name: a\n    action:\n      http: {url: x}\n  # second\n  - name: b/c\n    b/c: 1\n"
	asJSON := "{\n\t\"name\": \"order\",\n\t\"steps\": [\n\t\t{\"name\": \"a\",\n\t\t\"action\": {\"http\": {\"url\": \"x\"}}},\n" +
		"\n\t\t{\"name\": \"b/c\",\n\t\t\"b/c\": 1}]\n}\n"
	for name, text := range map[string]string{"YAML": asYAML, "JSON": asJSON} {
		at := linesOf(text)
		for pointer, want := range map[string]map[string]int{
			"/name":                     {"YAML": 1, "JSON": 2},
			"/steps":                    {"YAML": 2, "JSON": 3},
			"/steps/0/action/http/url":  {"YAML": 5, "JSON": 5},
			"/steps/1":                  {"YAML": 7, "JSON": 7},
			"/steps/1/b~1c":             {"YAML": 8, "JSON": 8},
			"/steps/1/compensation":     {"YAML": 7, "JSON": 7}, // absent: that of the step
			"/steps/0/retry/max/nobody": {"YAML": 3, "JSON": 4},
		} {
			if got := at.of(pointer); got != want[name] {
				t.Errorf("%s: %s is in line %d, want %d", name, pointer, got, want[name])
			}
		}
	}
	for _, text := range []string{"", "{", "[", "{\"a\": [1,\n2", "a: b: c", "\x00", "*x"} {
		_ = linesOf(text).of("/a/0") // must not panic
	}
}
