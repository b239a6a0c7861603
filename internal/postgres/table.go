package postgres

import (
	"database/sql"
	"slices"
	"strings"
	"time"
)

// Table describes one row type, with one line per column, in the order of all column lists. The
// column lists in statements, the parameters of a batch and the scanning of a row are all derived
// from these lines.
type Table[T any] struct {
	columns []Column[T]
	written []Column[T] // the columns that are sent to the database
	read    []Column[T] // the columns that are read back
	alike   bool        // Once columns are sent as a single value
}

// Column is one line of a table. Its constructor determines its Go type, the meaning of NULL and
// the location of its value in a row. A column is sent, stored and read unless a method changes
// that.
type Column[T any] struct {
	name    string
	travels string // element type of the array in which a batch sends it
	cast    string // cast to the type in which the value is stored
	from    string // expression that is stored instead of the value, if not ""
	shown   string // expression that is read instead of the column, if not ""
	write   func(*BinaryColumn, *T)
	dest    func(*T) any
	value   func(*T) any // the value as a single parameter; nil: the value that dest points to

	null, readOnly, unread, unwritten, unstored, once bool
}

// Cast stores the value in a type other than the one in which it is sent, such as "::jsonb".
func (c Column[T]) Cast(to string) Column[T] { c.cast = to; return c }

// From stores the result of an expression; the value is not sent.
func (c Column[T]) From(expression string) Column[T] {
	c.from, c.unwritten = expression, true
	return c
}

// StoredFrom stores the result of an expression that may use the value.
func (c Column[T]) StoredFrom(expression string) Column[T] { c.from = expression; return c }

// ReadFrom reads the result of an expression instead of the column.
func (c Column[T]) ReadFrom(expression string) Column[T] { c.shown = expression; return c }

// Into reads the column into another destination of rows.Scan.
func (c Column[T]) Into(dest func(*T) any) Column[T] {
	if c.value == nil {
		c.value = c.dest
	}
	c.dest = dest
	return c
}

// ReadOnly marks a column that inserts omit, so that it gets its default.
func (c Column[T]) ReadOnly() Column[T] {
	c.readOnly, c.unwritten, c.unstored = true, true, true
	return c
}

// WriteOnly marks a column that is not read back, because other columns are derived from it or no
// reader needs it.
func (c Column[T]) WriteOnly() Column[T] { c.unread = true; return c }

// InputOnly marks a column that is passed to the statement but neither stored nor read.
func (c Column[T]) InputOnly() Column[T] { c.unread, c.unstored = true, true; return c }

// Once marks a column that often has the same value in all rows of a batch. See Alike.
func (c Column[T]) Once() Column[T] { c.once = true; return c }

// NewTable returns a table of these columns; it panics if two have the same name.
func NewTable[T any](columns ...Column[T]) *Table[T] {
	t := &Table[T]{columns: columns}
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.name] {
			panic("column " + c.name + " occurs twice in its table")
		}
		seen[c.name] = true
		if !c.unwritten {
			t.written = append(t.written, c)
		}
		if !c.unread {
			t.read = append(t.read, c)
		}
	}
	return t
}

// Only returns a table with only these columns, for a statement that changes a part of a row or a
// list that shows a part of it. ReadOnly columns are sent as well.
func (t *Table[T]) Only(names ...string) *Table[T] {
	only := t.part(names, func(c Column[T]) bool { return !slices.Contains(names, c.name) })
	for i := range only.columns {
		if c := &only.columns[i]; c.readOnly {
			c.unwritten, c.unstored = false, false
		}
	}
	return NewTable(only.columns...)
}

// Without returns a table with all columns except these.
func (t *Table[T]) Without(names ...string) *Table[T] {
	return t.part(names, func(c Column[T]) bool { return slices.Contains(names, c.name) })
}

func (t *Table[T]) part(names []string, leaves func(Column[T]) bool) *Table[T] {
	for _, name := range names {
		if !slices.ContainsFunc(t.columns, func(c Column[T]) bool { return c.name == name }) {
			panic("no column " + name + " in the table of which this one is a part")
		}
	}
	return NewTable(slices.DeleteFunc(slices.Clone(t.columns), leaves)...)
}

// Selected returns the select list for Scan, with columns qualified by of, a table or alias.
func (t *Table[T]) Selected(of string) string {
	list := make([]string, len(t.read))
	for i, c := range t.read {
		if list[i] = of + "." + c.name; c.shown != "" {
			list[i] = c.shown + " AS " + c.name
		}
	}
	return strings.Join(list, ", ")
}

// Nullable returns, for each column that Scan reads, whether it may be NULL. It is used to check
// tables against the database's schema.
func (t *Table[T]) Nullable() map[string]bool {
	null := make(map[string]bool, len(t.read))
	for _, c := range t.read {
		null[c.name] = c.null
	}
	return null
}

// Inserted returns the column list of an INSERT.
func (t *Table[T]) Inserted() string {
	return t.inserted(func(c *Column[T]) string { return c.name })
}

// Stored returns the expressions for the columns of Inserted, taken from the relation of. It may be
// "" if no other relation of the statement has columns with these names.
func (t *Table[T]) Stored(of string) string {
	if of != "" {
		of += "."
	}
	return t.inserted(func(c *Column[T]) string { return t.stored(of, c) })
}

// stored returns the expression that is stored in a column, with the relation's columns qualified by of.
func (t *Table[T]) stored(of string, c *Column[T]) string {
	switch {
	case c.from != "":
		return c.from
	case t.single(c): // a subquery, so that it is also cast only once
		return "(SELECT @" + of + c.name + "::" + c.travels + c.cast + ")"
	default:
		return of + c.name + c.cast
	}
}

// Values returns the VALUES list for the columns of Inserted, from the Row with the alias as.
func (t *Table[T]) Values(as string) string {
	return t.inserted(func(c *Column[T]) string {
		if c.from != "" {
			return c.from
		}
		return "@" + as + "." + c.name + c.cast
	})
}

// Set returns the assignments of an UPDATE from the Row with the alias as: all columns
// that are sent, except keys, by which the statement finds the row.
func (t *Table[T]) Set(as string, keys ...string) string {
	return t.assigned(keys, func(c *Column[T]) string { return "@" + as + "." + c.name + c.cast })
}

// SetFrom returns the assignments of an UPDATE from the rows of a batch, which is the relation of.
// Like Set, it omits keys, and also the columns that are not stored.
func (t *Table[T]) SetFrom(of string, keys ...string) string {
	return t.assigned(keys, func(c *Column[T]) string {
		if c.unstored {
			return ""
		}
		return t.stored(of+".", c)
	})
}

func (t *Table[T]) assigned(keys []string, value func(*Column[T]) string) string {
	var list []string
	for i := range t.written {
		c := &t.written[i]
		if slices.Contains(keys, c.name) {
			continue
		}
		if v := value(c); v != "" {
			list = append(list, c.name+" = "+v)
		}
	}
	return strings.Join(list, ", ")
}

func (t *Table[T]) inserted(what func(*Column[T]) string) string {
	var list []string
	for i := range t.columns {
		if c := &t.columns[i]; !c.unstored {
			list = append(list, what(c))
		}
	}
	return strings.Join(list, ", ")
}

// Scan reads a row. The columns of Selected, which come first, go into r, and the remaining columns
// into more. Times are converted to UTC.
func (t *Table[T]) Scan(row Scanner, r *T, more ...any) error {
	dest := make([]any, len(t.read), len(t.read)+len(more))
	for i := range t.read {
		dest[i] = t.read[i].dest(r)
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return err
	}
	for _, d := range dest {
		switch at := d.(type) {
		case *time.Time:
			*at = at.UTC()
		case **time.Time:
			UTC(*at)
		case *scanOr[time.Time]:
			UTC(at.p)
		}
	}
	return nil
}

// One reads a row in the same way as Scan and returns it.
func (t *Table[T]) One(row Scanner, more ...any) (r T, err error) {
	err = t.Scan(row, &r, more...)
	return r, err
}

// All returns the rows of a query. Its parameters are the results of the call that ran the query.
func (t *Table[T]) All(rows *sql.Rows, err error) (all []T, _ error) {
	if err != nil {
		return nil, err
	}
	err = EachRow(rows, func() error {
		r, err := t.One(rows)
		all = append(all, r)
		return err
	})
	return all, err
}

// As returns the columns that are sent as parameters of a statement, under this alias.
func (t *Table[T]) As(alias string) Params {
	list := Params{alias: alias, of: t}
	for i := range t.written {
		c := &t.written[i]
		p := wireColumn{c.name, c.travels}
		if t.single(c) {
			p[1] = ""
		}
		list.params = append(list.params, p)
	}
	return list
}

// Batch returns an empty batch with room for about this many rows.
func (t *Table[T]) Batch(rows int) *Batch[T] {
	b := &Batch[T]{table: t, columns: make([]BinaryColumn, len(t.written))}
	for i := range b.columns {
		b.columns[i].rows = rows
	}
	return b
}

// Batch collects rows of a table as a statement's parameters.
type Batch[T any] struct {
	table   *Table[T]
	columns []BinaryColumn
}

// Add appends a row.
func (b *Batch[T]) Add(r *T) {
	for i := range b.table.written {
		b.table.written[i].write(&b.columns[i], r)
	}
}

// Len returns the number of rows that were added.
func (b *Batch[T]) Len() int { return int(b.columns[0].N) }

func (b *Batch[T]) of() any  { return b.table }
func (b *Batch[T]) len() int { return len(b.columns) }

func (b *Batch[T]) appendTo(args []any) []any {
	for i := range b.columns {
		if b.table.single(&b.table.written[i]) {
			args = append(args, b.columns[i].first())
		} else {
			args = append(args, b.columns[i].Parameter())
		}
	}
	return args
}

// Row returns one row as a statement's parameters, each of them a single value. A Row can be sent
// on any connection; a Batch needs one of the writers' connections.
func (t *Table[T]) Row(r *T) Bound { return row[T]{t, r} }

type row[T any] struct {
	table *Table[T]
	r     *T
}

func (r row[T]) of() any  { return r.table }
func (r row[T]) len() int { return len(r.table.written) }

func (r row[T]) appendTo(args []any) []any {
	for i := range r.table.written {
		c := &r.table.written[i]
		if c.value != nil {
			args = append(args, c.value(r.r))
		} else {
			args = append(args, c.dest(r.r))
		}
	}
	return args
}

type scanOr[V any] struct {
	p       *V
	nothing V
}

func (t *Table[T]) single(c *Column[T]) bool { return t.alike && c.once }
