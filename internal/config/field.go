package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// envPrefix is the prefix of all of Skald's environment variables.
const envPrefix = "SKALD_"

// field is one setting, derived from the tags of Config.
type field struct {
	key     string   // path in the file, such as database.max_open_conns
	names   []string // environment variables; messages show the first
	allowed string   // completes "must be …"
	doc     string
	section string // "" at the top level
	typ     reflect.Type
}

// section is a group of settings, in the order of Config.
type section struct {
	name   string // "" for the settings at the top level
	doc    string
	fields []field
}

var (
	sections = readSections(reflect.TypeFor[Config]())
	fields   = flatten(sections)
	byKey    = index(fields)
)

func readSections(t reflect.Type) []section {
	var out []section
	top := section{doc: "Settings outside of any section."}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Kind() != reflect.Struct {
			top.fields = append(top.fields, readField("", f))
			continue
		}
		s := section{name: f.Tag.Get("key"), doc: f.Tag.Get("doc")}
		for j := range f.Type.NumField() {
			s.fields = append(s.fields, readField(s.name, f.Type.Field(j)))
		}
		out = append(out, s)
	}
	return append(out, top)
}

func readField(section string, sf reflect.StructField) field {
	key := sf.Tag.Get("key")
	f := field{key: key, doc: sf.Tag.Get("doc"), section: section, typ: sf.Type}
	if alias := sf.Tag.Get("env"); alias != "" {
		f.names = append(f.names, alias)
	}
	if section == "" {
		f.names = append(f.names, envPrefix+strings.ToUpper(key))
	} else {
		f.key = section + "." + key
		for _, joint := range []string{"_", "__"} {
			f.names = append(f.names, envPrefix+strings.ToUpper(section+joint+key))
		}
	}
	f.allowed = describe(sf.Type, sf.Tag.Get("validate"))
	return f
}

func flatten(sections []section) []field {
	var out []field
	for _, s := range sections {
		out = append(out, s.fields...)
	}
	return out
}

func index(fields []field) map[string]field {
	out := make(map[string]field, len(fields))
	for _, f := range fields {
		out[f.key] = f
	}
	return out
}

// describe returns in words what a type and its validate tag allow. The same phrase serves for
// values that cannot be parsed, values out of range, and the manual.
func describe(t reflect.Type, validate string) string {
	rule := map[string]string{}
	for part := range strings.SplitSeq(validate, ",") {
		name, param, _ := strings.Cut(part, "=")
		rule[name] = param
		if words, ok := customRules[name]; ok {
			return optional("empty or ", validate) + words
		}
	}
	if choices, ok := rule["oneof"]; ok {
		return "one of " + strings.ReplaceAll(choices, " ", ", ")
	}
	switch {
	case t == reflect.TypeFor[ParticipantSecrets]():
		return "participants by name, each with base_url and secrets; in the environment as YAML or JSON"
	case t == reflect.TypeFor[uuid.UUID]():
		return "a UUID that is not all zeros"
	case t == reflect.TypeFor[time.Duration]():
		return optional("0 or ", validate) + fmt.Sprintf("a duration from %s to %s", rule["min"], rule["max"])
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return optional("0 or ", validate) + fmt.Sprintf("a whole number from %s to %s", rule["min"], rule["max"])
	}
	words := "text"
	if _, ok := rule["required"]; ok {
		words = "non-empty text"
	}
	if limit, ok := rule["max"]; ok {
		words += ", at most " + limit + " characters"
	}
	return words
}

// optional returns words if the tag allows the zero value in addition to its other values,
// otherwise "".
func optional(words, validate string) string {
	if strings.HasPrefix(validate, "omitempty") {
		return words
	}
	return ""
}

// convert converts a value of the file (any YAML scalar or list) or of the environment (always a
// string) to the setting's Go value, and reports whether that is possible. It never guesses: a
// number is neither a duration nor text.
func (f field) convert(raw any) (any, bool) {
	text, isText := raw.(string)
	target := reflect.New(f.typ)
	if u, ok := target.Interface().(encoding.TextUnmarshaler); ok {
		if !isText || u.UnmarshalText([]byte(text)) != nil {
			return nil, false
		}
		return target.Elem().Interface(), true
	}
	switch {
	case f.typ == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if raw == 0 { // a YAML 0 needs no unit
			return time.Duration(0), true
		}
		return d, isText && err == nil
	case f.typ.Kind() == reflect.String:
		return reflect.ValueOf(text).Convert(f.typ).Interface(), isText
	case f.typ.Kind() == reflect.Bool:
		return toBool(raw)
	case f.typ.Kind() == reflect.Slice:
		return toList(raw)
	default:
		n, ok := toInt(raw)
		return reflect.ValueOf(n).Convert(f.typ).Interface(), ok
	}
}

func toBool(raw any) (any, bool) {
	if b, ok := raw.(bool); ok {
		return b, true
	}
	switch raw {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return nil, false
}

func toInt(raw any) (int64, bool) {
	switch v := raw.(type) {
	case int: // YAML's uint64 and float64 exceed every limit or are not whole numbers
		return int64(v), true
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// toList converts a YAML list of text, or text separated by commas.
func toList(raw any) (any, bool) {
	out := []string{}
	switch v := raw.(type) {
	case string:
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				out = append(out, item)
			}
		}
	case []any:
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, false
			}
			out = append(out, strings.TrimSpace(text))
		}
	default:
		return nil, false
	}
	return out, true
}

// customRules maps our own validate tags to descriptions.
var customRules = map[string]string{
	"listen_addr":   "host:port, :port or [address]:port",
	"loopback_addr": "host:port with a loopback host, such as 127.0.0.1:6060",
	"db_hosts":      "a host name, address or socket directory, or several with commas (the port goes into database.port)",
	"node_id":       "1 to 128 letters, digits and . _ : -",
	"pattern":       "a regular expression (RE2)",
	"broker":        "a list whose entries are host:port",
	"source_topic":  "a list whose entries are the name of a topic, alone or with = and the UUID of a tenant",
	"api_key":       "an API key, as skald key generate prints it",
	"base_path":     "a path such as /skald, without a slash at its end",
	"public_url":    "an http or https URL without user, query and fragment, and without a slash at its end",
	"ui_link":       "a list whose entries are a name, =, and an http or https URL with {trace_id} or {correlation_id} behind the host",
	"role_name":     "a list whose entries are a name of the issuer, =, and worker, auditor, operator or admin",
	"issuer_url":    "an https URL; http only for a loopback host",
	"vault_address": "http:// or https:// with a host and optionally a port, such as https://vault.internal:8200",
	"redis_url":     "redis:// or rediss:// and a host, optionally with :password@ or user:password@, a port and /database; or redis+sentinel://, comma-separated hosts and /master; or redis+cluster:// and comma-separated hosts",
	"offload_url":   "file:// and the absolute path of a directory, or s3:// and a bucket, optionally with a prefix",
	"egress_entry":  "a list whose entries are an address, CIDR, host name or *.domain, each alone or with :port or :port-port",
}
