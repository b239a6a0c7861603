package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestSecretsAreBoundToParticipants(t *testing.T) {
	const tenant = "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
	yaml := `
vault: {address: "https://vault:8200", auth_method: token, token: t}
participant_secrets:
  card:
    base_url: HTTPS://Card.example:443/v1/
    secrets: {token: {vault: "secret/data/card#token"}, api_key: {file: /run/secrets/card}}
  ` + tenant + `/card: {base_url: "http://other", secrets: {k: {file: /k}}}
`
	want := ParticipantSecrets{
		{Participant: "card", BaseURL: "https://card.example/v1", Secrets: []SecretSource{
			{Name: "api_key", File: "/run/secrets/card"}, {Name: "token", VaultPath: "secret/data/card", VaultKey: "token"},
		}},
		{Tenant: uuid.MustParse(tenant), Participant: "card", BaseURL: "http://other", Secrets: []SecretSource{{Name: "k", File: "/k"}}},
	}
	if diff := cmp.Diff(want, load(t, yaml, "SKALD_ENV=test").ParticipantSecrets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Mistakes say where they are and quote nothing that may be a secret in the wrong place.
func TestMistakesInBindings(t *testing.T) {
	const canary = "sk-canary-1"
	for text, want := range map[string]string{
		"[card]": "must have participants by their names", "{card: " + canary + "}": "card: must have base_url and secrets",
		"{card: {api_key: {file: /f}}}":                                             "card: has base_url and secrets; write a secret below secrets, not \"api_key\"",
		"{card: {base_url: card, secrets: {k: {file: /f}}}}":                        "card: base_url must begin with http:// or https://",
		"{card: {base_url: 'http://h'}}":                                            "card: secrets must have at least one",
		"{card: {base_url: 'http://h', secrets: {k: " + canary + "}}}":              "card.k: must be {file: PATH} or {vault: API-PATH#KEY}, not the secret itself",
		"{card: {base_url: 'http://h', secrets: {k: {value: " + canary + "}}}}":     "card.k: must be {file: PATH} or {vault",
		"{card: {base_url: 'http://h', secrets: {k: {file: f}}}}":                   "card.k: file must be an absolute path",
		"{card: {base_url: 'http://h', secrets: {k: {vault: secret/data/card}}}}":   "card.k: vault must be an API path, # and a key",
		"{card: {base_url: 'http://h', secrets: {k: {vault: x#y}}}}":                "must be set with a path, or for participant_secrets",
		"{card: {base_url: 'http://h', secrets: {k: {file: /f, vault: x#y}}}}":      "card.k: must be {file: PATH} or {vault",
		"{card: {base_url: 'http://h', secrets: {'a b': {file: /f}}}}":              "card: the name of a secret has letters",
		"{'a/card': {base_url: 'http://h', secrets: {k: {file: /f}}}}":              "must be the id of a tenant",
		"{'ca rd': {base_url: 'http://h', secrets: {k: {file: /f}}}}":               "is not the name of a participant",
		"{card: {base_url: 'http://h/?a=1', secrets: {k: {file: /f}}}}":             "card: base_url must not have a query",
		"{card: {base_url: 'http://u:" + canary + "@h', secrets: {k: {file: /f}}}}": "card: base_url must not contain a user name",
		"{": "must be YAML or JSON",
	} {
		_, err := Load("", []string{"SKALD_ENV=test", "SKALD_PARTICIPANT_SECRETS=" + text})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}
