package postgres

// Alike returns the table for statements on batches in which all rows have the same values in the
// Once columns. Each Once column is sent as a single value and is not a column of Unnest. A single
// value costs the server almost nothing, whereas an array costs about a tenth of a microsecond per
// row.
func (t *Table[T]) Alike() *Table[T] {
	alike := *t
	alike.alike = true
	return &alike
}

// Alike returns the batch for statements of t, the Alike of its table; nil if rows
// differ in a Once column.
func (b *Batch[T]) Alike(t *Table[T]) *Batch[T] {
	for i := range b.columns {
		if t.single(&t.written[i]) && !b.columns[i].uniform() {
			return nil
		}
	}
	return &Batch[T]{table: t, columns: b.columns}
}
