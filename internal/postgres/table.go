package postgres

import (
	"database/sql"
	"slices"
	"strings"
	"time"
)

// Table is one row type: a line for each column, in the order in which all lists
// have them. What statements list, the parameters of a batch of rows and how one is
// read all follow from these lines.
type Table[T any] struct {
	columns []Column[T]
	written []Column[T] // those that travel to the database
	read    []Column[T] // those that come back
	alike   bool        // what may travel once does
}

// Column is one line of a table. What makes one says its Go type, what becomes of
// NULL, and where in a row its value is; all of them travel, are stored and are
// read, unless a method says otherwise.
type Column[T any] struct {
	name    string
	travels string // type of the elements of the array in which a batch of them travels
	cast    string // to what it is stored as
	from    string // what is stored instead of the value, if not ""
	shown   string // what is read instead of the column, if not ""
	write   func(*BinaryColumn, *T)
	dest    func(*T) any
	value   func(*T) any // as a parameter of its own; nil: what dest points to

	null, readOnly, unread, unwritten, unstored, once bool
}

// Cast stores the value as another type than it travels in: "::jsonb".
func (c Column[T]) Cast(to string) Column[T] { c.cast = to; return c }

// From stores the result of an expression; the value does not travel.
func (c Column[T]) From(expression string) Column[T] {
	c.from, c.unwritten = expression, true
	return c
}

// StoredFrom stores the result of an expression, of which the value may be a part.
func (c Column[T]) StoredFrom(expression string) Column[T] { c.from = expression; return c }

// ReadFrom reads the result of an expression.
func (c Column[T]) ReadFrom(expression string) Column[T] { c.shown = expression; return c }

// Into reads the column in another way, as rows.Scan does it.
func (c Column[T]) Into(dest func(*T) any) Column[T] {
	if c.value == nil {
		c.value = c.dest
	}
	c.dest = dest
	return c
}

// ReadOnly marks a column that inserts leave to its default.
func (c Column[T]) ReadOnly() Column[T] {
	c.readOnly, c.unwritten, c.unstored = true, true, true
	return c
}

// WriteOnly marks a column that is not read back: others are derived from it, or no
// reader needs it.
func (c Column[T]) WriteOnly() Column[T] { c.unread = true; return c }

// InputOnly marks a column that is passed to the statement but neither stored nor read.
func (c Column[T]) InputOnly() Column[T] { c.unread, c.unstored = true, true; return c }

// Once is of a column that often has the same value in all rows of a batch: Alike.
func (c Column[T]) Once() Column[T] { c.once = true; return c }

// NewTable returns a table of these columns; it panics if two have the same name.
func NewTable[T any](columns ...Column[T]) *Table[T] {
	t := &Table[T]{columns: columns}
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.name] {
			panic("column " + c.name + " stands twice in its table")
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

// Only is the table of these columns alone: what a statement that changes a part of a
// row is told, those too that inserts leave to their default, or a list that does not
// show all of it reads.
func (t *Table[T]) Only(names ...string) *Table[T] {
	only := t.part(names, func(c Column[T]) bool { return !slices.Contains(names, c.name) })
	for i := range only.columns {
		if c := &only.columns[i]; c.readOnly {
			c.unwritten, c.unstored = false, false
		}
	}
	return NewTable(only.columns...)
}

// Without is the table of all but these columns.
func (t *Table[T]) Without(names ...string) *Table[T] {
	return t.part(names, func(c Column[T]) bool { return slices.Contains(names, c.name) })
}

func (t *Table[T]) part(names []string, leaves func(Column[T]) bool) *Table[T] {
	for _, name := range names {
		if !slices.ContainsFunc(t.columns, func(c Column[T]) bool { return c.name == name }) {
			panic("no column " + name + " in the table of which this is to be a part")
		}
	}
	return NewTable(slices.DeleteFunc(slices.Clone(t.columns), leaves)...)
}

// Selected is the select list of what Scan reads, of the table or alias of.
func (t *Table[T]) Selected(of string) string {
	list := make([]string, len(t.read))
	for i, c := range t.read {
		if list[i] = of + "." + c.name; c.shown != "" {
			list[i] = c.shown + " AS " + c.name
		}
	}
	return strings.Join(list, ", ")
}

// Nullable tells of each column that Scan reads whether NULL may be read: what the
// database says of its columns has to agree.
func (t *Table[T]) Nullable() map[string]bool {
	null := make(map[string]bool, len(t.read))
	for _, c := range t.read {
		null[c.name] = c.null
	}
	return null
}

// Inserted are the columns that a row is stored in, for an INSERT.
func (t *Table[T]) Inserted() string {
	return t.inserted(func(c *Column[T]) string { return c.name })
}

// Stored are the values of Inserted, of the rows that came as of; "": no other table
// of the statement has such columns.
func (t *Table[T]) Stored(of string) string {
	if of != "" {
		of += "."
	}
	return t.inserted(func(c *Column[T]) string {
		switch {
		case c.from != "":
			return c.from
		case t.single(c): // a subquery, so that it is cast once too
			return "(SELECT @" + of + c.name + "::" + c.travels + c.cast + ")"
		default:
			return of + c.name + c.cast
		}
	})
}

// Values are the values of Inserted for VALUES, of the Row that the statement calls as.
func (t *Table[T]) Values(as string) string {
	return t.inserted(func(c *Column[T]) string {
		if c.from != "" {
			return c.from
		}
		return "@" + as + "." + c.name + c.cast
	})
}

// Set is what an UPDATE assigns from the Row that the statement calls as: all that
// travels, but for the keys by which it finds the row.
func (t *Table[T]) Set(as string, keys ...string) string {
	var list []string
	for _, c := range t.written {
		if !slices.Contains(keys, c.name) {
			list = append(list, c.name+" = @"+as+"."+c.name+c.cast)
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

// Scan reads a row that begins with the columns of Selected into r; more receives
// what comes after them. Times are UTC then.
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

// One is a row that was read as Scan does it.
func (t *Table[T]) One(row Scanner, more ...any) (r T, err error) {
	err = t.Scan(row, &r, more...)
	return r, err
}

// All are the rows of a query, whose answer it takes as it is.
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

// As names the columns that travel, for a statement and as what it sees there.
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

// Batch gathers so many rows, or a few more or less, as a statement's parameters.
func (t *Table[T]) Batch(rows int) *Batch[T] {
	b := &Batch[T]{table: t, columns: make([]BinaryColumn, len(t.written))}
	for i := range b.columns {
		b.columns[i].rows = rows
	}
	return b
}

// Batch is rows of a table on their way to the database.
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

// Len is how many rows were added.
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

// Row is one row as a statement's parameters, each of them a single value: on any
// connection, where a Batch needs one of the writers'.
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
