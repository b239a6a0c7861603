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
	"sync"
	"testing"
)

// file is a Go file of the module. All tests share it, so none of them may modify its syntax tree.
type file struct {
	path, pkg string
	test      bool
	generated bool
	lines     int
	text      string
	syntax    *ast.File
	imports   []string
}

// files returns every Go file of the module, sorted by path.
func files(t *testing.T) []file {
	t.Helper()
	read := readFiles()
	if read.err != nil {
		t.Fatal(read.err)
	}
	if len(read.files) < 100 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(read.files))
	}
	return read.files
}

// positions holds the positions of all syntax trees in files.
var positions = token.NewFileSet()

// madeHere reports whether a directory holds local files that are not part of the tree, such as
// .git, .skald and the directories of tools. Other programs write there while the tests run.
func madeHere(name string) bool {
	return len(name) > 1 && name[0] == '.' && name != ".." && name != ".ci"
}

// readFiles walks the tree once per process: parsing takes longer than all checks. The test
// process opens the files itself, so that the test cache depends on them.
var readFiles = sync.OnceValue(func() (read struct {
	files []file
	err   error
}) {
	read.err = filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		notOurs := slices.Contains([]string{"bin", "node_modules", "tools", "testdata"}, d.Name()) || madeHere(d.Name())
		if d.IsDir() && notOurs {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(positions, path, src, parser.ParseComments)
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
		read.files = append(read.files, f)
		return nil
	})
	return read
})
