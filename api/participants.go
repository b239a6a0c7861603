package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed participant.openapi.yaml
var participantYAML []byte

// ParticipantContract returns the OpenAPI document of the interface that a participant serves, as
// JSON.
var ParticipantContract = sync.OnceValues(func() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(participantYAML, &doc); err != nil {
		return nil, fmt.Errorf("participant.openapi.yaml: %w", err)
	}
	return json.Marshal(doc)
})
