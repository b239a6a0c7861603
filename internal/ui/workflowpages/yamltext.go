package workflowpages

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/ui/web"
)

// asYAML formats JSON as YAML, keeping the order of members and the digits of numbers. JSON that
// cannot be converted is returned unchanged.
func asYAML(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return string(raw)
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if e.Encode(node) != nil || e.Close() != nil {
		return string(raw)
	}
	return out.String()
}

// yamlNode reads the next value of d.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch t := t.(type) {
	case json.Delim:
		n.Kind = yaml.SequenceNode
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for d.More() {
			child, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := d.Token() // the closing delimiter
		return n, err
	case string:
		n.Tag, n.Value = "!!str", t
		if strings.Contains(strings.TrimRight(t, "\n"), "\n") {
			n.Style = yaml.LiteralStyle
		}
	case json.Number:
		n.Value = t.String()
	case bool:
		n.Value = strconv.FormatBool(t)
	default:
		n.Value = "null"
	}
	return n, nil
}

// lines maps the JSON Pointers of a definition to lines of its text, numbered from 1.
type lines map[string]int

// linesOf parses a definition given as JSON or YAML. It maps as much as it can parse.
func linesOf(text string) lines {
	at := lines{}
	if isJSON(text) {
		at.json(text)
		return at
	}
	var n yaml.Node
	if yaml.Unmarshal([]byte(text), &n) == nil && len(n.Content) > 0 {
		at.yaml("", n.Content[0], 0)
	}
	return at
}

// isJSON reports how a definition is sent: text that begins with a brace is JSON, anything else is
// YAML.
func isJSON(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// of returns the line of a pointer, or of the closest enclosing value in the text; 0 means unknown.
func (at lines) of(pointer string) int {
	for {
		if n := at[pointer]; n > 0 {
			return n
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return 0
		}
		pointer = pointer[:i]
	}
}

// deepest limits the recursion on pasted text.
const deepest = 200

func (at lines) yaml(pointer string, n *yaml.Node, depth int) {
	if depth > deepest {
		return
	}
	if at[pointer] == 0 {
		at[pointer] = n.Line
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			to := pointer + "/" + web.Token(n.Content[i].Value)
			at[to] = n.Content[i].Line
			at.yaml(to, n.Content[i+1], depth+1)
		}
	case yaml.SequenceNode:
		for i, child := range n.Content {
			at.yaml(pointer+"/"+strconv.Itoa(i), child, depth+1)
		}
	}
}

func (at lines) json(text string) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	line, seen := 1, 0
	now := func() int { // returns the line of the last token
		for end := int(d.InputOffset()); seen < end; seen++ {
			if text[seen] == '\n' {
				line++
			}
		}
		return line
	}
	var value func(pointer string, depth int) error
	value = func(pointer string, depth int) error {
		t, err := d.Token()
		if err != nil {
			return err
		}
		if at[pointer] == 0 {
			at[pointer] = now()
		}
		if depth > deepest {
			return errors.New("too deep")
		}
		delim, nested := t.(json.Delim)
		for i := 0; nested && d.More(); i++ {
			name := strconv.Itoa(i)
			if delim == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				name, _ = key.(string)
				at[pointer+"/"+web.Token(name)] = now()
			}
			if err := value(pointer+"/"+web.Token(name), depth+1); err != nil {
				return err
			}
		}
		if nested {
			_, err = d.Token()
		}
		return err
	}
	if err := value("", 0); err != nil && !errors.Is(err, io.EOF) {
		at["/"] = now() // where parsing stopped
	}
}
