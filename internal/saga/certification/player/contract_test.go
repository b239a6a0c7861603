package player

import (
	"encoding/json"
	"testing"

	"github.com/skald-saga/skald/api"
)

// A participant may use a stub generated from the contract, and such a stub rejects calls without a
// header that the contract requires.
func TestCallsHaveTheHeadersThatTheContractRequires(t *testing.T) {
	t.Parallel()
	text, err := api.ParticipantContract()
	if err != nil {
		t.Fatal(err)
	}
	var contract struct {
		Components struct {
			Parameters map[string]struct {
				Name, In string
				Required bool
			}
		}
	}
	if err := json.Unmarshal(text, &contract); err != nil {
		t.Fatal(err)
	}
	c, err := newPlayer(Config{URL: "http://127.0.0.1/charges"})
	if err != nil {
		t.Fatal(err)
	}
	plain := c.plain()
	req, err := c.begin(plain).request(t.Context(), plain.Calls[0])
	if err != nil {
		t.Fatal(err)
	}
	required := 0
	for _, p := range contract.Components.Parameters {
		if p.In != "header" || !p.Required {
			continue
		}
		required++
		if req.Header.Get(p.Name) == "" {
			t.Errorf("no %s", p.Name)
		}
	}
	if required < 5 {
		t.Errorf("the contract requires %d headers", required)
	}
}
