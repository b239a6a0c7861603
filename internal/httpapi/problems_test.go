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
` + "`errors`" + ` lists every error found, each with one of ` + "`pointer`" + ` (a JSON Pointer into the body, empty
for all of it), ` + "`parameter`" + ` (of the path or query) and ` + "`header`" + `. ` + "`allowed_actions`" + ` comes with 409 if the state of the resource does not allow
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
		for _, s := range k.Status {
			status = append(status, strconv.Itoa(s))
		}
		fmt.Fprintf(&b, "| <a id=\"%s\"></a>`%s` | %s | **%s.** %s |\n", strings.ToLower(k.Code), k.Code, strings.Join(status, ", "), k.Title, k.Meaning)
	}
	return b.String()
}

// TestEveryCodeIsListed reads the problems that packages add from their source, so that the
// list of a package cannot be forgotten; and no constant is a code beside these lists.
func TestEveryCodeIsListed(t *testing.T) {
	listed, added := map[string]bool{}, map[string]bool{}
	for _, k := range problems {
		if listed[k.Code] {
			t.Errorf("%s is listed twice", k.Code)
		}
		listed[k.Code] = true
	}
	calls := regexp.MustCompile(`\bProblems\.Add\("([A-Z0-9_]+)"`)
	shape := regexp.MustCompile(`^(REQ|AUTH|SAGA|WORKFLOW|WEBHOOK|DLQ|JOB|SYS)_[A-Z0-9_]+$`)
	name := regexp.MustCompile(`^[cC]ode[A-Z]`)
	lists, err := filepath.Glob("../*/problems.go")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("../*/*/problems.go")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("../*/*api")
	if err != nil {
		t.Fatal(err)
	}
	dirs = append(dirs, ".")
	for _, path := range append(lists, deeper...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
			dirs, added[m[1]] = append(dirs, filepath.Dir(path)), true
			if !listed[m[1]] {
				t.Errorf("%s of %s is not in the list of problems", m[1], path)
			}
		}
	}
	for code := range listed {
		if !added[code] {
			t.Errorf("%s is listed but is in no problems.go", code)
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		for code := range codeConstants(t, dir, name, shape) {
			t.Errorf("%s: %s is a code beside the problems of the package", dir, code)
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
		for _, status := range k.Status {
			if status < 400 || http.StatusText(status) == "" || k.Title == "" || k.Meaning == "" {
				t.Errorf("%s: status %d, title %q", k.Code, status, k.Title)
			}
		}
	}
}
