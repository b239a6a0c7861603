package principal_test

import (
	"encoding/json"
	"testing"

	"github.com/skald-saga/skald/internal/principal"
)

func TestNameIsRecordedBesideTheDetails(t *testing.T) {
	for _, tt := range []struct{ details, name, stored string }{
		{"", "", ""},
		{`{"b":1,"a":[1.0]}`, "", `{"b":1,"a":[1.0]}`},
		{"", "kim", `{"actor_name":"kim"}`},
		{`{"z":1.00,"a":{"actor_name":"x"}}`, `k"im`, `{"a":{"actor_name":"x"},"z":1.00,"actor_name":"k\"im"}`},
	} {
		var details json.RawMessage
		if tt.details != "" {
			details = json.RawMessage(tt.details)
		}
		stored := principal.WithName(details, tt.name)
		if string(stored) != tt.stored {
			t.Errorf("%s with %q is stored as %s", tt.details, tt.name, stored)
		}
		name, rest := principal.NameIn(stored)
		if name != tt.name || (rest == nil) != (tt.details == "") || string(principal.WithName(rest, name)) != tt.stored {
			t.Errorf("%s is read as %q and %s", stored, name, rest)
		}
	}
	for _, details := range []string{`{"actor_name":7}`, `["actor_name"]`, `{"a":"actor_name"}`} {
		if name, rest := principal.NameIn(json.RawMessage(details)); name != "" || string(rest) != details {
			t.Errorf("%s has the name %q and the rest %s", details, name, rest)
		}
	}
}
