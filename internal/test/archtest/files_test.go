package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// file is one Go file of the module. Opened by the test itself, so that the
// test cache knows of it.
type file struct {
	path, pkg string
	test      bool
	generated bool
	lines     int
	text      string
	syntax    *ast.File
	imports   []string
}

func files(t *testing.T) []file {
	t.Helper()
	var out []file
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", ".skald", "bin", "node_modules", "tools", "testdata"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..", "..")+string(filepath.Separator)))
		f := file{
			path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"),
			generated: ast.IsGenerated(parsed), lines: strings.Count(string(src), "\n"), text: string(src), syntax: parsed,
		}
		for _, imp := range parsed.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 100 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(out))
	}
	return out
}
