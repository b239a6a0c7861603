package archtest

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// maxColumns is the maximum width of a line of Go; a tab counts as one column, as in the common
// linters.
const maxColumns = 120

// longText is the length from which a string literal does not count: a message or a statement
// stays in one piece, so that it can be searched for.
const longText = 30

// tableRow is a row of a test table, which stays on one line, so that rows can
// be compared.
var tableRow = regexp.MustCompile(`^\s*(\{|"[^"]*":\s*[[:alnum:].\[\]*&]*[({]|[[:word:].]+:\s*\{).*\},?$`)

// wideLines returns the numbers of the lines that are too wide.
func wideLines(text string, test bool) (wide []int) {
	lines := strings.Split(text, "\n")
	width := make([]int, len(lines)+1)
	for i, line := range lines {
		width[i+1] = len([]rune(line))
	}
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.STRING {
			continue
		}
		first, pieces := fset.Position(pos).Line, strings.Split(lit, "\n")
		for i, piece := range pieces {
			if n := len([]rune(piece)); n > longText || len(pieces) > 1 {
				width[first+i] -= n
			}
		}
	}
	for i, line := range lines {
		if width[i+1] > maxColumns && !(test && tableRow.MatchString(line)) {
			wide = append(wide, i+1)
		}
	}
	return wide
}

func TestLinesAreNotTooWide(t *testing.T) {
	for _, f := range files(t) {
		if f.generated {
			continue
		}
		for _, line := range wideLines(f.text, f.test || strings.HasPrefix(f.pkg, "internal/test/")) {
			t.Errorf("%s:%d: more than %d columns", f.path, line, maxColumns)
		}
	}
}

func TestWideLinesAreFound(t *testing.T) {
	wide := strings.Repeat("a", maxColumns)
	text := "package p\n\n" +
		"var " + wide + " = 1\n" +
		"var b = \"" + wide + "\"\n" +
		"var c = `\n" + wide + wide + "\n`\n" +
		"// " + wide + "\n" +
		"\t{\"" + "row\", " + wide + "},\n"
	if got := wideLines(text, false); len(got) != 3 || got[0] != 3 || got[1] != 8 || got[2] != 9 {
		t.Errorf("wide lines %v, want 3, 8 and 9", got)
	}
	if got := wideLines(text, true); len(got) != 2 {
		t.Errorf("in a test: wide lines %v, want 3 and 8", got)
	}
}
