package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// room is an entry for a package below internal/ in the tree of docs/architecture.md.
type room struct {
	pkg     string // internal/…
	section string // section of the tree
	kind    string // the word before the colon; "" if the folder is not a package
}

// subject returns the folder under internal/ that contains the package.
func (r *room) subject() string { return strings.Split(r.pkg, "/")[1] }

// outside maps the packages that are not below internal/ to their kinds.
var outside = map[string]string{
	"api": "kit", "api/client": "kit", "api/webhooks": "kit", "api/worker": "kit", "api/participant": "kit",
	"db": "kit", "docs": "kit", "sdk": "kit", "sdk/conformance": "rules",
	"cmd": "assembly", "examples": "assembly", "scripts": "assembly",
}

// mayImport lists the kinds that each kind of package may import. Edges and loops meet only in
// assemblies, which are also the only packages that know stores.
var mayImport = map[string][]string{
	"rules":    {"rules"},
	"kit":      {"rules", "kit"},
	"store":    {"rules", "kit", "store"},
	"loop":     {"rules", "kit", "loop"},
	"edge":     {"rules", "kit", "edge"},
	"assembly": {"rules", "kit", "store", "loop", "edge", "assembly"},
	"tests":    {"rules", "kit", "store", "loop", "edge", "assembly", "tests"},
}

var treeLine = regexp.MustCompile(`^( +)([a-z0-9]+)/ +(?:([a-z]+): )?\S`)

// rooms reads the tree, which is the only place that defines a package's kind.
func rooms(t *testing.T) map[string]*room {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(string(doc), "\ninternal/  ")
	tree, _, found := strings.Cut(below, "\n```")
	if !found {
		t.Fatal("docs/architecture.md has no tree of internal/")
	}
	all, section, path := map[string]*room{}, "", []string{"internal"}
	for _, line := range strings.Split(tree, "\n")[1:] {
		m := treeLine.FindStringSubmatch(line)
		if m == nil {
			section = strings.TrimSpace(line)
			continue
		}
		path = append(path[:len(m[1])/2], m[2])
		r := &room{pkg: strings.Join(path, "/"), section: section, kind: m[3]}
		if r.kind != "" && mayImport[r.kind] == nil {
			t.Errorf("docs/architecture.md: %s is %q, which is not a kind", r.pkg, r.kind)
		}
		all[r.pkg] = r
	}
	if len(all) < 60 {
		t.Fatalf("only %d packages in the tree of docs/architecture.md: it is not read right", len(all))
	}
	return all
}

// kindOf returns the kind of a package of the module, or "" if the tree doesn't name the package.
func kindOf(all map[string]*room, pkg string) string {
	if r := all[pkg]; r != nil {
		return r.kind
	}
	if kind := outside[pkg]; kind != "" {
		return kind
	}
	return outside[strings.Split(pkg, "/")[0]]
}

// ofKind lists the packages of a kind.
func ofKind(t *testing.T, kind string) (pkgs []string) {
	t.Helper()
	for pkg, r := range rooms(t) {
		if r.kind == kind {
			pkgs = append(pkgs, pkg)
		}
	}
	slices.Sort(pkgs)
	return pkgs
}
