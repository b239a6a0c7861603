package postgres

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/saga"
)

// updateTold is update for a batch with a change that tells of a dead letter: a
// transaction of some more statements, because hardly any batch has one. Letters
// are locked before sagas, everywhere.
func (st *Sagas) updateTold(ctx context.Context, batch []saga.Change) (map[uuid.UUID]bool, error) {
	tx, err := st.db.write.BeginTxx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	var all []news
	for i := range batch {
		if c := &batch[i]; c.Letter != nil {
			all = append(all, st.newsOf(c))
		}
	}
	found, err := st.db.lockTold(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	for i := range batch {
		c := &batch[i]
		if c.Letter == nil || c.Letter.Told != dlq.GaveUp {
			continue
		}
		if before, known := found[c.Letter.ID]; !known || !before.TakesUp(c.Letter) {
			c.After.Interventions.DeadLetter = c.Letter.Letter.ID
		}
	}
	query, args, err := st.db.changeColumns(batch)
	if err != nil {
		return nil, err
	}
	stmt, err := st.db.prepared(ctx, st.db.write, query)
	if err != nil {
		return nil, err
	}
	rows, err := tx.StmtxContext(ctx, stmt).QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	moved, err := movedSagas(rows, len(batch))
	if err != nil {
		return nil, err
	}
	told := all[:0]
	for i := range batch {
		if c := &batch[i]; c.Letter != nil && moved[c.After.ID] {
			told = append(told, st.newsOf(c))
		}
	}
	if err := st.db.tellLetters(ctx, tx, told, found); err != nil {
		return nil, err
	}
	return moved, tx.Commit()
}

// newsOf is what a change tells. While content is sealed, nothing that a
// participant may have said goes into the letter's error.
func (st *Sagas) newsOf(c *saga.Change) news {
	n := news{c.Letter, c.After.Tenant.ID, dlq.Moment{Now: c.After.UpdatedAt}}
	if n.Told == dlq.GaveUp && st.db.keys.Seals() {
		plain := *c.Letter
		l := &plain.Letter
		l.Failure = saga.Plain(l)
		l.Fingerprint = dlq.Fingerprint(l.OriginalTopic, l.ConsumerGroup, l.Failure)
		n.News = &plain
	}
	return n
}

func movedSagas(rows *sql.Rows, most int) (map[uuid.UUID]bool, error) {
	moved := make(map[uuid.UUID]bool, most)
	return moved, eachRow(rows, func() error {
		var id uuid.UUID
		err := rows.Scan(&id)
		moved[id] = true
		return err
	})
}
