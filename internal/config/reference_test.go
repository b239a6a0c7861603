package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md and config.example.yaml")

var profiles = []Environment{Dev, Test, Staging, Prod}

// docSection and docField are the data of the templates.
type docSection struct {
	Name, Doc, Indent string
	Fields            []docField
}

type docField struct {
	Key, Env, Default, Meaning string // for the manual
	Comment, Line              string // for the example file
}

func TestTheManualAndTheExampleFollowFromTheStructs(t *testing.T) {
	for _, tt := range []struct{ template, golden string }{
		{"configuration.md.tmpl", "../../docs/configuration.md"},
		{"config.example.yaml.tmpl", "../../config.example.yaml"},
	} {
		t.Run(filepath.Base(tt.golden), func(t *testing.T) {
			var got bytes.Buffer
			tmpl := template.Must(template.ParseFiles(filepath.Join("testdata", tt.template)))
			if err := tmpl.Execute(&got, docSections()); err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(tt.golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(tt.golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("out of date, run go test ./internal/config -update (-file +structs):\n%s", diff)
			}
		})
	}
}

func TestTheExampleFileSaysWhatHoldsWithoutIt(t *testing.T) {
	got, err := Load("../../config.example.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(Dev), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("example (-default +example):\n%s", diff)
	}
}

func TestTheExampleFileIsRightForEveryProfile(t *testing.T) {
	for _, env := range profiles {
		got, err := Load("../../config.example.yaml", []string{"SKALD_ENV=" + string(env), "SKALD_DATABASE_HOST=db"})
		if err != nil {
			t.Fatal(err)
		}
		want := Default(env)
		want.Database.Host = "db"
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-default +example):\n%s", env, diff)
		}
	}
}

func docSections() []docSection {
	var out []docSection
	for _, s := range sections {
		d := docSection{Name: s.name, Doc: s.doc}
		if s.name != "" {
			d.Indent = "  "
		}
		for _, f := range s.fields {
			d.Fields = append(d.Fields, document(f))
		}
		out = append(out, d)
	}
	return out
}

func document(f field) docField {
	values := map[string][]string{} // default: its profiles
	for _, env := range profiles {
		v := defaultOf(f, env)
		values[v] = append(values[v], string(env))
	}
	var perProfile []string
	for _, env := range profiles {
		v := defaultOf(f, env)
		if envs := values[v]; envs[0] == string(env) {
			perProfile = append(perProfile, strings.Join(envs, ", ")+": "+v)
		}
	}
	first := defaultOf(f, Dev)
	d := docField{
		Key:     f.key,
		Env:     "`" + strings.Join(withoutDouble(f.names), "`, `") + "`",
		Meaning: f.doc,
		Comment: f.doc,
		Line:    lastPart(f.key) + ": " + first,
	}
	if f.allowed != "text" {
		d.Meaning += " Allowed: " + f.allowed + "."
	}
	switch {
	case f.key == "app.environment":
		d.Default = "`dev`"
	case len(values) > 1:
		for _, p := range perProfile {
			envs, v, _ := strings.Cut(p, ": ")
			d.Default += fmt.Sprintf("; %s: `%s`", envs, v)
		}
		d.Default = strings.TrimPrefix(d.Default, "; ")
		d.Comment += " (" + strings.Join(perProfile, "; ") + ")"
		d.Line = "# " + d.Line
	case first == "" || first == "[]" || first == "{}":
		d.Default = "empty"
		d.Line = "# " + strings.TrimSpace(d.Line)
	default:
		d.Default = "`" + first + "`"
	}
	return d
}

// withoutDouble leaves out the form with double underscores, which the manual explains once.
func withoutDouble(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, "__") })
}

// defaultOf is the setting's default in a profile, in its usual notation.
func defaultOf(f field, env Environment) string {
	v := reflect.ValueOf(Default(env))
	for part := range strings.SplitSeq(f.key, ".") {
		v = v.FieldByIndex(fieldNamed(v.Type(), part))
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		s := value.String() // 24h0m0s
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(s, zero) {
				s = s[:len(s)-2]
			}
		}
		return s
	case Secret:
		return string(value)
	case ParticipantSecrets:
		return "{}"
	case []string:
		return "[" + strings.Join(value, ", ") + "]"
	default:
		return fmt.Sprint(value)
	}
}

func fieldNamed(t reflect.Type, key string) []int {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("key") == key {
			return []int{i}
		}
	}
	panic("no field for " + key)
}
