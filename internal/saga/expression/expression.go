// Package expression defines `${…}`: which expressions are allowed at which place of a workflow,
// and how they are evaluated.
//
// The value of a path such as `${payload.a.b}` is copied as it is written in the source, so every
// digit of a number survives. Everything else is CEL, compiled and type-checked when the workflow
// is registered, with a limit on its cost. The package is pure: it uses no I/O and no clock. A
// secret is a placeholder that only the client of participants replaces.
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

// Site is the kind of place at which an expression is used. It determines what the expression can
// name.
type Site int

// The sites.
const (
	Action    Site = iota + 1 // the request of an action, or the arguments of its job
	Undo                      // the request of a compensation, or the arguments of its job
	Condition                 // `when` of a step
	Answer                    // the answer of a participant
	Result                    // the result of a completed saga
	Standing                  // a header that is sent with every call to a participant
)

// variables lists what expressions can name at each site, in the order in which they are shown to
// people.
var variables = map[Site][]string{
	Action:    {"payload", "steps", "saga", "call", "secrets"},
	Undo:      {"input", "output", "payload", "steps", "saga", "call", "secrets"},
	Condition: {"payload", "steps", "saga", "now"},
	Answer:    {"status", "headers", "body"},
	Result:    {"payload", "steps", "saga"},
	Standing:  {"secrets"},
}

// members lists the members of variables that always have the same ones.
var members = map[string][]string{
	"saga": {"id", "business_key", "correlation_id", "tenant", "created_at"},
	"call": {"key", "attempt"},
}

// Place is the place at which an expression is used in one workflow.
type Place struct {
	Site Site
	// Known reports whether the workflow has a step; nil means that no steps can be named.
	Known func(step string) bool
	// Usable returns an error if a step must not be named here.
	Usable func(step string) error
	// Secret returns an error if a secret must not be used here. A nil function means that no
	// secrets may be used.
	Secret func(name string) error
	// Lenient accepts every reference that was accepted before expressions existed, with the same
	// meaning. A string that does not start with an expression is text.
	Lenient bool
}

// The limits of one text, so that a small definition cannot be expensive.
const (
	maxSource = 4096    // bytes of one expression
	maxCost   = 100_000 // steps of one evaluation, as counted by CEL
	// MaxSize limits the size of a template's result, in bytes.
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

var errSecretPlace = errors.New("a secret may be used only in a header or in the body of a request, as ${secrets.NAME}, " +
	"alone or inside a string: not in a computation, path or query")

var errStanding = errors.New("only ${secrets.NAME} is allowed here, because these headers are the same for every " +
	"call: put values that depend on the saga into the headers of the step")

// Failure is the error of an expression that gave no value. Its text quotes the expression but no
// values.
type Failure struct {
	Pointer string // the place within the call; "" for a text
	Source  string // the expression; "" means all of it
	Why     string
	Missing bool // a path refers to no value
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
