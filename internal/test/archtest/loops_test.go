package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// Randomness and waits come from package internal/loop: loop.Chance, Jittered and Within;
// loop.Sleep and Await. These maps list the packages that have their own, with the reason.
var (
	ownChance = map[string]string{
		"internal/loop":             "it is the one that all others use",
		"internal/saga/participant": "a span of a trace has a random id",
		"internal/jobrun/joblog":    "nodes take the logs in different orders",
		"internal/failpoint":        "a test fails a share of the calls",
	}
	ownWaits = map[string]string{
		"internal/loop":              "it is the one that all others use",
		"internal/failpoint":         "a test makes a point slow, whatever the context says",
		"internal/app":               "tests replace the clock of server.drain_delay",
		"internal/saga/engine":       "the intake waits for four things at once, and a slow call is recorded once",
		"internal/jobrun/redislease": "an answer of Redis has a value",
		"internal/jobrun/workerapi":  "a claim waits for a run, its end, the server's stop and its client",
		"internal/dlq/dlqapi":        "an export ends between two pages",
		"internal/longpoll":          "a request waits for an end, its limit, the server's stop and its client",
		"internal/httpkit":           "a stream waits for news, silence, its age and the server's stop",
		"internal/audit/auditapi":    "a request waits for events, its limit, the server's stop and its client",
	}
)

func TestChanceAndWaitsAreThoseOfOnePackage(t *testing.T) {
	used := map[string]bool{}
	check := func(f file, own map[string]string, what, instead string) {
		if own[f.pkg] != "" {
			used[f.pkg+what] = true
			return
		}
		t.Errorf("%s has %s: %s", f.path, what, instead)
	}
	for _, f := range files(t) {
		if f.test || !strings.HasPrefix(f.pkg, "internal/") && !strings.HasPrefix(f.pkg, "cmd/") ||
			strings.HasPrefix(f.pkg, "internal/test/") {
			continue
		}
		if slices.Contains(f.imports, "math/rand/v2") || slices.Contains(f.imports, "math/rand") {
			check(f, ownChance, "chance", "loop.Chance, Jittered and Within are for all")
		}
		if waits(f.syntax) {
			check(f, ownWaits, "a wait", "loop.Sleep and Await are for all")
		}
	}
	for what, own := range map[string]map[string]string{"chance": ownChance, "a wait": ownWaits} {
		for pkg := range own {
			if !used[pkg+what] {
				t.Errorf("%s does not have %s: it needs no exception", pkg, what)
			}
		}
	}
}

// waits reports whether a file waits on the clock without package loop. Tickers and functions that
// are called later don't count as waits.
func waits(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := f.X.(*ast.Ident)
		found = found || ok && pkg.Name == "time" &&
			slices.Contains([]string{"Sleep", "After", "Tick", "NewTimer"}, f.Sel.Name)
		return true
	})
	return found
}

func TestWaitsAreFound(t *testing.T) {
	for body, want := range map[string]bool{
		"time.Sleep(d)": true,
		"select { case <-c: case <-time.After(d): }": true,
		"after := time.After; _ = after":             true,
		"t := time.NewTimer(d); <-t.C":               true,
		"t := time.NewTicker(d); <-t.C":              false,
		"loop.Sleep(ctx, d); began.After(end)":       false,
	} {
		text := "package x; func x() { " + body + " }"
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := waits(file); got != want {
			t.Errorf("%s: a wait: %t; want %t", body, got, want)
		}
	}
}
