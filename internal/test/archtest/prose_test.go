package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// summaryVerbs are the verbs that a summary of openapi.yaml may begin with: one word per idea,
// so that "List" is not "Show all" elsewhere. A new operation takes one of them, or adds a more
// specific one.
var summaryVerbs = strings.Fields(`
	Acknowledge Append Approve Archive Cancel Change Check Claim Compensate Complete Confirm Count Create Delete
	Detach Disable Discard Drain Enable Explain Export Fail Force Get Import List Make Pause Preview Publish Push
	Reassign Redeliver Register Release Replace Report Requeue Rerun Reset Resolve Restore Resume Retry Revoke
	Rotate Send Show Skip Start Stream Suspend Trigger Undetach Undrain Update Validate Verify`)

const maxSummary = 59 // characters

// summaryMistake describes what is wrong with a summary, "" when it is right.
func summaryMistake(summary string) string {
	verb, rest, _ := strings.Cut(summary, " ")
	switch n := len([]rune(summary)); {
	case !slices.Contains(summaryVerbs, verb):
		return fmt.Sprintf("%q is not one of the verbs a summary begins with", verb)
	case rest == "":
		return "the verb has no object"
	case strings.HasSuffix(summary, "."):
		return "it ends with a full stop"
	case n > maxSummary:
		return fmt.Sprintf("it has %d characters; at most %d", n, maxSummary)
	}
	return ""
}

func TestSummariesAreImperatives(t *testing.T) {
	text, err := os.ReadFile("../../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	operations, used := 0, map[string]bool{}
	for path, item := range doc.Paths {
		for method, node := range item {
			var op struct {
				OperationID string `yaml:"operationId"`
				Summary     string
			}
			if node.Kind != yaml.MappingNode || node.Decode(&op) != nil || op.OperationID == "" {
				continue // parameters of the path
			}
			operations++
			verb, _, _ := strings.Cut(op.Summary, " ")
			used[verb] = true
			if wrong := summaryMistake(op.Summary); wrong != "" {
				t.Errorf("openapi.yaml: %s %s: summary %q: %s", strings.ToUpper(method), path, op.Summary, wrong)
			}
		}
	}
	if operations < 150 {
		t.Errorf("only %d operations were found", operations)
	}
	for _, verb := range summaryVerbs {
		if !used[verb] {
			t.Errorf("no summary begins with %q any more: take it off the list", verb)
		}
	}
}

func TestMistakesInSummariesAreFound(t *testing.T) {
	for _, bad := range []string{
		"", "Drain", "drain a worker", "Give a worker nothing new", "Who leads the scheduler", "Drain a worker.",
		"List " + strings.Repeat("x", maxSummary-4),
	} {
		if summaryMistake(bad) == "" {
			t.Errorf("%q passes", bad)
		}
	}
	if wrong := summaryMistake("List " + strings.Repeat("x", maxSummary-5)); wrong != "" {
		t.Errorf("a summary of %d characters: %s", maxSummary, wrong)
	}
}

// oddWords are phrases that other programs do not use. The message says what to write instead.
var oddWords = []struct{ re, instead string }{
	{`nobody`, `name the state: "no leader", "not claimed"`},
	{`somebody( else)?`, `"another worker", "someone other than …", or the passive`},
	{`anew`, `"again"`},
	{`by (itself|themselves)`, `"automatically"`},
	{`misspelt`, `"check the spelling"`},
	{`has no way to`, `"is not configured"`},
	{`cannot stand for`, `"election failed"`},
	{`is none of`, `"must be one of"`},
	{`is there already`, `"already exists"`},
	{`exists already`, `"already exists"`},
	{`all the same`, `"anyway"`},
	{`not acceptable`, `"invalid"`},
	{`(has|have) become of`, `"the result", "the outcome"`},
	{`became of`, `"the result", "the outcome"`},
	{`is no (UUID|number|JSON)`, `"is not a …"`},
	{`stands (already|beside)`, `"already exists", "cannot be combined with"`},
	{`lies ahead`, `"is in the future"`},
	{`is of no use`, `"requires"`},
	{`turns? back`, `"compensate"`},
	{`for ever`, `"forever"`},
	{`for good`, `"permanently"`},
	{`in step with`, `"consistent with", "the same as"`},
	{`(made|comes?|begins?|read|written|tried) anew`, `"again", "recreated"`},
	{`what becomes of`, `"the result", "what happens to"`},
	{`stands? for the (lead|election)`, `"is a candidate"`},
	{`the watchman|a watchman`, `"the janitor"`},
	{`taken back`, `"reverted"`},
	{`is (out of reach|away)`, `"is unreachable", "is unavailable"`},
	{`goes on with`, `"continues with"`},
	{`asks? for credentials?`, `"requires a credential"`},
	{`without one of its own`, `"without its own …"`},
	{`that was told of`, `"reported", "notified"`},
	{`besides\b[.;]`, `"also", "in addition"`},
	{`is no error`, `"is not an error"`},
	{`lies? in`, `"is in"`},
	{`trying things out`, `"trials", "experiments"`},
}

// plainPages are the pages for users that have been rewritten. The contract is checked as well.
var plainPages = []string{
	"README.md", "Makefile", "config.example.yaml", "examples/order/README.md",
	"docs/architecture.md", "docs/configuration.md", "docs/dlq-sagas.md", "docs/dlq.md", "docs/events.md", "docs/jobs.md",
	"docs/kafka.md", "docs/lifecycle.md", "docs/operations.md", "docs/participants.md", "docs/performance.md",
	"docs/problems.md", "docs/redrives.md", "docs/saga-jobs.md", "docs/schedules.md", "docs/security.md",
	"docs/state-machines.md", "docs/tenants.md", "docs/webhooks.md", "docs/workers.md",
}

func TestPagesAreIdiomatic(t *testing.T) {
	decisions, err := filepath.Glob("../../../docs/decisions/*.md")
	if err != nil || len(decisions) < 40 {
		t.Fatalf("%d decisions, %v", len(decisions), err)
	}
	pages := []string{"openapi.yaml"}
	for _, page := range decisions {
		pages = append(pages, "docs/decisions/"+filepath.Base(page))
	}
	for _, page := range append(pages, plainPages...) {
		text, err := os.ReadFile("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if odd := oddIn(line); odd != "" {
				t.Errorf("%s:%d: %s", page, i+1, odd)
			}
		}
	}
}

// oddIn returns the first odd phrase in a text, "" when there is none.
func oddIn(text string) string {
	if !anyOdd.MatchString(text) {
		return ""
	}
	for _, w := range oddWords {
		if found := oddPattern(w.re).FindString(text); found != "" {
			return fmt.Sprintf("%q: write %s", found, w.instead)
		}
	}
	return "an odd phrase that no single pattern finds"
}

func oddPattern(re string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + re + `)\b`) }

// anyOdd matches every text that one of oddWords matches: nearly all lines are accepted by this
// single pattern.
var anyOdd = func() *regexp.Regexp {
	var all []string
	for _, w := range oddWords {
		all = append(all, w.re)
	}
	return oddPattern(strings.Join(all, "|"))
}()

// TestTextsAreIdiomatic checks every string of two words or more: details of errors, log lines,
// titles of problems, help of metrics and of flags.
func TestTextsAreIdiomatic(t *testing.T) {
	texts := 0
	for _, f := range files(t) {
		if f.test || f.generated {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || strings.IndexFunc(strings.TrimSpace(text), unicode.IsSpace) < 0 {
				return true
			}
			texts++
			if odd := oddIn(text); odd != "" {
				t.Errorf("%s:%d: %s", f.path, positions.Position(lit.Pos()).Line, odd)
			}
			return true
		})
	}
	if texts < 1000 {
		t.Errorf("only %d texts were found", texts)
	}
}

func TestOddWordsAreFound(t *testing.T) {
	for _, bad := range []string{
		"Nobody leads", "is nobody's id", "register anew",
		"it ends by itself", "has no way to Kafka",
	} {
		if oddIn(bad) == "" {
			t.Errorf("%q passes", bad)
		}
	}
	if odd := oddIn("the scheduler has no leader right now"); odd != "" {
		t.Errorf("a plain text: %s", odd)
	}
}
