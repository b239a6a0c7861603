package httpapi

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobapi"
	"github.com/skald-saga/skald/internal/strictjson"
)

// together contains checks for bodies that people write by hand. If some members are malformed,
// they check the well-formed ones, so that all mistakes are reported in one response. The rules
// check a completely well-formed body later.
var together = map[string]func(body []byte, wrong func(pointer string) bool) []fault.Field{
	"#/components/schemas/JobDefinitionInput": wrongDefinition,
	"#/components/schemas/SettingsPatch":      wrongSettings,
}

// allMistakes adds all other mistakes in a body to the violations of its schema.
func (rt *route) allMistakes(body []byte, violations []fault.Field) []fault.Field {
	if rt.together == nil || body[0] != '{' {
		return violations
	}
	wrong := func(pointer string) bool {
		return slices.ContainsFunc(violations, func(f fault.Field) bool {
			return f.Pointer == pointer || strings.HasPrefix(f.Pointer, pointer+"/") || strings.HasPrefix(pointer, f.Pointer+"/")
		})
	}
	all := slices.Clone(violations)
	for _, f := range rt.together(body, wrong) {
		if !wrong(f.Pointer) {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b fault.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return all
}

// wrongDefinition checks the well-formed members of a job definition.
func wrongDefinition(body []byte, wrong func(string) bool) []fault.Field {
	right := map[string]json.RawMessage{}
	for name, value := range httpkit.Members(body) {
		if !wrong("/" + strictjson.Token(name)) {
			right[name] = value
		}
	}
	text, err := json.Marshal(right)
	if err != nil {
		return nil
	}
	b, err := jobapi.DefinitionSent(text)
	if err != nil {
		return nil
	}
	spec := b.Complete()
	if f := fault.As(jobrun.CheckNew(b.Name, &spec)); f != nil {
		return slices.DeleteFunc(f.Fields,
			func(f fault.Field) bool { return wrong("/" + strings.Split(f.Pointer+"/", "/")[1]) })
	}
	return nil
}

// wrongSettings checks settings whose values are numbers or null.
func wrongSettings(body []byte, _ func(string) bool) (fields []fault.Field) {
	var patch struct {
		Values map[string]json.RawMessage `json:"values"`
	}
	if json.Unmarshal(body, &patch) != nil {
		return nil
	}
	changes := map[string]*float64{}
	for name, raw := range patch.Values {
		var v *float64
		if json.Unmarshal(raw, &v) == nil {
			changes[name] = v
		}
	}
	if f := fault.As(jobrun.CheckSettings(changes, jobrun.NewSettings(0, nil))); f != nil {
		return f.Fields
	}
	return nil
}
