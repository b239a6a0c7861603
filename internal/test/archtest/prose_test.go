package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
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

// summaryVerbs are the verbs that a summary in openapi.yaml may begin with. There is one verb per
// idea, so that "List" is not called "Show all" elsewhere. A new operation uses one of them or adds
// a more specific one.
var summaryVerbs = strings.Fields(`
	Acknowledge Append Approve Archive Cancel Change Check Claim Compensate Complete Confirm Count Create Delete
	Detach Disable Discard Drain Enable Explain Export Fail Force Get Hold Import List Make Pause Preview Publish Push
	Reassign Redeliver Register Release Replace Report Requeue Rerun Reset Resolve Restore Resume Retry Revoke
	Rotate Send Show Simulate Skip Start Stream Suspend Trigger Undetach Undrain Update Validate Verify`)

const maxSummary = 59 // characters

// summaryMistake describes what is wrong with a summary; it returns "" if nothing is.
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
				continue // path parameters
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

// oddWords are phrases that other programs don't use, each with a suggestion of what to write
// instead.
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
	{`tells? whether`, `"reports whether", "says whether"`},
	{`(is|are|was|were) told`, `"is notified", "is reported", "learns"`},
	{`(goes|go|going|went) round`, `"runs", "repeats"`},
	{`seldom`, `"rarely"`},
	{`whoever`, `"anyone who …", or name the person or program`},
	{`(drain|know|come|find|hold|run|need|say|care|count|wait|see)s not`, `"does not …"`},
	{`hardly`, `"unlikely to", "rarely", "almost never"`},
	{`in vain`, `"without success"`},
	{`stands? still`, `"makes no progress", "is stuck"`},
	{`what (is|was|has) ([a-z]+ )?(is|was|has|stays)`, `a noun: "grey values are inherited"`},
	{`(changed|gone|ended|moved|taken|deleted|registered) meanwhile`, `"in the meantime", "since then"`},
	{`(takes?|taken|taking|took) (it |them |the [a-z]+ )?away`, `"removes"`},
	{`(to|can|may|could) be had`, `"is available"`},
	{`not [a-z]+ any ?more`, `"no longer"`},
	{`(be|been|being|are|was|were|not|it is|that is) cancelled|cancelling`,
		`"canceled": two Ls only name the state of sagas`},
}

// proseFiles returns the files other than Go files whose every line is checked: the contract, pages
// for users, templates, scripts and style sheets of the web UI, shell scripts and examples.
// Migrations are left out because they never change, and so is test data, which is not prose.
func proseFiles(t *testing.T) []string {
	t.Helper()
	const root = "../../../"
	kinds := strings.Fields(".md .html .tmpl .js .css .sh .yaml .yml .java .py Makefile Dockerfile run")
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if entry.IsDir() {
			if slices.Contains([]string{"bin", "db/migrations"}, name) || madeHere(name) ||
				entry.Name() == "testdata" || entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if slices.Contains(kinds, filepath.Ext(name)) || slices.Contains(kinds, entry.Name()) {
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPagesAreIdiomatic(t *testing.T) {
	checked := map[string]int{}
	for _, page := range proseFiles(t) {
		text, err := os.ReadFile("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		checked[filepath.Ext(page)]++
		for i, line := range strings.Split(string(text), "\n") {
			if odd := oddIn(line); odd != "" {
				t.Errorf("%s:%d: %s", page, i+1, odd)
			}
		}
	}
	for kind, least := range map[string]int{".md": 100, ".html": 60, ".js": 9, ".sh": 8, ".yaml": 3} {
		if checked[kind] < least {
			t.Errorf("only %d files %s were found", checked[kind], kind)
		}
	}
}

// TestCommentsAreIdiomatic checks each comment as a whole, because a phrase may be split between
// lines.
func TestCommentsAreIdiomatic(t *testing.T) {
	comments := 0
	for _, f := range files(t) {
		if f.generated {
			continue
		}
		for _, group := range f.syntax.Comments {
			comments++
			words := strings.Fields(group.Text())
			if len(words) > 0 && strings.Contains(f.text, " "+words[0]+"(") {
				words = words[1:] // the function name is not prose
			}
			if odd := oddIn(strings.Join(words, " ")); odd != "" {
				t.Errorf("%s:%d: %s", f.path, positions.Position(group.Pos()).Line, odd)
			}
		}
	}
	if comments < 10000 {
		t.Errorf("only %d comments were found", comments)
	}
}

// notProse removes names that can't be changed: a user in the system, and an invariant that
// migrations name.
var notProse = strings.NewReplacer(`"nobody"`, "", "J6 what has ended stays so", "")

// oddIn returns the first odd phrase in a text, or "" if there is none.
func oddIn(text string) string {
	text = notProse.Replace(text)
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

// anyOdd matches every text that one of oddWords matches, so a single pattern accepts nearly all
// lines.
var anyOdd = func() *regexp.Regexp {
	var all []string
	for _, w := range oddWords {
		all = append(all, w.re)
	}
	return oddPattern(strings.Join(all, "|"))
}()

// TestTextsAreIdiomatic checks every string of two or more words: error details, log lines, titles
// of problems, and the help texts of metrics and flags.
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
		"it ends by itself", "has no way to Kafka", "it drains not, and lives", "tells whether a run is due",
		"and is told", "each goes round", "looks seldom", "what is done stays done", "Whoever waits polls",
		"has changed meanwhile", "takes the filter away", "can be had as CSV",
	} {
		if oddIn(bad) == "" {
			t.Errorf("%q passes", bad)
		}
	}
	if odd := oddIn("the scheduler has no leader right now"); odd != "" {
		t.Errorf("a plain text: %s", odd)
	}
}
