package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// contract is as much of openapi.json as is needed to make requests from it.
type contract struct {
	Paths map[string]map[string]struct {
		ID          string          `json:"operationId"`
		Parameters  json.RawMessage `json:"parameters"`
		RequestBody requestBody     `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas       map[string]*schema     `json:"schemas"`
		RequestBodies map[string]requestBody `json:"requestBodies"`
	} `json:"components"`
}

type requestBody struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema *schema `json:"schema"`
	} `json:"content"`
}

// body is the schema of a JSON body; nil: there is none.
func (c *contract) body(b requestBody) *schema {
	if name, ok := strings.CutPrefix(b.Ref, "#/components/requestBodies/"); ok {
		b = c.Components.RequestBodies[name]
	}
	return b.Content["application/json"].Schema
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Enum       []any              `json:"enum"`
	Minimum    *float64           `json:"minimum"`
	MinItems   int                `json:"minItems"`
	Required   []string           `json:"required"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
	AllOf      []*schema          `json:"allOf"`
	OneOf      []*schema          `json:"oneOf"`
}

func readContract(t *testing.T, url string) *contract {
	t.Helper()
	res, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var c contract
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
		t.Fatal(err)
	}
	return &c
}

// example is a small value that fits a schema: of an object, what it requires and those
// members that values names.
func (c *contract) example(s *schema, values map[string]any) any {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return c.example(c.Components.Schemas[name], values)
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AllOf) > 0:
		return c.example(s.AllOf[0], values)
	case len(s.OneOf) > 0:
		return c.example(s.OneOf[0], values)
	case s.Type == "object" || s.Properties != nil:
		out := map[string]any{}
		for _, name := range s.Required {
			out[name] = c.example(s.Properties[name], values)
		}
		for name, value := range values {
			if s.Properties[name] != nil {
				out[name] = value
			}
		}
		return out
	case s.Type == "array":
		return []any{c.example(s.Items, values)}
	case s.Type == "boolean":
		return false
	case s.Type == "integer" || s.Type == "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case s.Format == "uuid":
		return "01234567-89ab-7def-8123-456789abcdef"
	case s.Format == "date-time":
		return "2026-01-01T00:00:00Z"
	}
	return "1.1"
}
