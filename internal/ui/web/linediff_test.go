package web

import (
	"fmt"
	"strings"
	"testing"
)

func signs(lines []DiffLine) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s%s|", l.Sign, l.Text)
	}
	return b.String()
}

func TestTextsAreComparedByLine(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"a\nb\n", "a\nb", ""},
		{"", "a\nb\n", "+a|+b|"},
		{"a\n", "", "-a|"},
		{"a\nb\nc\n", "a\nx\nc\n", " a|-b|+x| c|"},
		{"a\nb\nc\n", "b\nc\nd\n", "-a| b| c|+d|"},
		{"a\nb\nc\nd", "a\nc\nd\nb", " a|-b| c| d|+b|"},
		{"1\n2\n3\n4\n5\n6\n7\nx", "1\n2\n3\n4\n5\n6\n7\ny", "…4 equal lines| 5| 6| 7|-x|+y|"},
		{"0\n1\n2\n3\nx", "0\n1\n2\n3\ny", " 0| 1| 2| 3|-x|+y|"},
	} {
		if got := signs(Diff(c.before, c.after)); got != c.want {
			t.Errorf("%q to %q: %s, want %s", c.before, c.after, got, c.want)
		}
	}
}

func TestLinesHaveTheirNumbersInBothTexts(t *testing.T) {
	got := Diff("a\nb\nc\n", "a\nx\ny\nc\n")
	want := []DiffLine{{" ", 1, 1, "a"}, {"-", 2, 0, "b"}, {"+", 0, 2, "x"}, {"+", 0, 3, "y"}, {" ", 3, 4, "c"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLargeTextsAreComparedAsAWhole(t *testing.T) {
	long := func(word string) string { return "first\n" + strings.Repeat(word+"\n", 3000) + "last\n" }
	got := Diff(long("a"), long("b"))
	if len(got) != 6002 || got[0].Sign != " " || got[1].Sign != "-" || got[6000].Sign != "+" || got[6001].Sign != " " {
		t.Errorf("%d lines", len(got))
	}
}
