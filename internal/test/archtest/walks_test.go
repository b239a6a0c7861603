package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheWalksNameFunctionsThatExist keeps the walkthroughs in docs/architecture.md correct:
// readers use them to set breakpoints.
func TestTheWalksNameFunctionsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, walks, ok := strings.Cut(string(page), "\n## Four walks\n")
	if !ok {
		t.Fatal("docs/architecture.md has no section Four walks")
	}
	walks, _, _ = strings.Cut(walks, "\n## ")
	there := map[string]bool{}
	for _, f := range files(t) {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !f.test {
				there[filepath.Base(f.pkg)+"."+receiver(fn)+fn.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`([a-z]+\\.[A-Za-z]+\\.[A-Za-z]+|[a-z]+\\.Apply)`").FindAllStringSubmatch(walks, -1)
	if len(named) < 20 {
		t.Fatalf("only %d functions are named: the pattern is wrong", len(named))
	}
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("the walks name %s, which does not exist", m[1])
		}
	}
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	e := fn.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}
