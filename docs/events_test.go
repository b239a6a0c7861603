package docs_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
)

func TestTheTablesOfEventsAreTheRulebooks(t *testing.T) {
	page, err := os.ReadFile("events.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| \\S").FindAllSubmatch(page, -1) {
		got = append(got, string(m[1]))
	}
	for _, t := range eventtype.All {
		want = append(want, string(t))
	}
	for _, k := range trail.Tamperings {
		want = append(want, string(k))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types and kinds (-rules +docs/events.md):\n%s", diff)
	}
}
