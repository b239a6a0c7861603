package expression

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Predicate is an expression that is true or false.
type Predicate struct{ x *expr }

// NewPredicate compiles an expression, with or without ${ } around it.
func NewPredicate(s string, p *Place) (*Predicate, error) {
	if pieces, err := split(s); err == nil && len(pieces) == 1 && pieces[0].isExpr {
		s = pieces[0].source
	}
	switch {
	case s == "":
		return nil, errors.New("is empty; write an expression that is true or false")
	case len(s) > maxSource:
		return nil, fmt.Errorf("has more than %d bytes", maxSource)
	}
	x, err := compileExpr(s, p)
	if err != nil {
		return nil, err
	}
	if x.computed == nil {
		return &Predicate{x}, nil
	}
	if k := x.computed.kind; !k.IsExactType(cel.BoolType) && !k.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%.200q has the type %s; it must be true or false, as in payload.total > 0", s, k)
	}
	return &Predicate{x}, nil
}

var errNotBool = errors.New("the value is neither true nor false")

// True evaluates the expression. The error is a *Failure.
func (p *Predicate) True(e *Evaluation) (bool, error) {
	if p.x.computed == nil {
		raw, ok := e.raw(&p.x.path)
		switch {
		case !ok:
			return false, p.x.failure("", errMissing)
		case string(raw) == "true":
			return true, nil
		case string(raw) == "false":
			return false, nil
		}
		return false, p.x.failure("", errNotBool)
	}
	v, err := p.x.computed.eval(e)
	if err != nil {
		return false, p.x.failure("", err)
	}
	if b, is := v.(types.Bool); is {
		return bool(b), nil
	}
	return false, p.x.failure("", errNotBool)
}
