package httpapi

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api"
)

// A response that says who did something has the display name beside each subject.
func TestEveryActorOfTheContractHasANameBesideIt(t *testing.T) {
	doc, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	schemas, actors := doc.Components.Schemas, 0
	for _, of := range slices.Sorted(maps.Keys(schemas)) {
		if strings.HasSuffix(of, "Input") || strings.HasSuffix(of, "Filter") {
			continue // what clients send
		}
		members := schemas[of].Value.Properties
		for member, is := range members {
			acts := member == "actor" || member == "author" || strings.HasSuffix(member, "_by")
			if !acts || len(is.Value.Enum) > 0 || !is.Value.Type.Is("string") || is.Value.Format == "uuid" {
				continue
			}
			actors++
			if members[member+"_name"] == nil {
				t.Errorf("%s has %s and no %s_name", of, member, member)
			}
		}
	}
	if actors < 20 {
		t.Errorf("%d members of the contract are actors", actors)
	}
}
