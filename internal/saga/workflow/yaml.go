package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/fault"
)

// ParseYAML does what ParseJSON does, for one YAML document without the features that JSON lacks.
// Anchors and aliases can make a small text huge, tags can make a string binary, and a definition
// needs none of them.
func ParseYAML(src []byte, l Limits) (*Definition, error) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var node yaml.Node
	switch err := dec.Decode(&node); {
	case errors.Is(err, io.EOF):
		return nil, fault.New(fault.Invalid, CodeSyntax, "the YAML text is empty")
	case err != nil:
		// The parser's message names a line and quotes nothing secret, because the text is the
		// client's own.
		return nil, fault.New(fault.Invalid, CodeSyntax, "the definition is not YAML: %s", clip(err.Error(), maxMessage))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, CodeSyntax, "the YAML text contains more than one document")
	}
	doc, err := plainValue(&node)
	if err != nil {
		return nil, fault.New(fault.Invalid, CodeSyntax, "%s", err)
	}
	return parse(doc, l)
}

// plainValue decodes n as encoding/json would, or returns an error if JSON cannot express it. It
// uses yaml.Node.Decode only for scalars, because Decode expands aliases, and because the cost of
// Decode and the length of its error messages grow with the square of an object's number of keys.
func plainValue(n *yaml.Node) (any, error) {
	if err := beyondJSON(n); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return plainValue(n.Content[0])
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, child := range n.Content {
			v, err := plainValue(child)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case yaml.MappingNode:
		return plainObject(n)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("YAML line %d: not a value", n.Line)
	}
	return v, nil
}

func plainObject(n *yaml.Node) (map[string]any, error) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if err := beyondJSON(key); err != nil {
			return nil, err
		}
		if tag := key.ShortTag(); tag == "!!merge" {
			return nil, fmt.Errorf("YAML line %d: merge keys are not supported", key.Line)
		} else if tag != "!!str" {
			return nil, fmt.Errorf("YAML line %d: keys must be strings", key.Line)
		}
		if _, twice := m[key.Value]; twice {
			return nil, fmt.Errorf("YAML line %d: the key %.100q is duplicated", key.Line, key.Value)
		}
		v, err := plainValue(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		m[key.Value] = v
	}
	return m, nil
}

func beyondJSON(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fmt.Errorf("YAML line %d: anchors and aliases are not supported", n.Line)
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Errorf("YAML line %d: tags are not supported", n.Line)
	}
	return nil
}
