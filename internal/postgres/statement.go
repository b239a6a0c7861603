package postgres

import (
	"fmt"
	"regexp"
	"strings"
)

// Params are some of a statement's parameters: the columns of a table, each an
// array, which the statement calls @alias.column; or single values, which it calls
// @name.
type Params struct {
	alias  string
	of     any          // the table; nil of single values
	params []wireColumn // without a type: a single value
}

// Single are parameters that are single values. Their types follow from the statement.
func Single(names ...string) Params {
	var list Params
	for _, name := range names {
		list.params = append(list.params, wireColumn{name})
	}
	return list
}

func (p *Params) name(i int) string {
	if p.of == nil {
		return "@" + p.params[i][0]
	}
	return "@" + p.alias + "." + p.params[i][0]
}

// wireColumn is a column of which a batch's values travel as one array: its name, and
// the type of the elements.
type wireColumn [2]string

// Unnest is the batches of tables side by side, one row for each of theirs, as a
// table of this name.
func Unnest(as string, tables ...Params) string {
	var names, values []string
	for _, t := range tables {
		for i, p := range t.params {
			if p[1] == "" {
				continue
			}
			names, values = append(names, p[0]), append(values, t.name(i)+"::"+p[1]+"[]")
		}
	}
	return "unnest(" + strings.Join(values, ", ") + ") AS " + as + " (" + strings.Join(names, ", ") + ")"
}

// UnnestNumbered is Unnest with each row's place in the batch as column n, from 1 on.
func UnnestNumbered(as string, tables ...Params) string {
	return strings.TrimSuffix(strings.Replace(Unnest(as, tables...), ") AS ", ") WITH ORDINALITY AS ", 1), ")") + ", n)"
}

// Statement is an SQL statement whose parameters had names. It is made once, when
// the program starts.
type Statement struct {
	Text   string // as the server gets it
	params []Params
}

var parameterName = regexp.MustCompile(`@[a-z_]+(\.[a-z_]+)?`)

// Named gives the parameters of a statement their numbers, in the order of params.
// It panics if a name is none of them, or one of them is not used.
func Named(text string, params ...Params) *Statement {
	numbers, used := map[string]int{}, map[string]bool{}
	for _, p := range params {
		for i := range p.params {
			name := p.name(i)
			if numbers[name] != 0 {
				panic("statement with two parameters " + name)
			}
			numbers[name] = len(numbers) + 1
		}
	}
	text = parameterName.ReplaceAllStringFunc(text, func(name string) string {
		n := numbers[name]
		if n == 0 {
			panic("statement with " + name + ", which is no parameter of it: " + text)
		}
		used[name] = true
		return fmt.Sprint("$", n)
	})
	for name := range numbers {
		if !used[name] {
			panic("statement without its parameter " + name + ": " + text)
		}
	}
	return &Statement{text, params}
}

// Bound are the values of Params: a Batch of their table, or Values.
type Bound interface {
	of() any
	len() int
	appendTo(args []any) []any
}

// Values are those of Single, in its order.
type Values []any

func (v Values) of() any                   { return nil }
func (v Values) len() int                  { return len(v) }
func (v Values) appendTo(args []any) []any { return append(args, v...) }

// Args returns the statement's arguments, from values in the order of its params.
// It panics if they are of another table.
func (s *Statement) Args(values ...Bound) []any {
	n := 0
	for i, v := range values {
		if i >= len(s.params) || v.of() != s.params[i].of || v.len() != len(s.params[i].params) {
			panic("arguments of another statement than: " + s.Text)
		}
		n += v.len()
	}
	if len(values) != len(s.params) {
		panic("too few arguments of: " + s.Text)
	}
	args := make([]any, 0, n)
	for _, v := range values {
		args = v.appendTo(args)
	}
	return args
}
