package archtest

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// rulebooks are the packages with a state machine.
var rulebooks = []string{"internal/saga", "internal/dlq", "internal/jobrun"}

// machineFile is the file that contains the complete state machine (decision 0121).
const machineFile = "machine.go"

// TestStateMachinesHaveOneShape: machine.go of each package with a state machine contains the table
// of edges and Apply, and Apply's only switch covers every event of the package. No other function
// switches on event types, and a transition that is not in the table is an error.
func TestStateMachinesHaveOneShape(t *testing.T) {
	all := packages(t)
	for _, pkg := range rulebooks {
		own := all[pkg]
		f := own[machineFile]
		if f == nil {
			t.Errorf("%s has no %s", pkg, machineFile)
			continue
		}
		for name, want := range map[string][]string{"Edge": {"From", "To"}, "IllegalEdgeError": {"From", "To"}} {
			if got := fieldsOf(f, name); len(got) < 2 || !slices.Equal(got[:2], want) {
				t.Errorf("%s: the first fields of %s in %s are %v, want %v", pkg, name, machineFile, got, want)
			}
		}
		if where := declared(own); where["Edges"] != machineFile || where["Apply"] != machineFile {
			t.Errorf("%s: Edges are in %s, Apply is in %s", pkg, where["Edges"], where["Apply"])
			continue
		}
		apply := dispatch(machineFile, f)
		if got := signature(apply); got != "Event, Moment) (Change, error" {
			t.Errorf("%s: after its subject, Apply has the parameters and results %s", pkg, got)
		}
		if judged, events := slices.Sorted(slices.Values(cases(apply))), eventTypes(own); !slices.Equal(judged, events) {
			t.Errorf("%s: the switch of Apply has the events %v, the package has %v", pkg, judged, events)
		}
		for name, f := range own {
			if n := panicsOfDecision(f); n > 0 {
				t.Errorf("%s/%s: a decision panics", pkg, name)
			}
		}
	}
}

// dispatch returns the Apply function of a file with a state machine, or nil if the file has none.
func dispatch(name string, f *ast.File) *ast.FuncDecl {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && name == machineFile && fn.Recv == nil && fn.Name.Name == "Apply" {
			return fn
		}
	}
	return nil
}

func fieldsOf(f *ast.File, name string) (fields []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, id := range field.Names {
					fields = append(fields, id.Name)
				}
			}
		}
		return false
	})
	return fields
}

// signature returns the types of a function's parameters, without the first one, and of its
// results.
func signature(fn *ast.FuncDecl) string {
	of := func(list *ast.FieldList) (out []string) {
		for _, field := range list.List {
			out = append(out, types.ExprString(field.Type))
		}
		return out
	}
	parameters := of(fn.Type.Params)
	return strings.Join(parameters[1:], ", ") + ") (" + strings.Join(of(fn.Type.Results), ", ")
}

// cases lists the types in the type switches of a function.
func cases(fn *ast.FuncDecl) (out []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSwitchStmt); ok {
			for _, c := range s.Body.List {
				for _, e := range c.(*ast.CaseClause).List { //nolint:forcetypeassert // the parser creates no other type here
					out = append(out, types.ExprString(e))
				}
			}
		}
		return true
	})
	return out
}

// eventTypes lists the types that implement an event.
func eventTypes(own map[string]*ast.File) (out []string) {
	for _, f := range own {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "event" && len(fn.Type.Params.List) == 0 {
				out = append(out, types.ExprString(fn.Recv.List[0].Type))
			}
		}
	}
	slices.Sort(out)
	return out
}

// panicsOfDecision counts the calls of panic in the methods of decisions.
func panicsOfDecision(f *ast.File) (n int) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil || types.ExprString(fn.Recv.List[0].Type) != "*decision" {
			continue
		}
		ast.Inspect(fn, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && types.ExprString(call.Fun) == "panic" {
				n++
			}
			return true
		})
	}
	return n
}
