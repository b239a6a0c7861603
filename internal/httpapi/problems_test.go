package httpapi

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/httpkit"
)

var update = flag.Bool("update", false, "rewrite docs/problems.md")

const problemsFile = "../../docs/problems.md"

func TestTheListOfProblemsIsUpToDate(t *testing.T) {
	want := renderProblems()
	if *update {
		if err := os.WriteFile(problemsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(problemsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("out of date, run go test ./internal/httpapi -update (-file +codes):\n%s", diff)
	}
}

func renderProblems() string {
	var b strings.Builder
	b.WriteString(`# Problems

Every error of the API is a problem document (RFC 9457, ` + "`application/problem+json`" + `):

` + "```json" + `
{
  "type": "` + typeOf(httpkit.CodeSchema) + `",
  "title": "` + titleOf(httpkit.CodeSchema, 0) + `",
  "status": 422,
  "detail": "/correlation_id must have at most 255 characters",
  "instance": "/api/v1/sagas",
  "code": "REQ_SCHEMA",
  "request_id": "01936b2e-8f6a-7c31-9d5e-2f1b7a4c8d90",
  "errors": [{"pointer": "/correlation_id", "code": "maxLength", "message": "must have at most 255 characters"}]
}
` + "```" + `

Decide by ` + "`code`" + `: it is stable. ` + "`title`" + ` describes the code, ` + "`detail`" + ` this particular error.
` + "`errors`" + ` lists every error found; ` + "`pointer`" + ` is a JSON Pointer into the body, or the name of a
parameter or header. ` + "`allowed_actions`" + ` comes with 409 if the state of the resource does not allow
the action; for a dead letter, ` + "`current`" + ` then gives its status and version. ` + "`message`" + ` is the dead
letter that a target did not accept.

400 means that the request could not be parsed, 422 that it was parsed but is invalid. Retry after 503, or
after 409 with Retry-After. Retry other 4xx only after something else has changed.

This page is generated from the code (` + "`go test ./internal/httpapi -update`" + `).

| Code | Status | Description |
|---|---|---|
`)
	for _, k := range problems {
		var status []string
		for _, s := range k.status {
			status = append(status, strconv.Itoa(s))
		}
		fmt.Fprintf(&b, "| <a id=\"%s\"></a>`%s` | %s | **%s.** %s |\n", strings.ToLower(k.code), k.code, strings.Join(status, ", "), k.title, k.meaning)
	}
	return b.String()
}

// TestEveryCodeIsListed reads the constants with codes from the source, so that a new one
// cannot be forgotten.
func TestEveryCodeIsListed(t *testing.T) {
	shape := regexp.MustCompile(`^(REQ|AUTH|SAGA|WORKFLOW|WEBHOOK|DLQ|JOB|SYS)_[A-Z0-9_]+$`)
	name := regexp.MustCompile(`^[cC]ode[A-Z]`)
	listed := map[string]bool{}
	for _, k := range problems {
		if listed[k.code] {
			t.Errorf("%s is listed twice", k.code)
		}
		listed[k.code] = true
	}
	found := map[string]bool{}
	edges, err := filepath.Glob("../*/*api")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(edges, ".", "../fault", "../httpkit", "../idempotency", "../erasure",
		"../principal", "../access",
		"../saga",
		"../saga/sagabulk",
		"../saga/workflow", "../event/webhook", "../dlq", "../jobrun") {
		for code := range codeConstants(t, dir, name, shape) {
			found[code] = true
			if !listed[code] {
				t.Errorf("%s of %s is not in the list of problems", code, dir)
			}
		}
	}
	for code := range listed {
		if !found[code] {
			t.Errorf("%s is listed but is not a constant", code)
		}
	}
}

func codeConstants(t *testing.T, dir string, name, shape *regexp.Regexp) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !slices.ContainsFunc(spec.Names, func(i *ast.Ident) bool { return name.MatchString(i.Name) }) {
				return true
			}
			for _, value := range spec.Values {
				if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if code, err := strconv.Unquote(lit.Value); err == nil && shape.MatchString(code) {
						codes[code] = true
					}
				}
			}
			return true
		})
	}
	return codes
}

func TestEveryStatusHasItsText(t *testing.T) {
	for _, k := range problems {
		for _, status := range k.status {
			if status < 400 || http.StatusText(status) == "" || k.title == "" || k.meaning == "" {
				t.Errorf("%s: status %d, title %q", k.code, status, k.title)
			}
		}
	}
}
