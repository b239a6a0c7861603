package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// pages are the lists that have a page of their own, with the numbers of each.
var pages = map[string][]string{
	"api.md":         numbers("API-%02d", 1, 35),
	"one-product.md": numbers("%d", 1, 10),
	"traps.md":       numbers("X%d", 1, 47),
	"invariants.md": append(append(append(append(append(append(append(append(
		append(numbers("I%d", 0, 15), "I20", "I20a", "I20b", "I21", "I22", "I22a",
			"I23", "I23a", "I23b", "I23c", "I23d", "I24", "I25", "I25a"),
		numbers("D%d", 1, 7)...), numbers("J%d", 1, 12)...),
		numbers("O%d", 1, 6)...),
		"2.6", "3.4"), numbers("3.7-%d", 1, 4)...), numbers("F%02d", 1, 67)...), numbers("T%d", 1, 25)...), "engine"),
}

func numbers(form string, from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf(form, i))
	}
	return all
}

// proofRow is a row of a page: its number, what it says, and its test.
var proofRow = regexp.MustCompile(`(?m)^\| ([^ |]+) \| (.*) \| ([^ |]+) \|$`)

func TestEveryListHasItsRowsAndEveryNamedTestExists(t *testing.T) {
	tests := testFunctions(t)
	for page, want := range pages {
		text, err := os.ReadFile("requirements/" + page)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range proofRow.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "No." {
				continue
			}
			got = append(got, m[1])
			proof := strings.Trim(m[3], "`")
			switch {
			case proof == "*open*" || proof == "*planned*":
				if !strings.Contains(m[2], proof) {
					t.Errorf("%s: %s does not say what is %s", page, m[1], proof)
				}
			case !tests[proof]:
				t.Errorf("%s: %s: there is no test %s", page, m[1], proof)
			}
		}
		if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
			t.Errorf("%s has the rows\n%s\nwant\n%s", page, g, w)
		}
		if lines := strings.Count(string(text), "\n| ") - strings.Count(string(text), "\n| No. |"); lines != len(want) {
			t.Errorf("%s has %d rows, %d of which can be read", page, lines, len(want))
		}
	}
	index, err := os.ReadFile("requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	for page := range pages {
		if !strings.Contains(string(index), "(requirements/"+page+")") {
			t.Errorf("requirements.md does not link %s", page)
		}
	}
}
