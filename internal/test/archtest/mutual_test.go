package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// mutual is the number of pairs of files in a package that use each other when methods count,
// grouped by the reason for them. A package that is not listed has no such pairs. The numbers may
// only decrease (decision 0122).
var mutual = map[string]int{
	// A type holds its parts, and the parts call it back.
	"api/worker":                      6,
	"internal/dlq/redrive":            3,
	"internal/jobrun/jobworker":       1,
	"internal/jobrun/scheduler":       1,
	"internal/kafka":                  6,
	"internal/postgres/notify":        1,
	"internal/saga/engine":            3,
	"internal/secret/vault":           1,
	"internal/event/publication":      1,
	"internal/postgres/devpg":         1,
	"internal/access/identity":        1,
	"internal/secret/vault/vaulttest": 1,
	// The command line lists its commands, and each command reads the shared flags.
	"cmd/skald": 6,
	// A parser and the type that it parses into.
	"internal/config":          1,
	"internal/jobrun/schedule": 1,
	"internal/saga/workflow":   2,
	"internal/strictjson":      2,
	// Handlers, stores and pages are split into files by resource; code that two of them share is
	// in one of the two.
	"internal/app/demo":         2,
	"internal/dlq/dlqapi":       1,
	"internal/dlq/dlqdb":        3,
	"internal/event/eventapi":   1,
	"internal/httpapi":          1,
	"internal/jobrun/jobapi":    2,
	"internal/jobrun/jobdb":     1,
	"internal/jobrun/leaderdb":  1,
	"internal/saga/sagaapi":     4,
	"internal/saga/sagadb":      4,
	"internal/ui/jobpages":      3,
	"internal/ui/sagapages":     1,
	"internal/ui/web":           1,
	"internal/ui/workflowpages": 1,
}

// TestFilesDoNotCallEachOther: of any two files of a package, one can be read first. Unlike the
// test of the reading order, it considers methods, but not those of a decision: the rules of a
// state machine lead to each other, just as its states do.
func TestFilesDoNotCallEachOther(t *testing.T) {
	all := packages(t)
	for pkg, own := range all {
		pairs := mutualPairs(own)
		if most := mutual[pkg]; len(pairs) != most {
			t.Errorf("%s: %d pairs of files use each other, stated are %d:\n%s",
				pkg, len(pairs), most, strings.Join(pairs, "\n"))
		}
	}
	for pkg := range mutual {
		if all[pkg] == nil {
			t.Errorf("there is no package %s", pkg)
		}
	}
}

// noImports makes every import fail: the declarations of a package can be resolved without its
// imports.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// mutualPairs lists the pairs of files that use each other's declarations, including methods. It
// doesn't see a call on a value whose type depends on another package.
func mutualPairs(own map[string]*ast.File) (pairs []string) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	names := slices.Sorted(maps.Keys(own))
	var all []*ast.File
	where := func(at token.Pos) string { return path.Base(positions.Position(at).Filename) }
	skip := map[ast.Node]bool{} // receivers and the switch of a state machine
	for _, name := range names {
		f := own[name]
		all = append(all, f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				skip[fn.Recv] = true
			}
		}
		if fn := dispatch(name, f); fn != nil {
			skip[fn] = true
		}
	}
	pkg, _ := conf.Check("p", positions, all, info) // it always fails, because the imports are missing
	uses := map[[2]string][]string{}
	for _, f := range all {
		ast.Inspect(f, func(n ast.Node) bool {
			if skip[n] {
				return false
			}
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			obj := info.Uses[id]
			if obj == nil || obj.Pkg() != pkg || !declaredAtTop(obj, pkg) || ofDecision(obj) {
				return true
			}
			if from, to := where(id.Pos()), where(obj.Pos()); from != to {
				arrow := [2]string{from, to}
				if !slices.Contains(uses[arrow], obj.Name()) {
					uses[arrow] = append(uses[arrow], obj.Name())
				}
			}
			return true
		})
	}
	for arrow, there := range uses {
		if back := uses[[2]string{arrow[1], arrow[0]}]; arrow[0] < arrow[1] && back != nil {
			pairs = append(pairs, fmt.Sprintf("%s uses %v of %s, which uses %v", arrow[0], there, arrow[1], back))
		}
	}
	slices.Sort(pairs)
	return pairs
}

// declaredAtTop reports whether an object is a method or is declared at package level. Fields and
// local variables are not.
func declaredAtTop(obj types.Object, pkg *types.Package) bool {
	if fn, ok := obj.(*types.Func); ok && fn.Signature().Recv() != nil {
		return true
	}
	return obj.Parent() == pkg.Scope()
}

// ofDecision reports whether an object is a rule of a state machine.
func ofDecision(obj types.Object) bool {
	fn, ok := obj.(*types.Func)
	if !ok || fn.Signature().Recv() == nil {
		return false
	}
	p, ok := fn.Signature().Recv().Type().(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := p.Elem().(*types.Named)
	return ok && named.Obj().Name() == "decision"
}

func TestFilesThatCallEachOtherAreFound(t *testing.T) {
	a := "type a struct{ b b }\nfunc (a a) f() { a.b.g() }"
	for name, tt := range map[string]struct {
		second string
		want   int
	}{
		"a method is called back":       {"type b struct{}\nfunc (b b) g() { new(a).f() }", 1},
		"a type is named back":          {"type b struct{}\nfunc (b b) g() { var _ a }", 1},
		"a receiver is no use":          {"type b struct{}\nfunc (b b) g() {}\nfunc (a a) h() {}", 0},
		"nor is a field of that name":   {"type b struct{ f int }\nfunc (b b) g() { b.f++ }", 0},
		"nor is a rule of one decision": {"type b struct{}\nfunc (b b) g() {}\nfunc (d *decision) h() { d.i() }", 0},
	} {
		t.Run(name, func(t *testing.T) {
			own := sources(t, a+"\ntype decision struct{}\nfunc (d *decision) i() { d.h() }", tt.second)
			if got := mutualPairs(own); len(got) != tt.want {
				t.Errorf("%v, want %d pairs", got, tt.want)
			}
		})
	}
}
