package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson"
	"github.com/skald-saga/skald/internal/strictjson/schema"
)

// planner compiles a definition. If fail is set, it also checks the position of each expression.
type planner struct {
	d        *Definition
	fail     func(at string, err error)
	at       func(step int) string             // the step's pointer
	secret   func(by *Call, name string) error // whether a call may use a secret; nil allows any
	computes bool
	language bool // otherwise `${` is interpreted as it was before expressions were introduced
}

func (d *Definition) compiled() *Plan {
	if d.Plan == nil {
		return nil
	}
	d.Plan.once.Do(func() {
		c := planner{
			d: d, language: d.Expressions != "", fail: func(string, error) {}, at: func(int) string { return "" },
		}
		d.Plan.steps, d.Plan.output = c.plan()
		d.Plan.payload = c.schema(d.PayloadSchema, "/payload_schema")
	})
	return d.Plan
}

func (d *Definition) callPlan(i int, undo bool) *callPlan {
	p := d.compiled()
	switch {
	case p == nil || i >= len(p.steps):
		return nil
	case undo:
		return &p.steps[i].undo
	}
	return &p.steps[i].action
}

// Computed reports whether a request of step i has expressions.
func (d *Definition) Computed(i int, undo bool) bool {
	p := d.callPlan(i, undo)
	return p != nil && p.computed()
}

// Conditional reports whether step i has a condition.
func (d *Definition) Conditional(i int) bool {
	return d.Plan != nil && i < len(d.Steps) && d.Steps[i].When != ""
}

// When evaluates the condition of step i. The error is an *expression.Failure.
func (d *Definition) When(i int, e *expression.Evaluation) (bool, error) {
	p := d.compiled()
	if p == nil || p.steps[i].when == nil {
		return true, nil
	}
	is, err := p.steps[i].when.True(e)
	return is, pointed(err, "when")
}

// Rules returns the rules for the answers to a call of step i, or nil if there are none.
func (d *Definition) Rules(i int, undo bool) *Rules {
	if p := d.callPlan(i, undo); p != nil {
		return p.rules
	}
	return nil
}

// Outcome fills in the output declaration. ok is false if the declaration has no expressions but
// references, which Result fills in. An expression without a value becomes null and counts as
// missing.
func (d *Definition) Outcome(e *expression.Evaluation) (result json.RawMessage, missing []string, ok bool) {
	p := d.compiled()
	if p == nil || p.output == nil {
		return nil, nil, false
	}
	e.Nulls, e.Complete = true, true
	result, err := p.output.Append(nil, e)
	if err != nil { // cannot happen, because failed expressions become null
		return nil, nil, false
	}
	return result, e.Missing, true
}

func (c *planner) plan() ([]stepPlan, *expression.Template) {
	steps := make([]stepPlan, len(c.d.Steps))
	for i := range c.d.Steps {
		s, at := &c.d.Steps[i], c.at(i)
		steps[i] = stepPlan{
			action: c.call(&s.Action, i, expression.Action, at+"/action"),
			undo:   c.call(&s.Compensation.Call, i, expression.Undo, at+"/compensation"),
		}
		if s.When != "" {
			c.computes = true
			when, err := expression.NewPredicate(s.When, c.place(i, expression.Condition))
			if err != nil {
				c.fail(at+"/when", err)
			}
			steps[i].when = when
		}
		steps[i].action.rules = c.rules(s.Answer, at+"/answer")
		steps[i].undo.rules = c.rules(s.Compensation.Answer, at+"/compensation/answer")
		if of := c.schema(s.OutputSchema, at+"/output_schema"); of != nil {
			if steps[i].action.rules == nil {
				steps[i].action.rules = &Rules{}
			}
			steps[i].action.rules.schema = of
		}
	}
	if c.d.Output == nil || !c.language {
		return steps, nil
	}
	place := c.place(-1, expression.Result)
	place.Lenient = true
	return steps, c.template(c.d.Output, "/output", place)
}

// place says what an expression of step i can name. A compensation can name every step; the outputs
// of steps that were not done are missing.
func (c *planner) place(i int, site expression.Site) *expression.Place {
	return &expression.Place{
		Site: site, Known: c.d.hasStep,
		Usable: func(name string) error {
			if site == expression.Undo {
				return c.d.written(i, name)
			}
			if site != expression.Action && site != expression.Condition {
				return nil
			}
			for k := range c.d.Steps {
				if c.d.Steps[k].Name == name && k >= i {
					return fmt.Errorf("step %q does not run before this one: name an earlier step, or put this one "+
						"after it with depends_on", name)
				}
			}
			return nil
		},
	}
}

func (c *planner) template(doc json.RawMessage, at string, p *expression.Place) *expression.Template {
	t := expression.NewTemplate(doc, p, func(pointer string, err error) { c.fail(at+pointer, err) })
	c.computes = c.computes || t.Computes || !p.Lenient
	return t
}

func (c *planner) call(by *Call, i int, site expression.Site, at string) (p callPlan) {
	if !c.language {
		return p
	}
	if by.Args != nil {
		place := c.place(i, site)
		place.Lenient, place.Secret = true, func(string) error { return errJobSecret }
		place.Usable = func(name string) error {
			p.reads = append(p.reads, name)
			return nil
		}
		p.args = c.template(by.Args, strings.TrimSuffix(at, "/action")+"/args", place)
		return p
	}
	if by.HTTP == nil {
		return p
	}
	h, at := by.HTTP, at+"/http"
	place := c.place(i, site)
	usable := place.Usable
	place.Usable = func(name string) error {
		p.reads = append(p.reads, name)
		return usable(name)
	}
	place.Secret = func(name string) error {
		if c.secret == nil {
			return nil
		}
		return c.secret(by, name)
	}
	to := h.URL + h.Path // one of the two is empty
	is := h.Body != nil || h.Form != nil || expression.Has(to)
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		if !expression.Has(h.Headers[name]) {
			continue
		}
		is = true
		text, err := expression.NewText(h.Headers[name], place)
		if err != nil {
			c.fail(at+"/headers/"+strictjson.Token(name), err)
			continue
		}
		p.headers = append(p.headers, headerPlan{name, text})
	}
	if !is {
		return p
	}
	c.computes = true
	switch {
	case h.Body != nil:
		p.body = c.template(h.Body, at+"/body", place)
	case h.Form != nil:
		p.form = expression.NewForm(h.Form, place, func(pointer string, err error) { c.fail(at+"/form"+pointer, err) })
	}
	place.Secret = nil
	target, err := expression.NewTarget(to, place)
	if err != nil {
		c.fail(at+"/"+h.addressMember(), err)
		return callPlan{}
	}
	p.target = target
	return p
}

func (c *planner) rules(a *Answer, at string) *Rules {
	if a == nil {
		return nil
	}
	c.computes = true
	out, place := &Rules{}, &expression.Place{Site: expression.Answer}
	for _, word := range answerRules {
		source := a.rule(word)
		if source == "" {
			continue
		}
		when, err := expression.NewPredicate(source, place)
		if err != nil {
			c.fail(at+"/"+word, err)
			continue
		}
		out.rules = append(out.rules, rule{Word(word), when})
	}
	if a.Output != nil {
		out.output = c.template(a.Output, at+"/output", place)
	}
	return out
}

var errJobSecret = errors.New("the arguments of a job are stored with its run, so they cannot contain a secret: have the " +
	"worker read the secret from its source")

// schema compiles a schema. It returns nil if there is none or it is invalid.
func (c *planner) schema(doc json.RawMessage, at string) *schema.Schema {
	if doc == nil {
		return nil
	}
	of, err := schema.Parse(doc)
	if err != nil {
		c.fail(at, fmt.Errorf("is not a valid JSON Schema or refers to another document: %w", err))
		return nil
	}
	return of
}

// Unfit returns where the payload of a new saga violates the schema, with pointers that begin with
// pointer. It returns nil if the payload is valid.
func (d *Definition) Unfit(pointer string, payload json.RawMessage) fault.Mistakes {
	p := d.compiled()
	if p == nil || p.payload == nil {
		return nil
	}
	if payload == nil {
		payload = json.RawMessage("null")
	}
	return p.payload.Mistakes(pointer, payload)
}

// expressions compiles all expressions in a definition to find mistakes. Their pointers refer to
// the steps as they were written.
func (r *reader) expressions(d *Definition) {
	c := planner{
		d: d, language: true, at: func(i int) string { return fmt.Sprintf("/steps/%d", d.Position(i)) },
		fail: func(at string, err error) {
			code := CodeExpression
			if strings.HasPrefix(at, "/output") || strings.HasSuffix(at, "_schema") || strings.Contains(at+"/", "/args/") {
				code = CodeInvalid // the code that such mistakes had before expressions were introduced
			}
			r.fail(at, code, "%s", err)
		},
	}
	c.plan()
	c.schema(d.PayloadSchema, "/payload_schema")
	if c.computes {
		d.Expressions = ExpressionsCEL
	}
	d.Plan = d.newPlan()
}
