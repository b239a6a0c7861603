package openapi

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// YAML returns a contract in JSON as YAML, its members in the same order.
func YAML(contract []byte) ([]byte, error) {
	var doc yaml.Node // JSON is YAML, in one of its two styles
	if err := yaml.Unmarshal(contract, &doc); err != nil {
		return nil, err
	}
	inBlocks(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// inBlocks drops the style of JSON.
func inBlocks(n *yaml.Node) {
	n.Style = 0 // the encoder quotes what needs it
	for _, child := range n.Content {
		inBlocks(child)
	}
}
