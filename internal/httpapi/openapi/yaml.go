package openapi

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// YAML converts a contract from JSON to YAML, with the members in the same order.
func YAML(contract []byte) ([]byte, error) {
	var doc yaml.Node // JSON is YAML in flow style
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

// inBlocks changes the flow style of JSON to block style.
func inBlocks(n *yaml.Node) {
	n.Style = 0 // the encoder adds quotes where necessary
	for _, child := range n.Content {
		inBlocks(child)
	}
}
