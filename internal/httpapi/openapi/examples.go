package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed examples
var files embed.FS

// Example is a request that a test made, with the answer.
type Example struct {
	Test    string          `json:"test"` // package and name of the test, which fails if the members of the answer change
	Request json.RawMessage `json:"request,omitempty"`
	Answer  json.RawMessage `json:"answer"`
}

// Examples returns the examples of all operations, by operationId and status.
var Examples = sync.OnceValues(func() (map[string]map[string]Example, error) {
	all := map[string]map[string]Example{}
	list, err := files.ReadDir("examples")
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		text, err := files.ReadFile("examples/" + f.Name())
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return all, nil
})

// withExamples adds the examples to requests and answers.
func withExamples(doc object) error {
	examples, err := Examples()
	if err != nil {
		return err
	}
	for at := range operations(doc) {
		of := examples[at.op.text("operationId")]
		for _, status := range slices.Sorted(maps.Keys(of)) {
			e := of[status]
			answers := at.op.object("responses")
			if err := exemplify(doc, answers, status, e.Answer); err != nil {
				return err
			}
			if e.Request != nil {
				if err := exemplify(doc, at.op, "requestBody", e.Request); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// exemplify adds an example to the JSON content of the object at o[name], which is copied first if
// operations share it.
func exemplify(doc, o object, name string, text json.RawMessage) error {
	what := resolved(doc, o[name])
	media, ok := what.object("content")["application/json"].(object)
	if !ok || media["example"] != nil || media["examples"] != nil {
		return nil
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return err
	}
	content := maps.Clone(what.object("content"))
	media = maps.Clone(media)
	media["example"] = value
	content["application/json"] = media
	own := maps.Clone(what)
	own["content"] = content
	o[name] = own
	return nil
}
