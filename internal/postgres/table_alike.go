package postgres

// Alike is the table in statements for batches whose rows are all the same in the
// columns that are Once: each of these travels as a single value, and is no column of
// Unnest there. Such a value costs the server next to nothing, an array of them about
// a tenth of a microsecond a row.
func (t *Table[T]) Alike() *Table[T] {
	alike := *t
	alike.alike = true
	return &alike
}

func (t *Table[T]) single(c *Column[T]) bool { return t.alike && c.once }

// Alike returns the batch for statements of t, which is Alike of its table; nil if
// rows differ in a column that is Once.
func (b *Batch[T]) Alike(t *Table[T]) *Batch[T] {
	for i := range b.columns {
		if t.single(&t.written[i]) && !b.columns[i].uniform() {
			return nil
		}
	}
	return &Batch[T]{table: t, columns: b.columns}
}
