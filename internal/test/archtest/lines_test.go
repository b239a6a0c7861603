package archtest

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// maxColumns is how wide a line of Go may be; a tab counts as one column, as
// it does for the linters that people know.
const maxColumns = 120

// longText is the length from which a string literal does not count: a message
// or a statement stays in one piece, so that it can be searched for.
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

// wideYet are the packages that were written before the limit, with the number
// of their lines that are too wide. A number only ever becomes smaller.
var wideYet = map[string]int{
	"api/webhooks":               1,
	"cmd/skald":                  3,
	"db":                         26,
	"examples/order/ledger":      1,
	"examples/order/shop":        2,
	"internal/access/accessapi":  18,
	"internal/access/accessdb":   7,
	"internal/access/identity":   8,
	"internal/app":               49,
	"internal/app/demo":          1,
	"internal/audit/auditapi":    23,
	"internal/audit/auditdb":     10,
	"internal/audit/operator":    1,
	"internal/audit/timelinedb":  3,
	"internal/bench":             12,
	"internal/config":            17,
	"internal/dlq":               123,
	"internal/dlq/dlqapi":        276,
	"internal/dlq/dlqdb":         146,
	"internal/dlq/redrive":       34,
	"internal/dlq/redrivedb":     37,
	"internal/dlq/targets":       9,
	"internal/egress":            2,
	"internal/event/delivery":    1,
	"internal/event/eventapi":    31,
	"internal/event/eventdb":     37,
	"internal/event/webhook":     1,
	"internal/httpapi":           41,
	"internal/jobrun":            100,
	"internal/jobrun/jobapi":     157,
	"internal/jobrun/jobdb":      96,
	"internal/jobrun/joblog":     11,
	"internal/jobrun/jobqueue":   1,
	"internal/jobrun/jobworker":  14,
	"internal/jobrun/logstore":   20,
	"internal/jobrun/redislease": 31,
	"internal/jobrun/schedule":   34,
	"internal/jobrun/scheduler":  14,
	"internal/jobrun/sweepdb":    19,
	"internal/jobrun/workerapi":  97,
	"internal/kafka":             17,
	"internal/loop":              1,
	"internal/memstore":          8,
	"internal/ops":               7,
	"internal/postgres":          30,
	"internal/postgres/devpg":    1,
	"internal/rest":              13,
	"internal/saga":              24,
	"internal/saga/cache":        1,
	"internal/saga/engine":       7,
	"internal/saga/participant":  11,
	"internal/saga/sagaapi":      124,
	"internal/saga/sagadb":       91,
	"internal/saga/workflow":     3,
	"internal/secret/envelope":   2,
	"internal/strictjson":        3,
	"internal/test/apitest":      11,
	"internal/test/archtest":     28,
	"internal/test/chaos":        20,
	"internal/test/manual":       2,
	"internal/test/pgtest":       28,
	"internal/test/storetest":    23,
	"internal/test/testdb":       1,
}

func TestLinesAreNotTooWide(t *testing.T) {
	found := map[string]int{}
	for _, f := range files(t) {
		if f.generated {
			continue
		}
		wide := wideLines(f.text, f.test || strings.HasPrefix(f.pkg, "internal/test/"))
		found[f.pkg] += len(wide)
		if wideYet[f.pkg] == 0 {
			for _, line := range wide {
				t.Errorf("%s:%d: more than %d columns", f.path, line, maxColumns)
			}
		}
	}
	for pkg, n := range wideYet {
		if found[pkg] > n {
			t.Errorf("%s has %d lines of more than %d columns, more than the %d it had", pkg, found[pkg], maxColumns, n)
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
