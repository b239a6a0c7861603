package archtest

import (
	"cmp"
	"go/ast"
	"go/parser"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// readTogether lists the packages whose files refer to each other, with the reason.
var readTogether = map[string]string{
	"api/worker":           "a worker, its sessions, runs and reports know each other",
	"cmd/skald":            "the command line names its commands, and a command reads the flags of all",
	"internal/saga/engine": "an engine holds its session, and a session serves its engine",
}

// TestFilesOfAPackageHaveAReadingOrder: no two files use each other's declarations, so a package
// can be read file by file, and each file only needs those before it. Methods may be in any file,
// because they are not needed to read a type.
func TestFilesOfAPackageHaveAReadingOrder(t *testing.T) {
	all := packages(t)
	for pkg, own := range all {
		if readTogether[pkg] != "" {
			continue
		}
		order, circle := readingOrder(own)
		if circle != nil {
			t.Errorf("%s: these files need each other: %s", pkg, strings.Join(circle, ", "))
			continue
		}
		if len(own) >= manyFiles {
			checkStatedOrder(t, pkg, own, order)
		}
	}
	for pkg := range readTogether {
		if _, circle := readingOrder(all[pkg]); circle == nil {
			t.Errorf("%s has a reading order: take it out of readTogether", pkg)
		}
	}
}

// manyFiles is the number of files from which a package's comment must list them.
const manyFiles = 10

const orderWords = "Files, each on top of those before it: "

// checkStatedOrder compares the list in a package's comment with its files.
func checkStatedOrder(t *testing.T, pkg string, own map[string]*ast.File, order []string) {
	t.Helper()
	var stated []string
	for _, f := range own {
		text := strings.Join(strings.Fields(f.Doc.Text()), " ")
		if _, list, ok := strings.Cut(text, orderWords); ok {
			list, _, _ = strings.Cut(list, ".")
			stated = strings.Split(list, ", ")
		}
	}
	at := map[string]int{}
	for i, name := range stated {
		at[name+".go"] = i
	}
	where := declared(own)
	wrong := len(at) != len(own)
	for name, f := range own {
		_, listed := at[name]
		wrong = wrong || !listed
		for needed := range needs(name, f, where) {
			wrong = wrong || at[needed] > at[name]
		}
	}
	if wrong {
		for i := range order {
			order[i] = strings.TrimSuffix(order[i], ".go")
		}
		t.Errorf("the comment of package %s does not tell in which order its files are read; this one fits:\n%s%s.",
			pkg, orderWords, strings.Join(order, ", "))
	}
}

// packages returns the files of each package, without tests and generated code.
func packages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	out := map[string]map[string]*ast.File{}
	for _, f := range files(t) {
		if f.test || f.generated || strings.HasPrefix(f.pkg, "internal/test/") ||
			strings.HasPrefix(f.pkg, "examples/") || platform(f.path) {
			continue
		}
		if out[f.pkg] == nil {
			out[f.pkg] = map[string]*ast.File{}
		}
		out[f.pkg][path.Base(f.path)] = f.syntax
	}
	return out
}

// platform reports whether a file is a variant for a single platform.
func platform(name string) bool {
	return slices.ContainsFunc([]string{"_linux.go", "_unix.go", "_other.go"},
		func(end string) bool { return strings.HasSuffix(name, end) })
}

// declared returns the file in which each name of a package is declared.
func declared(own map[string]*ast.File) map[string]string {
	out := map[string]string{}
	for name, f := range own {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					out[d.Name.Name] = name
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						out[s.Name.Name] = name
					case *ast.ValueSpec:
						for _, id := range s.Names {
							out[id.Name] = name
						}
					}
				}
			}
		}
	}
	return out
}

// needs returns the other files whose declarations a file uses.
func needs(name string, f *ast.File, where map[string]string) map[string]bool {
	free := map[*ast.Ident]bool{} // receivers, and the field names in composite literals
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				ast.Inspect(n.Recv, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						free[id] = true
					}
					return true
				})
			}
		case *ast.CompositeLit:
			if _, isMap := n.Type.(*ast.MapType); !isMap {
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if id, ok := kv.Key.(*ast.Ident); ok {
							free[id] = true
						}
					}
				}
			}
		}
		return true
	})
	contents := dispatch(name, f) // it names what the later files do, which doesn't make it depend on them
	out := map[string]bool{}
	for _, id := range f.Unresolved {
		if contents != nil && contents.Pos() <= id.Pos() && id.Pos() < contents.End() {
			continue
		}
		if to := where[id.Name]; to != "" && to != name && !free[id] {
			out[to] = true
		}
	}
	return out
}

// readingOrder sorts files so that each comes after those that it needs, or returns a cycle of
// files.
func readingOrder(own map[string]*ast.File) (order, circle []string) {
	where := declared(own)
	state := map[string]int{} // 1: being visited, 2: in the order
	var path []string
	var visit func(name string) bool
	visit = func(name string) bool {
		switch state[name] {
		case 1:
			circle = append(path[slices.Index(path, name):], name)
			return false
		case 2:
			return true
		}
		state[name] = 1
		path = append(path, name)
		for _, needed := range slices.Sorted(maps.Keys(needs(name, own[name], where))) {
			if !visit(needed) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[name] = 2
		order = append(order, name)
		return true
	}
	wanted := map[string]int{} // number of files that need each file; the most needed come first
	for name, f := range own {
		for needed := range needs(name, f, where) {
			wanted[needed]++
		}
	}
	first := slices.SortedFunc(maps.Keys(own), func(a, b string) int {
		return cmp.Or(wanted[b]-wanted[a], strings.Compare(a, b))
	})
	for _, name := range first {
		if !visit(name) {
			return nil, circle
		}
	}
	return order, nil
}

func TestCirclesOfFilesAreFound(t *testing.T) {
	three := sources(t, "func f() { g() }", "func g() { h() }", "func h() { f() }")
	if _, circle := readingOrder(three); len(circle) != 4 {
		t.Errorf("circle %v of three functions", circle)
	}
	two := sources(t, "type a struct { b b }", "type b struct{}; func (a) of() {}")
	if order, circle := readingOrder(two); circle != nil || !slices.Equal(order, []string{"b.go", "a.go"}) {
		t.Errorf("order %v, circle %v: a method is no need", order, circle)
	}
}

// sources parses texts as the files a.go, b.go and so on of a package.
func sources(t *testing.T, all ...string) map[string]*ast.File {
	t.Helper()
	out := map[string]*ast.File{}
	for i, src := range all {
		name := string(rune('a'+i)) + ".go"
		f, err := parser.ParseFile(positions, name, "package p\n"+src, 0)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = f
	}
	return out
}
