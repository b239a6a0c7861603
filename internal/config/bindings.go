package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// ParticipantSecrets are the secrets of participants, sorted by tenant and name.
type ParticipantSecrets []ParticipantBinding

// ParticipantBinding binds secrets to a participant.
type ParticipantBinding struct {
	Tenant      uuid.UUID // zero: the default tenant
	Participant string
	BaseURL     string         // as returned by registry.BaseOf
	Secrets     []SecretSource // sorted by name
}

// SecretSource is the place a secret is read from: a file, or a key of a secret in Vault.
type SecretSource struct {
	Name      string
	File      string
	VaultPath string
	VaultKey  string
}

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`)

// fromVault reports whether a secret comes from Vault.
func (p ParticipantSecrets) fromVault() bool {
	return slices.ContainsFunc(p, func(b ParticipantBinding) bool {
		return slices.ContainsFunc(b.Secrets, func(s SecretSource) bool { return s.VaultPath != "" })
	})
}

// bindings reads participant_secrets and collects the mistakes in it. A mistake names participants
// and secrets, but quotes no other text, which may be a secret in the wrong place.
type bindings struct{ mistakes []string }

func (r *bindings) fail(format string, args ...any) {
	r.mistakes = append(r.mistakes, fmt.Sprintf(format, args...))
}

// participantSecrets reads a value from the file, or YAML from the environment.
func participantSecrets(raw any) (ParticipantSecrets, []string) {
	r := &bindings{}
	if text, isText := raw.(string); isText {
		raw = nil
		if strings.TrimSpace(text) != "" && yamlv3.Unmarshal([]byte(text), &raw) != nil {
			r.fail("must be YAML or JSON")
		}
	}
	if raw == nil {
		return nil, r.mistakes
	}
	all, ok := withTextKeys(raw)
	if !ok {
		r.fail("must have participants by their names")
	}
	var out ParticipantSecrets
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if b, ok := r.binding(key, all[key]); ok {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b ParticipantBinding) int {
		return strings.Compare(a.Tenant.String()+a.Participant, b.Tenant.String()+b.Participant)
	})
	return out, r.mistakes
}

func (r *bindings) binding(key string, raw any) (b ParticipantBinding, ok bool) {
	before := len(r.mistakes)
	b.Participant = key
	if tenant, name, has := strings.Cut(key, "/"); has {
		var err error
		if b.Tenant, err = uuid.Parse(tenant); err != nil || len(tenant) != 36 || b.Tenant == uuid.Nil {
			r.fail("%.100q: the part before the slash must be the id of a tenant", key)
		}
		b.Participant = name
	}
	if !workflow.ValidName(b.Participant) {
		r.fail("%.100q is not the name of a participant", key)
		return b, false
	}
	of, isMap := withTextKeys(raw)
	if !isMap {
		r.fail("%s: must have base_url and secrets", key)
		return b, false
	}
	for _, member := range slices.Sorted(maps.Keys(of)) {
		if member != "base_url" && member != "secrets" {
			r.fail("%s: has base_url and secrets; write a secret below secrets, not %.100q", key, member)
		}
	}
	base, _ := of["base_url"].(string)
	var wrong string
	if b.BaseURL, wrong = registry.BaseOf(base); wrong != "" {
		r.fail("%s: base_url %s: it is the URL at or below which the secrets may be sent", key, wrong)
	}
	secrets, isMap := withTextKeys(of["secrets"])
	if !isMap || len(secrets) == 0 {
		r.fail("%s: secrets must have at least one secret, by its name", key)
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		b.Secrets = append(b.Secrets, r.source(key, name, secrets[name]))
	}
	return b, len(r.mistakes) == before
}

func (r *bindings) source(key, name string, raw any) SecretSource {
	s := SecretSource{Name: name}
	if !secretName.MatchString(name) {
		r.fail("%s: the name of a secret has letters, digits, _ and -, and begins with a letter or _", key)
		return s
	}
	of, isMap := withTextKeys(raw)
	if !isMap || len(of) != 1 {
		r.fail("%s.%s: must be {file: PATH} or {vault: API-PATH#KEY}, not the secret itself", key, name)
		return s
	}
	file, isFile := of["file"].(string)
	path, isVault := of["vault"].(string)
	switch {
	case isFile && filepath.IsAbs(file):
		s.File = file
	case isFile:
		r.fail("%s.%s: file must be an absolute path", key, name)
	case isVault:
		var has bool
		s.VaultPath, s.VaultKey, has = strings.Cut(path, "#")
		if !has || strings.Trim(s.VaultPath, "/") == "" || s.VaultKey == "" {
			r.fail("%s.%s: vault must be an API path, # and a key, such as secret/data/card#token", key, name)
		}
	default:
		r.fail("%s.%s: must be {file: PATH} or {vault: API-PATH#KEY}", key, name)
	}
	return s
}

// withTextKeys returns a section of a file, with keys that YAML parses as numbers or other types
// converted to text.
func withTextKeys(value any) (map[string]any, bool) {
	keys, ok := value.(map[string]any)
	if other, mixed := value.(map[any]any); mixed {
		keys, ok = map[string]any{}, true
		for key, value := range other {
			keys[fmt.Sprint(key)] = value
		}
	}
	return keys, ok
}
