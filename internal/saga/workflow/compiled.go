package workflow

import (
	"errors"
	"sync"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson/schema"
)

// Plan holds the compiled expressions of a definition. They are compiled when the first of them is
// needed. Definitions without expressions have no plan.
type Plan struct {
	once   sync.Once
	steps  []stepPlan
	output *expression.Template

	payload *schema.Schema
}

// Equal serves comparisons of definitions: a plan contains nothing that the definitions do not.
func (*Plan) Equal(*Plan) bool { return true }

type stepPlan struct {
	action, undo callPlan
	when         *expression.Predicate
}

// callPlan holds the compiled expressions of one call.
type callPlan struct {
	target  *expression.Target
	headers []headerPlan
	body    *expression.Template
	form    *expression.Form
	args    *expression.Template
	rules   *Rules
	reads   []string // the steps whose outputs the expressions name
}

type headerPlan struct {
	name string
	text *expression.Text
}

// computed reports whether the request differs from the one that is sent without expressions.
func (p *callPlan) computed() bool { return p.target != nil || p.args != nil }

// pointed puts the member of the request in front of the pointer of a failure.
func pointed(err error, member string) error {
	var f *expression.Failure
	if errors.As(err, &f) {
		f.Pointer = member + f.Pointer
	}
	return err
}
