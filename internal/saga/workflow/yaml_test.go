package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestYAMLThatJSONCannotSayIsRefused(t *testing.T) {
	laughs := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'i'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	for _, tt := range []struct{ name, src, detail string }{
		{"nothing", "", "the YAML text is empty"},
		{"a comment only", "# later\n", "the YAML text is empty"},
		{"two documents", minimal("") + "---\n" + minimal(""), "more than one document"},
		{"an empty second document", minimal("") + "---\n", "more than one document"},
		{"rubbish after the end", minimal("") + "...\n}", "more than one document"},
		{"an anchor", minimal("description: &x text"), "YAML line 2: anchors and aliases are not supported"},
		{"an alias", minimal("description: *x"), "unknown anchor"},
		{"an anchor and its alias", minimal("retry: &x {jitter: 0}\ncompensation_retry: *x"), "anchors and aliases are not supported"},
		{"an alias of itself", minimal("retry: &x [*x]"), "anchors and aliases are not supported"},
		{"a billion laughs", laughs, "anchors and aliases are not supported"},
		{"a merge key", minimal("<<: {timeout_ms: 5}"), "YAML line 2: merge keys are not supported"},
		{"a merge key within a step", "name: a\nsteps:\n  - <<: {name: s}", "YAML line 3: merge keys are not supported"},
		{"a binary tag", minimal("description: !!binary gIGC"), "YAML line 2: tags are not supported"},
		{"a tag that changes nothing", minimal("description: !!str x"), "YAML line 2: tags are not supported"},
		{"a tag of somebody's own", minimal("description: !secret x"), "YAML line 2: tags are not supported"},
		{"a tag on the whole", "!!map {name: a}", "YAML line 1: tags are not supported"},
		{"a set", minimal("retry: !!set {jitter}"), "YAML line 2: tags are not supported"},
		{"a number as key", minimal("1: x"), "YAML line 2: keys must be strings"},
		{"a boolean as key", minimal("true: x"), "YAML line 2: keys must be strings"},
		{"null as key", minimal("~: x"), "YAML line 2: keys must be strings"},
		{"a date as key", minimal("2020-01-01: x"), "YAML line 2: keys must be strings"},
		{"a list as key", minimal("? [a]\n: b"), "YAML line 2: keys must be strings"},
		{"an object as key", minimal("? {a: b}\n: c"), "YAML line 2: keys must be strings"},
		{"an alias as key", minimal("description: &x a\n*x : b"), "anchors and aliases are not supported"},
		{"a number as header name", "name: a\nsteps: [{name: s, compensation: none, action: {http: {url: 'http://h', headers: {1: x}}}}]", "keys must be strings"},
		{"a key twice", minimal("name: b"), `YAML line 2: the key "name" is duplicated`},
		{"a tab for indentation", "name: a\nsteps:\n\t- x", "the definition is not YAML"},
		{"half a bracket", "{name: a", "the definition is not YAML"},
		{"invalid UTF-8", "name: \xff", "the definition is not YAML"},
		{"a raw NUL", "name: a\x00", "the definition is not YAML"},
		{"half a surrogate pair", minimal(`description: "\ud800"`), "the definition is not YAML"},
		{"no character at all", minimal(`description: "\UFFFFFFFF"`), "the definition is not YAML"},
		{"nesting without end", strings.Repeat("[", 100_000), "the definition is not YAML"},
		{"nesting without end, in blocks", strings.Repeat("- ", 100_000), "the definition is not YAML"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := workflow.ParseYAML([]byte(tt.src), workflow.Limits{})
			f := fault.As(err)
			if d != nil || f == nil || f.Kind != fault.Invalid {
				t.Fatalf("got %v, %v; want it refused", d, err)
			}
			if f.Code != workflow.CodeSyntax || !strings.Contains(f.Detail, tt.detail) {
				t.Errorf("got %v; want %s with %q", err, workflow.CodeSyntax, tt.detail)
			}
		})
	}
}

// TestHostileYAMLCostsNoMoreThanItsLength would run for minutes, or run out of memory, if the work
// or the result grew with the square of the text's length.
func TestHostileYAMLCostsNoMoreThanItsLength(t *testing.T) {
	const n = 100_000
	var distinct strings.Builder
	for i := range n {
		fmt.Fprintf(&distinct, "k%d: 1\n", i)
	}
	for name, src := range map[string]string{
		"the same key":             strings.Repeat("a: 1\n", n),
		"the same key in brackets": "{" + strings.Repeat("a, ", n) + "}",
		"many keys":                distinct.String(),
		"one long key":             strings.Repeat("k", n) + ": 1",
		"one long name":            strings.Replace(minimal(""), "name: a", "name: "+strings.Repeat("n", n), 1),
		"one long alias":           "a: *" + strings.Repeat("x", n),
		"one long dependency":      minimal("") + "    depends_on: [" + strings.Repeat("d", n) + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			d, err := workflow.ParseYAML([]byte(src), workflow.Limits{})
			f := fault.As(err)
			if d != nil || f == nil {
				t.Fatalf("got %v, %v", d, err)
			}
			size := len(f.Error())
			for _, p := range f.Fields {
				size += len(p.Pointer) + len(p.Message)
			}
			if size > 200_000 {
				t.Errorf("%d bytes of answer to %d bytes of text", size, len(src))
			}
		})
	}
}

func TestYAMLValuesThatAreNoSuchThing(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"not a number", "timeout_ms: .nan", "/timeout_ms: must be between"},
		{"infinity", "timeout_ms: .inf", "/timeout_ms: must be between"},
		{"minus infinity", "timeout_ms: -.inf", "/timeout_ms: must be between"},
		{"not a number as jitter", "retry: {jitter: .NaN}", "/retry/jitter: must be between 0 and 1"},
		{"not a number as multiplier", "retry: {multiplier: .nan}", "/retry/multiplier: must be between 1 and 100"},
		{"an integer of 64 bits", "timeout_ms: 18446744073709551615", "/timeout_ms: must be between"},
		{"an integer of more bits", "timeout_ms: 184467440737095516150", "/timeout_ms: must be between"},
		{"a negative integer of 64 bits", "timeout_ms: -9223372036854775808", "/timeout_ms: must be between"},
		{"a number with exponent beyond any float", "timeout_ms: 1e999", "/timeout_ms: must be a number"},
		{"a date as text", "description: 2020-01-01", "/description: must be a string"},
		{"a time as text", "description: 2020-01-01T00:00:00Z", "/description: must be a string"},
		{"a number as text", "description: 5", "/description: must be a string"},
		{"a boolean as text", "description: true", "/description: must be a string"},
		{"text as number", "timeout_ms: '5'", "/timeout_ms: must be a number"},
		{"a word of YAML 1.1 as number", "timeout_ms: yes", "/timeout_ms: must be a number"},
		{"an escaped NUL", `description: "a\0b"`, "/description: must not contain the NUL character"},
		{"a list for a policy", "retry: []", "/retry: must be an object"},
		{"a merge key in quotes", `"<<": {timeout_ms: 5}`, `/<<: unknown field "<<"`},
		{"a word of YAML 1.1 as key", "on: x", `/on: unknown field "on"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := workflow.ParseYAML([]byte(minimal(tt.line)), workflow.Limits{})
			if d != nil || !strings.HasPrefix(fmt.Sprint(err), workflow.CodeInvalid+": "+tt.want) {
				t.Errorf("got %v, %v; want %q", d, err, tt.want)
			}
		})
	}
}

func TestYAMLWritesWhatItLikes(t *testing.T) {
	for _, tt := range []struct {
		name, src   string
		timeout     int64
		description string
	}{
		{"nulls are absent", minimal("timeout_ms:\ndescription: ~"), 0, ""},
		{"a start mark", "---\n" + minimal("timeout_ms: 5"), 5, ""},
		{"an end mark", minimal("timeout_ms: 5") + "...\n", 5, ""},
		{"a comment", minimal("timeout_ms: 5 # ms"), 5, ""},
		{"a byte order mark", "\ufeff" + minimal("timeout_ms: 5"), 5, ""},
		{"carriage returns", strings.ReplaceAll(minimal("timeout_ms: 5"), "\n", "\r\n"), 5, ""},
		{"underscores in numbers", minimal("timeout_ms: 60_000"), 60000, ""},
		{"hexadecimal", minimal("timeout_ms: 0xff"), 255, ""},
		{"a float that is whole", minimal("timeout_ms: 5.0"), 5, ""},
		{"an exponent", minimal("timeout_ms: 6e4"), 60000, ""},
		{"a block of text", minimal("description: |\n  one\n  two"), 0, "one\ntwo\n"},
		{"a date in quotes", minimal("description: '2020-01-01'"), 0, "2020-01-01"},
		{"the words of YAML 1.1", minimal("description: yes"), 0, "yes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := mustYAML(t, tt.src)
			if d.TimeoutMS != tt.timeout || d.Description != tt.description {
				t.Errorf("timeout %d, description %q; want %d, %q", d.TimeoutMS, d.Description, tt.timeout, tt.description)
			}
		})
	}
}
