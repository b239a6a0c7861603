package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

// acrossTenants lists the ways in which a store can use the database as the engine's role, which
// sees every tenant.
var acrossTenants = []string{
	"read", "write", "lease", "queryRead", "queryWrite", "Read", "Write", "Lease", "QueryRead", "QueryWrite", "SQL",
}

// TestWhatTakesATenantActsAsTheTenant: a function that takes a tenant acts as the role that sees
// only that tenant (decision 0022): in the stores, a function with a parameter named tenant uses
// ReadTenant, ListTenant or InTenant.
func TestWhatTakesATenantActsAsTheTenant(t *testing.T) {
	looked := 0
	stores := ofKind(t, "store")
	for _, f := range files(t) {
		if f.test || !slices.Contains(stores, f.pkg) {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil || !hasParameter(fn, "tenant") {
				continue
			}
			looked++
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && isDB(s.X) {
					for _, way := range acrossTenants {
						if s.Sel.Name == way {
							t.Errorf(
								"%s: %s takes a tenant and uses db.%s, which sees all: use ReadTenant, ListTenant or InTenant",
								f.path,
								fn.Name.Name,
								way,
							)
						}
					}
				}
				return true
			})
		}
	}
	if looked < 8 {
		t.Errorf("only %d functions looked at: the rule is wrong", looked)
	}
}

func hasParameter(fn *ast.FuncDecl, name string) bool {
	for _, field := range fn.Type.Params.List {
		for _, n := range field.Names {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

// isDB reports whether x is the store's database: db or st.db.
func isDB(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "db"
	case *ast.SelectorExpr:
		return x.Sel.Name == "db" || x.Sel.Name == "DB"
	}
	return false
}
