package openapi

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestExamplesFollowTheContract checks that each example is valid, and that every operation that
// takes or returns JSON has one. With TEST_EXAMPLES it first rewrites the examples from the
// responses that the tests recorded there (make examples).
func TestExamplesFollowTheContract(t *testing.T) {
	if dir := os.Getenv("TEST_EXAMPLES"); dir != "" {
		rewrite(t, dir)
		return
	}
	all, err := Examples()
	if err != nil {
		t.Fatal(err)
	}
	doc := closed(t)
	known := map[string]bool{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			known[op.OperationID] = true
			for status, res := range op.Responses.Map() {
				m := res.Value.Content["application/json"]
				if status[0] != '2' || m == nil {
					continue
				}
				e, ok := all[op.OperationID][status]
				if !ok {
					if !without[op.OperationID+" "+status] {
						t.Errorf("%s has no example of a %s: no test recorded one", op.OperationID, status)
					}
					continue
				}
				if without[op.OperationID+" "+status] {
					t.Errorf("%s has an example of a %s: take it from the list of those without", op.OperationID, status)
				}
				valid(t, op.OperationID+" "+status, m.Schema.Value, e.Answer)
				if e.Request != nil && op.RequestBody != nil {
					if m := op.RequestBody.Value.Content["application/json"]; m != nil {
						valid(t, op.OperationID+" request", m.Schema.Value, e.Request)
					}
				}
			}
		}
	}
	for id := range all {
		if !known[id] {
			t.Errorf("%s has an example, and is not an operation", id)
		}
	}
}

// closed is the contract of openapi.yaml, in which a member that is not described is a mistake.
func closed(t *testing.T) *openapi3.T {
	t.Helper()
	spec, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(spec)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func valid(t *testing.T, what string, schema *openapi3.Schema, text []byte) {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	if err := schema.VisitJSON(value); err != nil {
		t.Errorf("%s: %v\n%s", what, err, text)
	}
}

// candidate is apitest.Candidate, which cannot be imported here.
type candidate struct {
	Operation, Status string
	Example
}

// rewrite chooses an example for each operation and status among those that tests recorded. The one that is there
// stays, byte for byte, as long as its test still gets an answer with its members. Otherwise it is one whose members
// were the same each time that the tests ran, with the most of them, and a short one if there are several.
func rewrite(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing was recorded in %s: %v", dir, err)
	}
	recorded := map[string]map[string][]candidate{} // by operation and status, and by test
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		in := bufio.NewReader(f)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				break
			}
			var c candidate
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			key := c.Operation + " " + c.Status
			if recorded[key] == nil {
				recorded[key] = map[string][]candidate{}
			}
			recorded[key][c.Test] = append(recorded[key][c.Test], c)
		}
	}
	raw, err := source()
	if err != nil {
		t.Fatal(err)
	}
	doc := closed(t)
	kept, err := Examples()
	if err != nil {
		t.Fatal(err)
	}
	byTag := map[string]map[string]map[string]Example{}
	for at := range operations(raw) {
		id, tag := at.op.text("operationId"), at.op.list("tags")[0].(string)
		for status := range at.op.object("responses") {
			e, ok := kept[id][status]
			if ok = ok && stands(e, recorded[id+" "+status][e.Test], doc, id); !ok {
				if c := choose(recorded[id+" "+status], requestOf(doc, id)); c != nil {
					n := &steady{seen: map[string]string{}}
					e, ok = Example{Test: c.Test, Request: n.text(c.Request), Answer: n.text(c.Answer)}, true
				}
			}
			if !ok {
				continue
			}
			if byTag[tag] == nil {
				byTag[tag] = map[string]map[string]Example{}
			}
			if byTag[tag][id] == nil {
				byTag[tag][id] = map[string]Example{}
			}
			byTag[tag][id][status] = e
		}
	}
	old, _ := filepath.Glob("examples/*.json")
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for tag, all := range byTag {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		if err := enc.Encode(all); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("examples/"+tag+".json", out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// stands reports whether the request of an example is valid, and its test still gets such an answer to it. That the
// answer is valid follows from the check of every answer in the tests.
func stands(e Example, recorded []candidate, doc *openapi3.T, id string) bool {
	var sent any
	if e.Request != nil && json.Unmarshal(e.Request, &sent) != nil {
		return false
	}
	if schema := requestOf(doc, id); sent != nil && schema != nil && schema.VisitJSON(sent) != nil {
		return false
	}
	return slices.ContainsFunc(recorded, func(c candidate) bool {
		return slices.Equal(outline(c.Answer), outline(e.Answer)) && slices.Equal(outline(c.Request), outline(e.Request))
	})
}

// requestOf returns the schema of the JSON body of an operation, or nil if it takes none.
func requestOf(doc *openapi3.T, id string) *openapi3.Schema {
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.OperationID == id && op.RequestBody != nil {
				if m := op.RequestBody.Value.Content["application/json"]; m != nil {
					return m.Schema.Value
				}
			}
		}
	}
	return nil
}

func choose(tests map[string][]candidate, request *openapi3.Schema) *candidate {
	var best *candidate
	score := func(c *candidate) int {
		n := min(len(membersOf(c.Answer)), 60) * 1000
		if c.Request != nil {
			n += 5000
		}
		if strings.Contains(c.Test, "/") {
			n -= 1_000_000 // of a table: its cases are renamed more often than tests
		}
		return n - min(len(c.Answer)+len(c.Request), 100_000)
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		runs := tests[name]
		same := !slices.ContainsFunc(runs, func(c candidate) bool {
			return !slices.Equal(membersOf(c.Answer), membersOf(runs[0].Answer))
		})
		if same && plain(&runs[0], request) && (best == nil || score(&runs[0]) > score(best)) {
			best = &runs[0]
		}
	}
	return best
}

// plain means that a reader can make something of it.
func plain(c *candidate, request *openapi3.Schema) bool {
	var sent any
	if c.Request != nil && (json.Unmarshal(c.Request, &sent) != nil || request != nil && request.VisitJSON(sent) != nil) {
		return false // an answer to what the contract does not allow
	}
	if bytes.Contains(c.Answer, []byte(`"problem":`)) {
		return false // of a batch with refused items
	}
	return len(c.Answer) < 6000 && len(c.Request) < 3000 && utf8.Valid(c.Answer) && utf8.Valid(c.Request)
}

func membersOf(text []byte) []string {
	var v any
	_ = json.Unmarshal(text, &v)
	found := map[string]bool{}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				found[path+"/"+name] = true
				visit(path+"/"+name, member)
			}
		case []any:
			for _, item := range v {
				visit(path+"/*", item)
			}
		}
	}
	visit("", v)
	return slices.Sorted(maps.Keys(found))
}

// outline is what a test compares an answer with its example by: the members without those of the items of lists.
func outline(text []byte) (names []string) {
	for _, name := range membersOf(text) {
		if !strings.Contains(name, "/*/") {
			names = append(names, aUUID.ReplaceAllString(name, "{id}"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// steady replaces values that differ in each run: ids, times, ports and secrets.
type steady struct{ seen map[string]string }

var (
	aUUID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	aTime   = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	aPort   = regexp.MustCompile(`\b(127\.0\.0\.1|localhost):\d{4,5}\b`)
	aSecret = regexp.MustCompile(`\b(whsec_|sk_|skald_)[A-Za-z0-9+/=_-]{16,}`)
)

func (s *steady) text(text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	out := aUUID.ReplaceAllFunc(text, func(old []byte) []byte {
		if bytes.HasPrefix(old, []byte("00000000-0000-")) {
			return old
		}
		return []byte(s.nth("id", string(old), func(n int) string { return fmt.Sprintf("019ab2c0-5a3e-7c31-9d5e-%012d", n) }))
	})
	out = aTime.ReplaceAllFunc(out, func(old []byte) []byte {
		return []byte(s.nth("time", string(old), func(n int) string {
			return fmt.Sprintf("2026-11-21T12:%02d:%02d.123456Z", n/60%60, n%60)
		}))
	})
	out = aPort.ReplaceAll(out, []byte("${1}:9001"))
	return aSecret.ReplaceAll(out, []byte("${1}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
}

func (s *steady) nth(kind, old string, of func(n int) string) string {
	key := kind + old
	if s.seen[key] == "" {
		n := 0
		for k := range s.seen {
			if strings.HasPrefix(k, kind) {
				n++
			}
		}
		s.seen[key] = of(n)
	}
	return cmp.Or(s.seen[key], old)
}

// without are the answers that have no example: that of the contract would hold all the others, and itself.
var without = map[string]bool{"getContract 200": true}
