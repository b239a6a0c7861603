package principal

import (
	"bytes"
	"encoding/json"

	"github.com/skald-saga/skald/internal/strictjson"
)

// actorName is the member of a record's details that contains the Name of its actor. It is part of
// the details because the audit trail seals their digest, and because a record without a person
// then costs nothing.
const actorName = "actor_name"

// WithName returns the details of a record with the name of its actor added. details is a JSON
// object or nil. If the name is "", nothing changes.
func WithName(details json.RawMessage, name string) json.RawMessage {
	members := map[string]json.RawMessage{}
	if name == "" || details != nil && json.Unmarshal(details, &members) != nil {
		return details
	}
	text, err := json.Marshal(name)
	if err != nil {
		return details
	}
	members[actorName] = text
	named, err := strictjson.Encode(members)
	if err != nil {
		return details
	}
	return named
}

// NameIn returns the name that WithName recorded, or "" if there is none, and the details without
// it, or nil if nothing is left.
func NameIn(details json.RawMessage) (name string, rest json.RawMessage) {
	members := map[string]json.RawMessage{}
	if !bytes.Contains(details, []byte(actorName)) || json.Unmarshal(details, &members) != nil ||
		json.Unmarshal(members[actorName], &name) != nil {
		return "", details
	}
	if delete(members, actorName); len(members) == 0 {
		return name, nil
	}
	rest, err := strictjson.Encode(members)
	if err != nil {
		return "", details
	}
	return name, rest
}
