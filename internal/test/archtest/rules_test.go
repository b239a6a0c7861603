package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// pure lists what a package of rules may import from the standard library and other modules. Any
// other package has side effects or shares memory. context is listed because it appears in the
// contracts of stores, where it is only passed on.
var pure = []string{
	"bytes", "cmp", "context", "crypto/sha256", "crypto/subtle", "encoding/base32", "encoding/base64", "encoding/binary",
	"encoding/hex", "encoding/json", "encoding/xml", "errors", "fmt", "hash/fnv", "io", "maps", "math", "math/bits",
	"mime", "net/netip", "net/url", "path", "reflect", "regexp", "slices", "sort", "strconv", "strings", "time", "unicode",
	"unicode/utf16", "unicode/utf8",
	"github.com/evanphx/json-patch/v5", "github.com/google/uuid",
	"github.com/santhosh-tekuri/jsonschema/v6", "go.yaml.in/yaml/v3", "golang.org/x/net/http/httpguts",
	"golang.org/x/text/language", "golang.org/x/text/message",
}

// excused lists exceptions for single packages. Time zones are data from the machine or the binary,
// and they are read only once (decision 0032). The tally of a retention round is passed in the
// round's context, and any goroutine of the round may add to it. Expressions are compiled once,
// when they are first needed, and CEL computes values from values.
var excused = map[string][]string{
	"internal/jobrun/schedule": {"sync", "time.LoadLocation"},
	"internal/audit/operator":  {"sync"},
	"internal/saga/workflow":   {"sync"},
	"internal/saga/expression": {
		"sync", "cel.dev/cel-go/cel", "cel.dev/cel-go/common/ast", "cel.dev/cel-go/common/cost",
		"cel.dev/cel-go/common/operators", "cel.dev/cel-go/common/types", "cel.dev/cel-go/common/types/ref",
		"cel.dev/cel-go/common/types/traits", "cel.dev/cel-go/ext", "cel.dev/cel-go/interpreter",
	},
}

// worldly lists the functions of pure packages that nevertheless use the clock, randomness or
// output.
var worldly = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"},
	"uuid":    {"New", "NewString", "NewRandom", "NewRandomFromReader", "NewUUID", "NewV6", "NewV7", "NewV7FromReader", "NewDCEPerson", "NewDCEGroup", "NewDCESecurity", "SetRand"},
	"fmt":     {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"context": {"Background", "TODO", "WithTimeout", "WithDeadline", "WithCancel", "AfterFunc"},
	// These read files of the machine: its list of MIME types, and schemas by their address.
	"mime":       {"TypeByExtension", "ExtensionsByType", "AddExtensionType"},
	"jsonschema": {"FileLoader", "SchemeURLLoader"},
}

func TestRulesHaveNoEffects(t *testing.T) {
	rules := ofKind(t, "rules")
	for _, f := range files(t) {
		if f.test || !slices.Contains(rules, f.pkg) {
			continue
		}
		for _, imp := range f.imports {
			if !strings.HasPrefix(imp, module) && !slices.Contains(pure, imp) && !slices.Contains(excused[f.pkg], imp) {
				t.Errorf("%s imports %s: rules take values and return values", f.path, imp)
			}
		}
		for _, effect := range effects(f.syntax) {
			if slices.Contains(excused[f.pkg], effect) {
				continue
			}
			t.Errorf("%s has %s: time, ids and chance come in as arguments", f.path, effect)
		}
	}
}

// effects lists what a file uses besides values: the functions in worldly, goroutines, channels, and
// the built-in functions that print.
func effects(file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "a goroutine")
		case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
			found = append(found, "a channel")
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(worldly[pkg.Name], n.Sel.Name) {
				found = append(found, pkg.Name+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				found = append(found, f.Name)
			}
		}
		return true
	})
	return found
}

func TestEffectsAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"a clock", "_ = time.Now()", []string{"time.Now"}},
		{"a clock passed on", "f := time.Now; _ = f", []string{"time.Now"}},
		{"chance", "_, _ = uuid.NewV7()", []string{"uuid.NewV7"}},
		{"the machine's files", "_ = mime.TypeByExtension(e); _, _, _ = mime.ParseMediaType(s)", []string{"mime.TypeByExtension"}},
		{"output", "fmt.Println(1); println(2)", []string{"fmt.Println", "println"}},
		{"goroutines", "go f(); ch <- 1; select {}", []string{"a goroutine", "a channel", "a channel"}},
		{"nothing but values", "_ = fmt.Sprint(t.Add(time.Second)); _ = uuid.UUID{}; _ = uuid.NewSHA1", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := parser.ParseFile(
				token.NewFileSet(),
				"x.go",
				"package x; func x() { "+tt.body+" }",
				parser.SkipObjectResolution,
			)
			if err != nil {
				t.Fatal(err)
			}
			if got := effects(file); !slices.Equal(got, tt.want) {
				t.Errorf("found %v; want %v", got, tt.want)
			}
		})
	}
}
