// Package expression is the rulebook of `${…}`: what may stand in it at which place of a
// workflow, and what it gives.
//
// A path such as `${payload.a.b}` is copied as it is written in the source, so every digit
// of a number survives. Everything else is CEL, compiled and type-checked when the workflow is
// registered, with a limit on its cost. Pure: no I/O, no clock; a secret is a placeholder that
// only the client of participants replaces.
//
// Files, each on top of those before it: expression, scan, path, evaluation, number, cel, source,
// template, text, form, condition.
package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Site is where an expression stands, which decides what it can name.
type Site int

// Sites.
const (
	Action    Site = iota + 1 // the request of an action, or the arguments of its job
	Undo                      // the request of a compensation, or the arguments of its job
	Condition                 // `when` of a step
	Answer                    // the answer of a participant
	Result                    // the result of a completed saga
	Standing                  // a header that every call to a participant has
)

// variables are what expressions can name at each site, in the order in which people read them.
var variables = map[Site][]string{
	Action:    {"payload", "steps", "saga", "call", "secrets"},
	Undo:      {"input", "output", "payload", "steps", "saga", "call", "secrets"},
	Condition: {"payload", "steps", "saga", "now"},
	Answer:    {"status", "headers", "body"},
	Result:    {"payload", "steps", "saga"},
	Standing:  {"secrets"},
}

// members are those of variables that always have the same ones.
var members = map[string][]string{
	"saga": {"id", "business_key", "correlation_id", "tenant", "created_at"},
	"call": {"key", "attempt"},
}

// Place is where an expression stands in one workflow.
type Place struct {
	Site Site
	// Known reports whether the workflow has a step; nil: no steps can be named.
	Known func(step string) bool
	// Usable says what is wrong with naming a step here; nil: nothing.
	Usable func(step string) error
	// Secret says what is wrong with using a secret here. nil: none may be used here.
	Secret func(name string) error
	// Lenient: every reference is accepted that was before there were expressions, with the
	// same meaning, and a string that does not begin with an expression is text.
	Lenient bool
}

// Limits of one text, so that a small definition cannot cost much.
const (
	maxSource = 4096    // bytes of one expression
	maxCost   = 100_000 // steps of one evaluation, as CEL counts them
	// MaxSize limits what one template may become, in bytes.
	MaxSize = 16 << 20
)

func (p *Place) variable(name string) error {
	known := variables[p.Site]
	switch {
	case p.Site == Standing && name != "secrets":
		return errStanding
	case name == "secrets" && p.Secret == nil:
		return errSecretPlace
	case slices.Contains(known, name):
		return nil
	}
	return fmt.Errorf("there is no variable %.100q here; the variables available here are %s", name, strings.Join(known, ", "))
}

func (p *Place) step(name string) error {
	if p.Known == nil || !p.Known(name) {
		return fmt.Errorf("%.100q is not a step of the workflow", name)
	}
	if p.Usable == nil {
		return nil
	}
	return p.Usable(name)
}

func member(variable, name string) error {
	known := members[variable]
	if known == nil || slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("%s has no member %.100q; its members are %s", variable, name, strings.Join(known, ", "))
}

var errSecretPlace = errors.New("a secret may be used in a header or in a body of a request, alone or inside a " +
	"string, as ${secrets.NAME}: not in a computation, nor in a path or query")

var errStanding = errors.New("only a secret can stand here, as ${secrets.NAME}: these headers are the same for every " +
	"call. Write what depends on the saga into the headers of the step")

// Failure is an expression that gave nothing for the values it met. Its text quotes the
// expression and no value.
type Failure struct {
	Pointer string // where in the call; "" for a text
	Source  string // the expression; "": the whole of it
	Why     string
	Missing bool // a path leads to nothing
}

func (f *Failure) Error() string {
	at := ""
	if f.Pointer != "" {
		at = f.Pointer + ": "
	}
	if f.Source == "" {
		return at + f.Why
	}
	return fmt.Sprintf("%s${%s}: %s", at, f.Source, f.Why)
}
