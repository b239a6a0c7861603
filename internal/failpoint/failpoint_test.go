package failpoint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/failpoint"
)

// TestAllListsEveryPoint compares the list with the constants in the source,
// because a point that is not in the list can neither be configured nor missed.
func TestAllListsEveryPoint(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "failpoint.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []failpoint.Name
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Name" {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, failpoint.Name(text))
			}
		}
		return true
	})
	if len(want) < 20 {
		t.Fatalf("%d points found in the source", len(want))
	}
	got := slices.Clone(failpoint.All)
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("All (-source +list):\n%s", d)
	}
	if unique := slices.Compact(slices.Clone(got)); len(unique) != len(got) {
		t.Error("a point is listed twice")
	}
}
