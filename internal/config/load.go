package config

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

// Load builds the configuration: the profile's defaults, overridden by the YAML file at path,
// overridden by environ ("NAME=value", as from os.Environ; the last value of a repeated name
// counts). An empty path means no file; Load does not search for one.
//
// The error is an *Error with every mistake found; the Config is then zero. Mistakes name keys,
// variables and files, never values: a value may be a secret in the wrong place. Load reads the
// file and the files of secrets, and nothing else.
func Load(path string, environ []string) (Config, error) {
	var l loader
	fromFile := l.readFile(path)
	fromEnv := l.readEnv(environ)
	l.origins = []layer{fromEnv, fromFile}
	l.settleAlternatives(fromFile, fromEnv)

	cfg := l.merge(fromFile, fromEnv)
	l.readSecretFile("database.password_file", cfg.Database.PasswordFile, &cfg.Database.Password)
	l.readSecretFile("auth.bootstrap_admin_key_file", cfg.Auth.BootstrapAdminKeyFile, &cfg.Auth.BootstrapAdminKey)
	l.readSecretFile("auth.oidc_client_secret_file", cfg.Auth.OIDCClientSecretFile, &cfg.Auth.OIDCClientSecret)
	l.readSecretFile("participants.signing_secrets_file", cfg.Participants.SigningSecretsFile,
		&cfg.Participants.SigningSecrets)
	l.readSecretFile("encryption.key_file", cfg.Encryption.KeyFile, &cfg.Encryption.Keys)
	l.readSecretFile("jobs.log_s3_secret_key_file", cfg.Jobs.LogS3SecretKeyFile, &cfg.Jobs.LogS3SecretKey)
	l.check(cfg)
	if len(l.mistakes) > 0 {
		return Config{}, &Error{Mistakes: l.mistakes}
	}
	return cfg, nil
}

// layer holds the values of one source: typed values by key, and the file or variable that each
// came from.
type layer struct {
	values map[string]any
	origin map[string]string
}

func newLayer() layer { return layer{map[string]any{}, map[string]string{}} }

// loader collects the mistakes of one Load.
type loader struct {
	file     string         // the file to read
	lines    map[string]int // line numbers of its keys
	origins  []layer        // strongest first
	mistakes []Mistake
}

// set stores a value, or reports that it could not be converted. In that case the default is used
// in its place, so that there are no follow-on mistakes.
func (l *loader) set(into layer, f field, raw any, origin string) {
	into.origin[f.key] = origin
	if f.typ == reflect.TypeFor[ParticipantSecrets]() {
		read, mistakes := participantSecrets(raw)
		for _, detail := range mistakes {
			l.add(f.key, origin, detail)
		}
		into.values[f.key] = read
		return
	}
	value, ok := f.convert(raw)
	if !ok {
		detail := "must be " + f.allowed
		if _, isText := raw.(string); !isText && strings.HasPrefix(f.allowed, "text") {
			detail += "; put it in quotes"
		}
		l.add(f.key, origin, detail)
		return
	}
	into.values[f.key] = value
}

// add reports a mistake in the value that origin has for key, with the line number if origin is a file.
func (l *loader) add(key, origin, detail string) {
	if line := l.lines[key]; line > 0 && origin == l.file {
		origin += ":" + strconv.Itoa(line)
	}
	l.mistakes = append(l.mistakes, Mistake{Key: key, Origin: origin, Detail: detail})
}

// has reports whether a mistake about one of the keys was already reported.
func (l *loader) has(keys ...string) bool {
	return slices.ContainsFunc(l.mistakes, func(m Mistake) bool { return slices.Contains(keys, m.Key) })
}

// origin returns the file or variable that the value of key came from.
func (l *loader) origin(key string) string {
	for _, from := range l.origins {
		if o, ok := from.origin[key]; ok {
			return o
		}
	}
	return "default"
}

func (l *loader) readFile(path string) layer {
	out := newLayer()
	if path == "" {
		return out
	}
	content, err := os.ReadFile(path)
	var tree map[string]any
	if err == nil {
		tree, err = readDocument(content)
	}
	if err != nil {
		l.add("", path, describeFileError(err))
		return out
	}
	l.file, l.lines = path, linesOf(content)
	l.readTree(out, path, tree)
	return out
}

// linesOf returns the line numbers of a file's keys and of the keys below them, named `section` and
// `section.key`.
func linesOf(content []byte) map[string]int {
	lines := map[string]int{}
	var document yamlv3.Node
	if yamlv3.Unmarshal(content, &document) != nil || len(document.Content) == 0 {
		return lines // the file has no keys
	}
	var note func(prefix string, of *yamlv3.Node)
	note = func(prefix string, of *yamlv3.Node) {
		if of.Kind != yamlv3.MappingNode {
			return
		}
		for i := 0; i+1 < len(of.Content); i += 2 {
			key := of.Content[i]
			lines[prefix+key.Value] = key.Line
			if prefix == "" {
				note(key.Value+".", of.Content[i+1])
			}
		}
	}
	note("", document.Content[0])
	return lines
}

// readTree walks a parsed file. A key without a value counts as not given.
func (l *loader) readTree(out layer, path string, tree map[string]any) {
	for _, name := range sortedKeys(tree) {
		value := tree[name]
		if f, ok := byKey[name]; ok && f.section == "" {
			if value != nil {
				l.set(out, f, value, path)
			}
			continue
		}
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name && name != "" }) {
			l.add(name, path, unknownKey(name))
			continue
		}
		keys, ok := withTextKeys(value)
		if !ok && value != nil {
			l.add(name, path, "must be a section with keys under it")
		}
		for _, key := range sortedKeys(keys) {
			f, ok := byKey[name+"."+key]
			switch {
			case !ok:
				l.add(name+"."+key, path, unknownKey(name+"."+key))
			case keys[key] != nil:
				l.set(out, f, keys[key], path)
			}
		}
	}
}

func (l *loader) readEnv(environ []string) layer {
	out := newLayer()
	vars := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) && !serviceLink(name, value) {
			vars[name] = value
		}
	}
	for _, f := range fields {
		var given string
		for _, name := range f.names {
			value, ok := vars[name]
			if !ok {
				continue
			}
			delete(vars, name)
			if given == "" {
				given = name
				vars[given] = value // until all names of this setting have been seen
			} else if value != vars[given] {
				l.add(f.key, name, "is also set by "+given+", to a different value: set only one of them")
			}
		}
		if given != "" {
			l.set(out, f, vars[given], given)
			delete(vars, given)
		}
	}
	for _, name := range sortedKeys(vars) {
		if !ofOtherPrograms(name) {
			l.add(name, "", unknownVariable(name))
		}
	}
	return out
}

// ofOtherPrograms reports whether a variable belongs to a program that uses Skald; a shell may set
// variables for both. The first two tell workers where the server is and who they are, the third is
// the API key of clients, the fourth is the key of `skald participant certify`, and the fifth is
// the secret of participants for signed calls. The others describe a run to a shell job, which may
// itself run skald.
func ofOtherPrograms(name string) bool {
	switch name {
	case "SKALD_URL", "SKALD_KEY", "SKALD_API_KEY", "SKALD_CERTIFY_SECRET", "SKALD_SECRET",
		"SKALD_RUN_ID", "SKALD_ATTEMPT", "SKALD_FENCING_TOKEN",
		"SKALD_DEFINITION", "SKALD_IDEMPOTENCY_KEY", "SKALD_SCHEDULED_FOR":
		return true
	}
	return strings.HasPrefix(name, "SKALD_ARG_")
}

// serviceLinkNames are the variables that Kubernetes sets in every pod for a
// Service named skald, or skald-something.
var serviceLinkNames = regexp.MustCompile(
	`^SKALD_(SERVICE_.*|PORT(_.*)?|(.+_)?SERVICE_(HOST|PORT(_.*)?)|.+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`,
)

// serviceLink reports whether a variable was set by Kubernetes rather than by an operator. A
// Service named skald-database makes SKALD_DATABASE_PORT=tcp://10.0.0.1:5432, which only its value
// distinguishes from the port setting.
func serviceLink(name, value string) bool {
	return serviceLinkNames.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// alternatives are settings that exclude each other.
var alternatives = [][2]string{
	{"database.url", "database.host"},
	{"database.password", "database.password_file"},
	{"auth.bootstrap_admin_key", "auth.bootstrap_admin_key_file"},
	{"auth.oidc_client_secret", "auth.oidc_client_secret_file"},
	{"encryption.keys", "encryption.key_file"},
	{"participants.signing_secrets", "participants.signing_secrets_file"},
	{"jobs.log_s3_secret_key", "jobs.log_s3_secret_key_file"},
	{"vault.static_path", "vault.dynamic_path"},
	{"vault.secret_id", "vault.secret_id_file"},
}

// settleAlternatives lets the later layer win, so that a variable replaces the
// alternative in a file; two alternatives in one layer are a mistake.
func (l *loader) settleAlternatives(layers ...layer) {
	given := func(in layer, key string) bool {
		v, ok := in.values[key]
		return ok && v != Secret("") && v != ""
	}
	for _, pair := range alternatives {
		for i, in := range layers {
			first, second := given(in, pair[0]), given(in, pair[1])
			switch {
			case first && second:
				l.add(pair[1], in.origin[pair[1]], "excludes "+pair[0]+": set only one of them")
			case first || second:
				loser := pair[1]
				if second {
					loser = pair[0]
				}
				for _, earlier := range layers[:i] {
					delete(earlier.values, loser)
				}
			}
		}
	}
}

// merge applies file and environment to the defaults of the profile that they name.
func (l *loader) merge(layers ...layer) Config {
	env := Dev
	for _, in := range layers {
		if v, ok := in.values["app.environment"].(Environment); ok {
			env = v
		}
	}
	cfg := Default(env)
	for _, in := range layers {
		for key, value := range in.values { // value has the setting's type: see field.convert
			cfg.setting(key).Set(reflect.ValueOf(value))
		}
	}
	return cfg
}

// readSecretFile reads the file that key names, if any, into the secret.
func (l *loader) readSecretFile(key, path string, into *Secret) {
	if path == "" || l.has(key) {
		return
	}
	content, err := credentials.ReadSecret(path)
	if err != nil {
		l.add(key, l.origin(key), err.Error())
		return
	}
	*into = Secret(content)
}

// readDocument parses a YAML file. It rejects a file with several documents, because only the first
// would be used.
func readDocument(content []byte) (tree map[string]any, err error) {
	d := yamlv3.NewDecoder(bytes.NewReader(content))
	err = d.Decode(&tree)
	switch further := d.Decode(new(yamlv3.Node)); {
	case errors.Is(err, io.EOF): // an empty file
		return nil, nil //nolint:nilnil // nothing is set
	case err != nil:
		return nil, err
	case further == nil:
		return nil, errManyDocuments
	case !errors.Is(further, io.EOF):
		return nil, further
	}
	return tree, nil
}
