package workflow_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// checkParsed checks what must hold for every result of the two parsers.
func checkParsed(t *testing.T, d *workflow.Definition, err error) {
	t.Helper()
	if err != nil {
		f := fault.As(err)
		if d != nil || f == nil || f.Kind != fault.Invalid {
			t.Fatalf("not a fault that a client can act on: %v, %#v", d, err)
		}
		if f.Code == "" || f.Detail == "" || len(f.Fields) > 100 {
			t.Fatalf("not a fault that a client can act on: %#v", err)
		}
		return
	}
	stored, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(stored) || bytes.Contains(stored, []byte(`\u0000`)) {
		t.Fatalf("cannot be stored as jsonb: %q", stored)
	}
	again, err := workflow.ParseJSON(stored, workflow.Limits{})
	if err != nil {
		t.Fatalf("an accepted definition is refused when it comes back: %v\n%s", err, stored)
	}
	// One notation for an absent value, {} or [], may be returned as another.
	var read workflow.Definition
	if err := json.Unmarshal(stored, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read, *again); diff != "" || !bytes.Equal(again.Hash(), d.Hash()) {
		t.Fatalf("another definition came back (-stored +parsed):\n%s", diff)
	}
	for i := range d.Steps {
		if a := d.ActionRetry(i, nil); a.MaxAttempts < 1 || a.Multiplier < 1 {
			t.Fatalf("step %d has no usable policy: %+v", i, a)
		}
		if c := d.CompensationPolicy(i); c.MaxAttempts < 1 || c.Multiplier < 1 {
			t.Fatalf("step %d has no usable compensation policy: %+v", i, c)
		}
	}
}

func FuzzParseYAML(f *testing.F) {
	for _, src := range []string{
		full, fullJSON, minimal(""), minimal("<<: {a: b}"), minimal("? [a]\n: b"), minimal("description: !!binary gIGC"),
		minimal("retry: &x [*x]"), minimal("timeout_ms: .nan"), minimal("description: 2020-01-01"), minimal("1: x"),
		"---\n---\n", "%YAML 1.1\n---\na", "\xff\xfea\x00", "? ? ? a", "- - - -", "!!set {a}", "a: |2-\n  b", "{a: [", "\"\\",
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := workflow.ParseYAML(src, workflow.Limits{})
		checkParsed(t, d, err)
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, src := range []string{
		fullJSON, flow(step("a"), step("b", `"depends_on":["a"]`)), with(`"timeout_ms":1e400`), `{"name":null}`, `[]`,
		`{"steps":[null]}`,
		with(`"retry":{"retry_on":[],"jitter":-0}`), acting(`{"http":{"url":"http://h/","headers":{"a":"b"}}}`), undoing(`{"http":null}`),
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := workflow.ParseJSON(src, workflow.Limits{})
		checkParsed(t, d, err)
		if err != nil {
			return
		}
		// Valid JSON must mean the same as YAML.
		if y, err := workflow.ParseYAML(src, workflow.Limits{}); err == nil && !bytes.Equal(y.Hash(), d.Hash()) {
			t.Fatalf("read as YAML it is another definition: %+v, %+v", y, d)
		}
	})
}
