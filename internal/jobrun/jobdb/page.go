package jobdb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// NewestFirst is a list in the order of a time and the id.
type NewestFirst struct {
	Columns string
	From    string // table and alias
	At, ID  string // its time and its id, with the alias
}

// ReadPage reads a page of a list: what w selects, after the cursor of p. more
// tells that there is another page.
func ReadPage[T any](ctx context.Context, tx *sqlx.Tx, l NewestFirst, w *postgres.Where, p jobrun.Paging,
	scan func(postgres.Scanner) (T, error)) (list []T, more bool, err error) {
	if p.After != nil {
		w.Add(fmt.Sprintf("(%s, %s) < (?, ?)", l.At, l.ID), p.After.At, p.After.ID)
	}
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(`SELECT %s FROM %s WHERE %s ORDER BY %s DESC, %s DESC LIMIT $%d OFFSET $%d`,
		l.Columns, l.From, w.Text(), l.At, l.ID, len(w.Args)+1, len(w.Args)+2), append(w.Args, p.Limit+1, p.Offset)...)
	if err != nil {
		return nil, false, err
	}
	err = postgres.EachRow(rows, func() error {
		v, err := scan(rows)
		list = append(list, v)
		return err
	})
	if len(list) > p.Limit {
		list, more = list[:p.Limit], true
	}
	return list, more, err
}
