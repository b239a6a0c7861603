package manual

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// contract is the part of an OpenAPI document that the reference shows.
type contract struct {
	Info       struct{ Title, Description, Version string }
	Tags       []*topic
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas       map[string]*schema
		Parameters    map[string]*parameter
		Responses     map[string]*response
		RequestBodies map[string]*body
	}
	byTag map[string]*topic
}

// topic is a group of operations.
type topic struct {
	Name, Description string
	Operations        []*operation
}

type operation struct {
	OperationID, Summary, Description string
	Tags                              []string
	Parameters                        []*parameter
	RequestBody                       *body
	Responses                         map[string]*response
	Permission                        string              `json:"x-permission"`
	IfMatch                           string              `json:"x-if-match"`
	Refused                           map[string][]string `json:"x-problems"` // problem codes by status
	Method, Path                      string              `json:"-"`
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Required    bool
	Description string
	Schema      *schema
	Example     json.RawMessage
}

type body struct {
	Ref         string `json:"$ref"`
	Description string
	Required    bool
	Content     map[string]*media
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]*media
	Status      string `json:"-"`
}

type media struct {
	Schema   *schema
	Example  json.RawMessage
	Examples map[string]struct{ Value json.RawMessage }
}

type schema struct {
	Ref                            string          `json:"$ref"`
	Type                           json.RawMessage // a name or a list of names
	Format, Description, Pattern   string
	Enum                           []json.RawMessage
	Properties                     map[string]*schema
	Required                       []string
	Items                          *schema
	AllOf, OneOf, AnyOf            []*schema
	Default, Example               json.RawMessage
	Minimum, Maximum               json.RawMessage
	MinLength, MaxLength, MaxItems json.RawMessage
	AdditionalProperties           json.RawMessage
}

var methods = []string{"get", "post", "put", "patch", "delete"}

// readContract parses an OpenAPI document and resolves the references in its operations. Schemas
// keep their names.
func readContract(text []byte) (*contract, error) {
	c := &contract{byTag: map[string]*topic{}}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, err
	}
	for _, t := range c.Tags {
		c.byTag[t.Name] = t
	}
	for _, path := range slices.Sorted(maps.Keys(c.Paths)) {
		for _, method := range methods {
			raw, ok := c.Paths[path][method]
			if !ok {
				continue
			}
			op := &operation{Method: strings.ToUpper(method), Path: path}
			if err := json.Unmarshal(raw, op); err != nil {
				return nil, err
			}
			c.resolve(op)
			c.add(op)
		}
	}
	return c, nil
}

func (c *contract) add(op *operation) {
	name := "other"
	if len(op.Tags) > 0 {
		name = op.Tags[0]
	}
	if c.byTag[name] == nil {
		c.byTag[name] = &topic{Name: name}
		c.Tags = append(c.Tags, c.byTag[name])
	}
	c.byTag[name].Operations = append(c.byTag[name].Operations, op)
}

func (c *contract) resolve(op *operation) {
	for i, p := range op.Parameters {
		if found := c.Components.Parameters[nameOf(p.Ref)]; found != nil {
			op.Parameters[i] = found
		}
	}
	if op.RequestBody != nil {
		if found := c.Components.RequestBodies[nameOf(op.RequestBody.Ref)]; found != nil {
			op.RequestBody = found
		}
	}
	for status, r := range op.Responses {
		if found := c.Components.Responses[nameOf(r.Ref)]; found != nil {
			own := *found
			if r.Description != "" { // next to the reference
				own.Description = r.Description
			}
			r = &own
		}
		r.Status = status
		op.Responses[status] = r
	}
}

// nameOf returns the name of the component that a reference points to.
func nameOf(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// Answers returns the responses of the operation by status, without those that Problems returns.
func (op *operation) Answers() (all []*response) {
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if op.Refused[status] == nil {
			all = append(all, op.Responses[status])
		}
	}
	return all
}

// refusal is a status with the codes of the problems that have this status.
type refusal struct {
	Status string
	Codes  []string
}

// Problems returns the problems that the operation may return, by status.
func (op *operation) Problems() (all []refusal) {
	for _, status := range slices.Sorted(maps.Keys(op.Refused)) {
		all = append(all, refusal{status, op.Refused[status]})
	}
	return all
}

// Example returns the example of the first response that has one, or nil.
func (op *operation) Example() (shown *response) {
	for _, r := range op.Answers() {
		if m := of(r.Content); m != nil && len(m.Example) > 0 {
			return r
		}
	}
	return nil
}

// of returns the schema of JSON content or, failing that, the first schema; nil if there is none.
func of(content map[string]*media) *media {
	preferred := []string{"application/json", "application/problem+json"}
	for _, name := range append(preferred, slices.Sorted(maps.Keys(content))...) {
		if content[name] != nil {
			return content[name]
		}
	}
	return nil
}

// Media returns the media types of a body.
func (b *body) Media() []string { return slices.Sorted(maps.Keys(b.Content)) }

// Schema returns the schema of the body.
func (b *body) Schema() *schema {
	if m := of(b.Content); m != nil {
		return m.Schema
	}
	return nil
}

// Schema returns the schema of the response, or nil if it has no body.
func (r *response) Schema() *schema {
	if m := of(r.Content); m != nil {
		return m.Schema
	}
	return nil
}

// Name returns the name of the component that the schema is, or "" if it is not a component.
func (s *schema) Name() string {
	if s == nil {
		return ""
	}
	if len(s.AllOf) == 1 && len(s.Properties) == 0 {
		return s.AllOf[0].Name()
	}
	return nameOf(s.Ref)
}

// Kind describes the type in words.
func (s *schema) Kind() string {
	if s == nil {
		return ""
	}
	kind := strings.Trim(strings.NewReplacer(`"`, "", ",", " or ").Replace(string(s.Type)), "[]")
	if s.Format != "" {
		kind = s.Format
	}
	return kind
}

// Limits describes in words which values the schema allows.
func (s *schema) Limits() (all []string) {
	if s == nil {
		return nil
	}
	var values []string
	for _, v := range s.Enum {
		values = append(values, plainJSON(v))
	}
	if len(values) > 0 {
		all = append(all, "one of "+strings.Join(values, ", "))
	}
	for _, l := range []struct {
		words string
		value json.RawMessage
	}{
		{"at least ", s.Minimum}, {"at most ", s.Maximum}, {"at least characters: ", s.MinLength},
		{"at most characters: ", s.MaxLength}, {"at most items: ", s.MaxItems}, {"default ", s.Default},
	} {
		if len(l.value) > 0 {
			all = append(all, l.words+plainJSON(l.value))
		}
	}
	return all
}

func plainJSON(v json.RawMessage) string { return strings.Trim(string(v), `"`) }

// member of an object.
type member struct {
	Label  string
	Needed bool
	*schema
}

// Members returns the members of the object, required ones first, including those of the schemas
// that it consists of.
func (c *contract) Members(s *schema) (all []member) {
	seen := map[string]bool{}
	c.members(s, &all, seen, 0)
	slices.SortStableFunc(all, func(a, b member) int {
		if a.Needed != b.Needed {
			if a.Needed {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Label, b.Label)
	})
	return all
}

func (c *contract) members(s *schema, all *[]member, seen map[string]bool, depth int) {
	if s = c.whole(s); s == nil || depth > 4 {
		return
	}
	for name, p := range s.Properties {
		if !seen[name] {
			seen[name] = true
			*all = append(*all, member{name, slices.Contains(s.Required, name), p})
		}
	}
	for _, part := range s.AllOf {
		c.members(part, all, seen, depth+1)
	}
}

// whole returns the schema that s refers to, or s.
func (c *contract) whole(s *schema) *schema {
	if s != nil && s.Ref != "" {
		return c.Components.Schemas[nameOf(s.Ref)]
	}
	return s
}

// sample returns a value that matches a schema: its example, or a value made of the required
// members.
func (c *contract) sample(s *schema, depth int) any {
	if s = c.whole(s); s == nil || depth > 4 {
		return map[string]any{}
	}
	for _, v := range []json.RawMessage{s.Example, s.Default, first(s.Enum)} {
		if len(v) > 0 {
			return v
		}
	}
	for _, choice := range [][]*schema{s.OneOf, s.AnyOf} {
		if len(choice) > 0 && len(s.Properties) == 0 {
			return c.sample(choice[0], depth+1)
		}
	}
	kind := s.Kind()
	switch {
	case len(s.Properties) > 0 || len(s.AllOf) > 0 || kind == "object":
		object := map[string]any{}
		for _, m := range c.Members(s) {
			if m.Needed {
				object[m.Label] = c.sample(m.schema, depth+1)
			}
		}
		return object
	case kind == "array":
		return []any{c.sample(s.Items, depth+1)}
	case kind == "uuid":
		return "00000000-0000-0000-0000-000000000000"
	case kind == "date-time":
		return "2026-01-02T03:04:05Z"
	case strings.HasPrefix(kind, "int"), kind == "number", kind == "double", kind == "float":
		if len(s.Minimum) > 0 {
			return s.Minimum
		}
		return 1
	case kind == "boolean":
		return true
	}
	return "…"
}

func first(all []json.RawMessage) json.RawMessage {
	if len(all) > 0 {
		return all[0]
	}
	return nil
}

// example returns the body of a request: the example in the contract, or a sample. It contains no
// HTML escapes.
func (c *contract) example(m *media) string {
	var value any = m.Example
	if len(m.Example) == 0 {
		value = nil
		for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
			value = m.Examples[name].Value
			break
		}
	}
	if value == nil {
		value = c.sample(m.Schema, 0)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if enc.Encode(value) != nil {
		return "{}"
	}
	return strings.TrimSpace(out.String())
}
