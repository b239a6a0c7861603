package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"github.com/skald-saga/skald/internal/strictjson"
)

// languages holds the environment of each site, created when it is first needed.
var languages = func() map[Site]func() (*cel.Env, error) {
	all := map[Site]func() (*cel.Env, error){}
	for site := range variables {
		all[site] = sync.OnceValues(func() (*cel.Env, error) { return language(site) })
	}
	return all
}()

func language(site Site) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(adapter{}),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ParserRecursionLimit(100),
		cel.OptionalTypes(),
		ext.Strings(), ext.Encoders(), ext.Math(),
	}
	for _, name := range variables[site] {
		t := cel.DynType
		switch name {
		case "secrets": // only a placeholder
			continue
		case "steps", "saga", "call":
			t = cel.MapType(cel.StringType, cel.DynType)
		case "headers":
			t = cel.MapType(cel.StringType, cel.StringType)
		case "status":
			t = cel.IntType
		case "now":
			t = cel.TimestampType
		}
		options = append(options, cel.Variable(name, t))
	}
	return cel.NewEnv(options...)
}

// program is a compiled expression.
type program struct {
	run       cel.Program
	steps     []string // the steps that it names
	variables []string
	kind      *cel.Type
}

func compile(source string, p *Place) (*program, error) {
	env, err := languages[p.Site]()
	if err != nil {
		panic("expression: build the language of a site: " + err.Error()) // built from constants; a test builds all of them
	}
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, mistake(source, p, issues)
	}
	out := &program{kind: checked.OutputType()}
	if err := out.names(checked.NativeRep(), p); err != nil {
		return nil, err
	}
	estimate, err := env.EstimateCost(checked, estimator{})
	if err != nil || estimate.Min > maxCost {
		return nil, errors.New("the expression would cost too much: shorten it, or compute the value when you create the payload")
	}
	out.run, err = env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("is not an expression: %s", firstLine(err.Error()))
	}
	return out, nil
}

// mistake describes in one sentence what is wrong with an expression that does not compile.
func mistake(source string, p *Place, issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) == 0 {
		return errors.New("is not an expression")
	}
	message := firstLine(all[0].Message)
	if name, unknown := strings.CutPrefix(message, "undeclared reference to '"); unknown {
		name, _, _ = strings.Cut(name, "'")
		switch {
		case name == "secrets":
			return errSecretPlace
		case strings.Contains(source, name+"("):
			return fmt.Errorf("there is no function %.100q", name)
		}
		if err := p.variable(name); err != nil {
			return err
		}
	}
	place := ""
	if at := all[0].Location; at != nil && at.Line() == 1 && at.Column() >= 0 && len(source) <= 200 {
		place = fmt.Sprintf(" at character %d", at.Column()+1)
	}
	return fmt.Errorf("%.200q is not an expression%s: %s", source, place, message)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// estimator estimates no sizes, because they depend on payloads.
type estimator struct{}

func (estimator) EstimateSize(cost.AstNode) *cost.SizeEstimate { return nil }

func (estimator) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// names collects the steps and variables that an expression names, and checks them.
func (g *program) names(tree *ast.AST, p *Place) error {
	var wrong error
	note := func(err error) {
		if wrong == nil {
			wrong = err
		}
	}
	named := map[int64]bool{} // uses of `steps` that name one
	step := func(of ast.Expr, name string) {
		if of.Kind() != ast.IdentKind {
			return
		}
		switch v := of.AsIdent(); v {
		case "steps":
			named[of.ID()] = true
			if !slices.Contains(g.steps, name) {
				g.steps = append(g.steps, name)
			}
			if err := p.step(name); err != nil {
				note(err)
			}
		default:
			if err := member(v, name); err != nil {
				note(err)
			}
		}
	}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			step(e.AsSelect().Operand(), e.AsSelect().FieldName())
		case ast.CallKind:
			c := e.AsCall()
			args := c.Args()
			if len(args) != 2 {
				return
			}
			of, name := args[0], args[1]
			switch c.FunctionName() {
			case operators.In:
				of, name = name, of
			case operators.Index, operators.OptIndex, operators.OptSelect:
			default:
				return
			}
			if name.Kind() == ast.LiteralKind {
				if s, isText := name.AsLiteral().(types.String); isText {
					step(of, string(s))
				}
			}
		case ast.IdentKind:
			v := e.AsIdent()
			if slices.Contains(variables[p.Site], v) && !slices.Contains(g.variables, v) {
				g.variables = append(g.variables, v)
			}
			if v == "steps" && !named[e.ID()] {
				note(errors.New("name the step: steps.NAME, or steps[\"NAME\"] if the name contains other characters"))
			}
		}
	}))
	return wrong
}

// activation provides the variables for one evaluation.
type activation struct {
	e *Evaluation
	g *program
}

// ResolveName implements interpreter.Activation.
func (a activation) ResolveName(name string) (any, bool) {
	switch name {
	case "steps":
		all := make(map[string]any, len(a.g.steps))
		for _, step := range a.g.steps {
			if v, ok := a.e.document("steps", step); ok {
				all[step] = v
			}
		}
		return all, true
	case "now":
		v, ok := a.e.document(name, "")
		s, _ := v.(string)
		at, err := time.Parse(time.RFC3339Nano, s)
		return at, ok && err == nil
	}
	if !slices.Contains(a.g.variables, name) {
		return nil, false
	}
	return a.e.document(name, "")
}

// Parent implements interpreter.Activation.
func (activation) Parent() interpreter.Activation { return nil }

// eval evaluates the expression. The error says why there is no result, and contains no values.
func (g *program) eval(e *Evaluation) (ref.Val, error) {
	v, _, err := g.run.Eval(activation{e, g})
	if err == nil {
		if opt, is := v.(*types.Optional); is {
			if !opt.HasValue() {
				return nil, errMissing
			}
			v = opt.GetValue()
		}
		return v, nil
	}
	switch text := err.Error(); {
	case strings.Contains(text, exactly):
		return nil, errors.New(exactly)
	case strings.Contains(text, "no such key"), strings.Contains(text, "no such attribute"),
		strings.Contains(text, "index out of bounds"):
		return nil, errMissing
	case strings.Contains(text, "cost limit"):
		return nil, errors.New("the expression costs too much for this payload")
	case strings.Contains(text, "no such overload"):
		return nil, errors.New("a value has the wrong type")
	case strings.Contains(text, "divi"), strings.Contains(text, "modulus"):
		return nil, errors.New("division by zero")
	case strings.Contains(text, "overflow"):
		return nil, errors.New("a number overflows")
	}
	return nil, errors.New("it cannot be computed from these values")
}

var errMissing = errors.New("a value that the expression refers to is missing")

// appendJSON appends a value as canonical JSON.
func appendJSON(b []byte, v ref.Val) ([]byte, error) {
	switch v := v.(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool, types.Null:
		return appendScalar(b, v)
	}
	native, err := plain(v, 0)
	if err != nil {
		return b, err
	}
	j, err := strictjson.Encode(native)
	if err != nil {
		return b, errors.New("the value is not JSON")
	}
	return append(b, j...), nil
}

func appendScalar(b []byte, v ref.Val) ([]byte, error) {
	switch v := v.(type) {
	case types.String:
		if !utf8.ValidString(string(v)) || strings.ContainsRune(string(v), 0) {
			return b, errors.New("the text contains characters that cannot be sent")
		}
		j, err := strictjson.Encode(string(v))
		return append(b, j...), err
	case types.Int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(b, uint64(v), 10), nil
	case types.Double:
		f := float64(v)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return b, errors.New("the value is not a finite number")
		}
		if f == 0 { // no sign before zero
			return append(b, '0'), nil
		}
		return strconv.AppendFloat(b, f, 'f', -1, 64), nil
	case types.Bool:
		return strconv.AppendBool(b, bool(v)), nil
	}
	return append(b, "null"...), nil
}

// plain returns a value as encoding/json writes it.
func plain(v ref.Val, depth int) (any, error) {
	if depth > strictjson.DefaultMaxDepth {
		return nil, errors.New("the value is nested too deeply")
	}
	switch v := v.(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool, types.Null:
		j, err := appendScalar(nil, v)
		return json.RawMessage(j), err
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case *types.Err:
		if strings.Contains(v.Error(), exactly) {
			return nil, errors.New(exactly)
		}
		return nil, errors.New("it cannot be computed from these values")
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return plain(v.GetValue(), depth)
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, isText := key.(types.String)
			if !isText {
				return nil, errors.New("a key of the object is not a string")
			}
			value, err := plain(v.Get(key), depth+1)
			if err != nil {
				return nil, err
			}
			out[string(name)] = value
		}
		return out, nil
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			value, err := plain(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	}
	return nil, errors.New("the value is not JSON; encode bytes with base64.encode")
}
