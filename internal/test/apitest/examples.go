package apitest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/httpapi/openapi"
)

// Candidate is an example that a test recorded for an operation.
type Candidate struct {
	Operation, Status string
	openapi.Example
}

// recordInto is the directory in which `make examples` collects candidates.
var recordInto = os.Getenv("TEST_EXAMPLES")

// answered identifies the responses of one operation with one status in one test.
type answered struct {
	t         *testing.T
	operation string
	status    int
}

var (
	firsts sync.Map // keyed by answered
	same   sync.Map // keyed by answered: one of the responses has the example's members
)

// exemplify records the first response of each operation in a test; in the test that the current
// example comes from, it also records every response with the example's members. When it isn't
// recording, it checks in that test that at least one response still has those members: which
// response comes first may depend on chance.
func exemplify(t *testing.T, operation string, status int, request, answer []byte) {
	key := answered{t, operation, status}
	_, again := firsts.LoadOrStore(key, true)
	if !json.Valid(answer) {
		return
	}
	c := Candidate{Operation: operation, Status: strconv.Itoa(status)}
	dir, err := os.Getwd()
	if err != nil {
		t.Error(err)
		return
	}
	c.Test, c.Answer = filepath.Base(dir)+"."+t.Name(), answer
	if json.Valid(request) {
		c.Request = request
	}
	all, err := openapi.Examples()
	if err != nil {
		t.Error(err)
		return
	}
	e := all[operation][c.Status]
	if recordInto != "" {
		if !again || e.Test == c.Test && slices.Equal(Members(e.Answer), Members(answer)) {
			c.record(t)
		}
		return
	}
	if e.Test != c.Test {
		return
	}
	diff := cmp.Diff(Members(e.Answer), Members(answer))
	if diff == "" {
		same.Store(key, true)
	}
	if !again {
		t.Cleanup(func() {
			if _, found := same.Load(key); !found && !t.Failed() {
				t.Errorf("%s: no response has the members of the contract's example, which comes from this test: "+
					"run make examples (-example +first response):\n%s", operation, diff)
			}
		})
	}
}

func (c Candidate) record(t *testing.T) {
	line, err := json.Marshal(c)
	if err == nil {
		name := filepath.Join(recordInto, strings.ReplaceAll(c.Test[:strings.IndexByte(c.Test, '.')], "/", "_")+".jsonl")
		var f *os.File
		if f, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
			_, err = f.Write(append(line, '\n'))
			f.Close()
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// Members returns the paths of a value's members. It leaves out the members of list items, because
// they depend on the kind of item.
func Members(text []byte) []string {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return []string{err.Error()}
	}
	found := map[string]bool{}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		if v, ok := v.(map[string]any); ok {
			for name, member := range v {
				if uuid.Validate(name) == nil {
					name = "{id}"
				}
				found[path+"/"+name] = true
				visit(path+"/"+name, member)
			}
		}
	}
	visit("", value)
	return slices.Sorted(maps.Keys(found))
}
