// Package openapi generates the contract for clients from openapi.yaml, which the server and its
// tests use. The generated contract is in OpenAPI 3.1, its answers are open to new members, and
// each operation lists the problems with which it may answer and has an example
// (docs/decisions/0132).
//
// Files, each on top of those before it: document, problems, examples, links, yaml, openapi.
package openapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/skald-saga/skald/api"
)

// Contract returns the contract for clients as JSON.
func Contract() ([]byte, error) {
	doc, err := source()
	if err != nil {
		return nil, err
	}
	withProblems(doc)
	if err := withExamples(doc); err != nil {
		return nil, err
	}
	open(doc)
	withLinks(doc)
	modern(doc)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err = enc.Encode(doc)
	return out.Bytes(), err
}

// Source returns the embedded openapi.yaml as JSON, without the hints for the code generator.
func Source() ([]byte, error) {
	doc, err := source()
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

// OfOperations returns the problems of each operation, by operationId.
var OfOperations = sync.OnceValues(func() (map[string]Problems, error) {
	doc, err := source()
	if err != nil {
		return nil, err
	}
	all := map[string]Problems{}
	for at := range operations(doc) {
		all[at.op.text("operationId")] = problemsOf(doc, at.path, at.method, at.item, at.op)
	}
	return all, nil
})

func source() (object, error) {
	raw, err := api.GetSpecJSON()
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	return withoutHints(doc).(object), nil
}

// withoutHints removes the hints for the Go code generator and gives objects readable names.
func withoutHints(v any) any {
	switch v := v.(type) {
	case map[string]any:
		o := make(object, len(v))
		for key, member := range v {
			if !strings.HasPrefix(key, "x-go-type") && !strings.HasPrefix(key, "x-oapi-codegen") {
				o[key] = withoutHints(member)
			}
		}
		return o
	case []any:
		for i := range v {
			v[i] = withoutHints(v[i])
		}
	}
	return v
}

// open removes the keywords that close an object from every schema that an answer or a delivery
// uses, because clients must ignore unknown members. A schema that requests also use is then open
// in this document, but closed in the server, which rejects unknown members.
func open(doc object) {
	seen := map[string]bool{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case object:
			if v["additionalProperties"] == false {
				delete(v, "additionalProperties")
			}
			if ref, ok := v["$ref"].(string); ok && !seen[ref] {
				seen[ref] = true
				visit(resolved(doc, v))
			}
			for name, member := range v {
				if name != "example" && name != "examples" {
					visit(member)
				}
			}
		case []any:
			for _, item := range v {
				visit(item)
			}
		}
	}
	for at := range operations(doc) {
		visit(at.op["responses"])
	}
	visit(doc["x-webhooks"])
}

// modern converts an OpenAPI 3.0 document to 3.1.
func modern(doc object) {
	doc["openapi"] = "3.1.0"
	if hooks := doc["x-webhooks"]; hooks != nil {
		doc["webhooks"] = hooks
		delete(doc, "x-webhooks")
	}
	withNull(doc)
}

// withNull replaces nullable with types. The only schemas without a type are those that allow any
// JSON, and they need no keyword for null.
func withNull(v any) {
	switch v := v.(type) {
	case object:
		if v["nullable"] == true {
			delete(v, "nullable")
			if kind, ok := v["type"].(string); ok {
				v["type"] = []any{kind, "null"}
			}
		}
		for name, member := range v {
			if name != "example" && name != "examples" {
				withNull(member)
			}
		}
	case []any:
		for _, item := range v {
			withNull(item)
		}
	}
}
