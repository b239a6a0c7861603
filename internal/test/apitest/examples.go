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

	"github.com/skald-saga/skald/internal/httpapi/published"
)

// Candidate is what a test recorded for the example of an operation.
type Candidate struct {
	Operation, Status string
	published.Example
}

// recordInto is the directory for candidates: make examples.
var recordInto = os.Getenv("SKALD_EXAMPLES")

// answered is the first answer of an operation with a status in a test.
type answered struct {
	t         *testing.T
	operation string
	status    int
}

var firsts sync.Map // of answered

// exemplify records the first answer of each operation in a test, or compares the members of the one that is
// the example of the contract.
func exemplify(t *testing.T, operation string, status int, request, answer []byte) {
	if _, again := firsts.LoadOrStore(answered{t, operation, status}, true); again || !json.Valid(answer) {
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
	if recordInto != "" {
		c.record(t)
		return
	}
	all, err := published.Examples()
	if err != nil {
		t.Error(err)
		return
	}
	if e := all[operation][c.Status]; e.Test == c.Test {
		if diff := cmp.Diff(Members(e.Answer), Members(answer)); diff != "" {
			t.Errorf("%s: this answer is the example in the contract, and has other members now: "+
				"make examples (-example +answer):\n%s", operation, diff)
		}
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

// Members returns the paths of the members of a value; the items of a list share theirs.
func Members(text []byte) []string {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return []string{err.Error()}
	}
	found := map[string]bool{}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if uuid.Validate(name) == nil {
					name = "{id}"
				}
				found[path+"/"+name] = true
				visit(path+"/"+name, member)
			}
		case []any:
			for _, item := range v {
				visit(path+"/*", item)
			}
		}
	}
	visit("", value)
	return slices.Sorted(maps.Keys(found))
}
