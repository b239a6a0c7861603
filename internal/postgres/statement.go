package postgres

import (
	"fmt"
	"regexp"
	"strings"
)

// Params are some of a statement's parameters: either the columns of a table, which are arrays and
// to which the statement refers as @alias.column, or single values, to which it refers as @name.
type Params struct {
	alias  string
	of     any          // the table; nil for single values
	params []wireColumn // without a type: a single value
}

// Single returns parameters that are single values. The server infers their types from the statement.
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

// wireColumn is a column whose values a batch sends as one array: the column's name and the type of
// the elements.
type wireColumn [2]string

// Unnest returns a FROM item with the alias as. It contains the rows of the tables' batches side by
// side: first row with first row, and so on.
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

// UnnestNumbered is Unnest with each row's position in the batch as column n, from 1.
func UnnestNumbered(as string, tables ...Params) string {
	return strings.TrimSuffix(strings.Replace(Unnest(as, tables...), ") AS ", ") WITH ORDINALITY AS ", 1), ")") + ", n)"
}

// Statement is an SQL statement that was written with named parameters. Statements are created
// once, when the program starts.
type Statement struct {
	Text   string // as it is sent to the server
	params []Params
}

var parameterName = regexp.MustCompile(`@[a-z_]+(\.[a-z_]+)?`)

// Named replaces the named parameters of a statement with numbered ones, in the order of params. It
// panics if the statement uses a name that is not in params, or if a name in params is not used.
func Named(text string, params ...Params) *Statement {
	numbers, used := map[string]int{}, map[string]bool{}
	for _, p := range params {
		for i := range p.params {
			name := p.name(i)
			if numbers[name] != 0 {
				panic("statement has two parameters named " + name)
			}
			numbers[name] = len(numbers) + 1
		}
	}
	text = parameterName.ReplaceAllStringFunc(text, func(name string) string {
		n := numbers[name]
		if n == 0 {
			panic("statement uses " + name + ", which is not one of its parameters: " + text)
		}
		used[name] = true
		return fmt.Sprint("$", n)
	})
	for name := range numbers {
		if !used[name] {
			panic("statement does not use its parameter " + name + ": " + text)
		}
	}
	return &Statement{text, params}
}

// Bound is the values of Params: a Batch of their table, or Values.
type Bound interface {
	of() any
	len() int
	appendTo(args []any) []any
}

// Values are the values for the parameters of Single, in the same order.
type Values []any

func (v Values) of() any                   { return nil }
func (v Values) len() int                  { return len(v) }
func (v Values) appendTo(args []any) []any { return append(args, v...) }

// Args returns the statement's arguments; values are in the order of its params. It
// panics if their number or their tables differ.
func (s *Statement) Args(values ...Bound) []any {
	n := 0
	for i, v := range values {
		if i >= len(s.params) || v.of() != s.params[i].of || v.len() != len(s.params[i].params) {
			panic("these arguments do not belong to the statement: " + s.Text)
		}
		n += v.len()
	}
	if len(values) != len(s.params) {
		panic("too few arguments for: " + s.Text)
	}
	args := make([]any, 0, n)
	for _, v := range values {
		args = v.appendTo(args)
	}
	return args
}
