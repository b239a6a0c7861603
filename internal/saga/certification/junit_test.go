package certification

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"
)

// Whatever a participant answers and whatever a vector is called, the file can be parsed and has
// one test case per vector.
func TestJUnitHasOneCaseForEachVector(t *testing.T) {
	const hostile = "]]> <a b='&\"> \x1b[31m \x00 \xff 予約"
	one := func(code string, vectors ...string) Finding {
		return Finding{Code: code, Rule: "1", Title: "It is " + hostile, Why: "Why", Vector: vectors[0], Seen: hostile,
			Curl: []string{"curl '" + hostile + "'", "# restart"}, Vectors: vectors}
	}
	text, err := Report{
		URL: "http://127.0.0.1/" + hostile, Played: []string{"right", "broken", "both"},
		Findings: []Finding{one("first", "broken", "both", "under-load"), one("second", "both", "untried-alone")},
		Warnings: []Warning{{Code: "http_1_0", Text: hostile}},
		Untried:  []Untried{{Vector: "restart", Reason: hostile}, {Vector: "untried-alone", Reason: "no usable answer"}},
	}.In(JUnit)
	if err != nil {
		t.Fatal(err)
	}
	var got testSuite
	if err := xml.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var names, failed, skipped []string
	for _, c := range got.Cases {
		names = append(names, c.Name)
		if c.Failure != nil {
			failed = append(failed, c.Name)
		}
		if c.Skipped != nil {
			skipped = append(skipped, c.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(failed)
	if s := strings.Join(names, " "); s != "both broken restart right under-load untried-alone" || got.Tests != 6 {
		t.Errorf("%d tests: %s", got.Tests, s)
	}
	if s := strings.Join(failed, " "); s != "both broken under-load untried-alone" || got.Failures != 4 {
		t.Errorf("%d failures: %s", got.Failures, s)
	}
	if s := strings.Join(skipped, " "); s != "restart" || got.Skipped != 1 {
		t.Errorf("%d skipped: %s", got.Skipped, s)
	}
	if !strings.Contains(got.Out, "http_1_0: ]]> <a b='&\">") || !strings.Contains(string(text), "first: It is ]]&gt;") {
		t.Errorf("the texts are not whole:\n%s", text)
	}
}
