package archtest

import (
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxColumns is the maximum width of a line of Go; a tab counts as one column, as in the common
// linters.
const maxColumns = 120

// longText is the length from which a string in double quotes doesn't count towards the width: a
// message stays in one piece, so that it can be searched for. A single-line string in backquotes,
// such as a pattern or a field tag, doesn't count either, unless it is a statement. Multi-line
// strings count in product code: these are mostly statements, which have one column or condition
// per line.
const longText = 30

// tableRow matches a row of a test table. A row stays on one line, so that rows can be compared.
var tableRow = regexp.MustCompile(`^\s*(\{|"[^"]*":\s*[[:alnum:].\[\]*&]*[({]|[[:word:].]+:\s*\{).*\},?$`)

// wideLines returns the numbers of the lines that are too wide.
func wideLines(text string, test, packed bool) (wide []int) {
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
			n := len([]rune(piece))
			if n > longText && len(pieces) == 1 && !statement.MatchString(lit) || packed && lit[0] == '`' {
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

// statement matches a string in backquotes that is an SQL statement or part of one.
var statement = regexp.MustCompile("^`\\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|FROM|WHERE|AND|CASE|LEFT JOIN|JOIN)\\b")

func TestLinesAreNotTooWide(t *testing.T) {
	for _, f := range files(t) {
		if f.generated {
			continue
		}
		test := f.test || strings.HasPrefix(f.pkg, "internal/test/")
		for _, line := range wideLines(f.text, test, test) {
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
		"\t{\"" + "row\", " + wide + "},\n" +
		"var d struct { a int `json:\"" + wide + "\"` }\n"
	if got := wideLines(text, false, false); !slices.Equal(got, []int{3, 6, 8, 9}) {
		t.Errorf("wide lines %v, want 3, 6, 8 and 9", got)
	}
	if got := wideLines(text, true, true); !slices.Equal(got, []int{3, 8}) {
		t.Errorf("in a test: wide lines %v, want 3 and 8", got)
	}
}
