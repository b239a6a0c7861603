package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// ownDeadlines lists files and packages with limits that don't limit a wait, with the reason.
var ownDeadlines = map[string]string{
	"internal/test/patience":                  "it is the limit that all others use",
	"internal/test/chaos":                     "a campaign has a plan: how long it runs, and when its clients give up",
	"internal/test/mutants":                   "a mutant that hangs has to be told from one that lives",
	"internal/saga/engine/simulation_test.go": "it plays as many seeds as fit into the time that it is given",
}

// TestTestsSetNoDeadlinesOfTheirOwn: how long something takes depends on what else the machine is
// doing. Tests wait for events with patience.Until, Receive or Context. A test of speed counts
// operations, compares with something measured alongside, relies on a timeout of the product far
// beyond the patience, or uses a fake clock; files that import testing/synctest are therefore left
// out.
func TestTestsSetNoDeadlinesOfTheirOwn(t *testing.T) {
	used := map[string]bool{}
	for _, f := range files(t) {
		if !f.test && !strings.HasPrefix(f.pkg, "internal/test/") || slices.Contains(f.imports, "testing/synctest") {
			continue
		}
		for _, d := range deadlines(f.syntax) {
			if ownDeadlines[f.path] != "" || ownDeadlines[f.pkg] != "" {
				used[f.path], used[f.pkg] = true, true
				continue
			}
			t.Errorf("%s:%d: %s: a test waits with patience.Until, Receive or Context, and sets no deadline of its own",
				f.path, positions.Position(d.at).Line, d.what)
		}
	}
	for name := range ownDeadlines {
		if !used[name] {
			t.Errorf("%s has no deadlines: it needs no exception", name)
		}
	}
}

// deadline is a place where a test limits how long something may take in real time.
type deadline struct {
	what string
	at   token.Pos
}

// deadlines returns the deadlines of a file.
func deadlines(file *ast.File) (found []deadline) {
	took := durations(file)
	loops := 0
	var path []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			if _, ok := path[len(path)-1].(*ast.ForStmt); ok {
				loops--
			}
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		switch n := n.(type) {
		case *ast.ForStmt:
			loops++
		case *ast.CallExpr:
			if what := limit(n, loops > 0); what != "" {
				found = append(found, deadline{what, n.Pos()})
			}
		case *ast.BinaryExpr:
			if took.bound(n, loops > 0) {
				found = append(found, deadline{"a bound on how long something took", n.Pos()})
			}
		}
		return true
	})
	return found
}

// limit returns how a call limits a wait, or "" if it doesn't. Outside of a loop, a test may ask
// whether the current time is before a given time: a check that something didn't happen too early
// holds on any machine.
func limit(call *ast.CallExpr, looping bool) string {
	switch {
	case isCall(call, "time", "After"):
		return "time.After"
	case (isCall(call, "context", "WithTimeout") || isCall(call, "context", "WithTimeoutCause")) && literal(call.Args[1]):
		return "a context with a timeout"
	case isCall(call, "context", "WithDeadline"):
		return "a context with a deadline"
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if ok && isCall(f.X, "time", "Now") && (f.Sel.Name == "After" || f.Sel.Name == "Before" && looping) {
		return "a comparison of the time with a deadline"
	}
	return ""
}

// taken is the set of a file's variables that hold elapsed times.
type taken map[string]bool

func durations(file *ast.File) taken {
	names := taken{}
	ast.Inspect(file, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, to := range a.Lhs {
				if name, ok := to.(*ast.Ident); ok && isCall(a.Rhs[i], "time", "Since") {
					names[name.Name] = true
				}
			}
		}
		return true
	})
	return names
}

// bound reports whether a comparison limits how long something took. A lower bound holds on any
// machine, but in a loop it determines how long the loop runs.
func (names taken) bound(n *ast.BinaryExpr, looping bool) bool {
	is := func(x ast.Expr) bool {
		name, ok := x.(*ast.Ident)
		return ok && names[name.Name] || isCall(x, "time", "Since")
	}
	switch n.Op {
	case token.GTR, token.GEQ:
		return is(n.X) || is(n.Y) && looping
	case token.LSS, token.LEQ:
		return is(n.Y) || is(n.X) && looping
	}
	return false
}

// isCall reports whether x calls a function of a package.
func isCall(x ast.Expr, pkg, name string) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != name {
		return false
	}
	of, ok := f.X.(*ast.Ident)
	return ok && of.Name == pkg
}

// literal reports whether a duration is written as a constant, such as 5*time.Second.
func literal(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return true
	case *ast.SelectorExpr:
		of, ok := x.X.(*ast.Ident)
		return ok && of.Name == "time"
	case *ast.BinaryExpr:
		return literal(x.X) && literal(x.Y)
	}
	return false
}

func TestDeadlinesAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       int
	}{
		{"a loop with a deadline", `for end := time.Now().Add(time.Minute); !ok(); { if time.Now().After(end) { t.Fatal() } }`, 1},
		{"a loop until a deadline", `for time.Now().Before(end) { look() }`, 1},
		{"a loop for so long", `for begin := time.Now(); time.Since(begin) < time.Second; { look() }`, 1},
		{"time.After in a select", `select { case <-c: case <-time.After(time.Minute): t.Fatal() }`, 1},
		{"time.After kept", `late := time.After(time.Minute); <-late`, 1},
		{"a context of seconds", `ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)`, 1},
		{"a context with a deadline", `ctx, cancel := context.WithDeadline(t.Context(), end)`, 1},
		{"an upper bound", `if time.Since(begin) > 5*time.Second { t.Error() }`, 1},
		{"an upper bound with a name", `if took := time.Since(begin); took >= limit { t.Error() }`, 1},
		{"an upper bound the other way round", `if limit < time.Since(begin) { t.Error() }`, 1},
		{"a lower bound", `if took := time.Since(begin); took < 50*time.Millisecond { t.Error() }`, 0},
		{"not before its time", `if time.Now().Before(due) { t.Error() }`, 0},
		{"how long it took", `t.Logf("%v", time.Since(begin))`, 0},
		{"a context with the limit of all", `ctx, cancel := context.WithTimeout(ctx, patience.Limit)`, 0},
		{"waits for events", `patience.Until(t, "x", ok); <-patience.Context(t).Done()`, 0},
		{"times of data", `if got.After(time.Now()) || got.Before(begin) { t.Error() }`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; func x() { "+tt.body+" }",
				parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := deadlines(file); len(got) != tt.want {
				t.Errorf("found %v; want %d", got, tt.want)
			}
		})
	}
}
