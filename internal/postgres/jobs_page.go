package postgres

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// newestFirst is a list in the order of a time and the id.
type newestFirst struct {
	columns string
	from    string // table and alias
	at, id  string // its time and its id, with the alias
}

// readPage reads a page of a list: what w selects, after the cursor of p. more
// tells that there is another page.
func readPage[T any](ctx context.Context, tx *sqlx.Tx, l newestFirst, w *where, p jobrun.Paging, scan func(scanner) (T, error)) (list []T, more bool, err error) {
	if p.After != nil {
		w.add(fmt.Sprintf("(%s, %s) < (?, ?)", l.at, l.id), p.After.At, p.After.ID)
	}
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(`SELECT %s FROM %s WHERE %s ORDER BY %s DESC, %s DESC LIMIT $%d OFFSET $%d`,
		l.columns, l.from, w.text(), l.at, l.id, len(w.args)+1, len(w.args)+2), append(w.args, p.Limit+1, p.Offset)...)
	if err != nil {
		return nil, false, err
	}
	err = eachRow(rows, func() error {
		v, err := scan(rows)
		list = append(list, v)
		return err
	})
	if len(list) > p.Limit {
		list, more = list[:p.Limit], true
	}
	return list, more, err
}
