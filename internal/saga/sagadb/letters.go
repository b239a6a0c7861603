package sagadb

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/saga"
)

// updateWithLetters is update for a batch with a change that concerns a dead letter or that
// creates, ends or holds a job run. It uses a transaction of several statements, because few
// batches contain such a change. Letters are always locked before sagas.
func (st *Sagas) updateWithLetters(ctx context.Context, batch []saga.Change) (moved map[saga.Ref]bool, err error) {
	var begun func()
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		moved, begun, err = st.change(ctx, tx, batch)
		return err
	})
	if err != nil {
		return nil, err
	}
	begun()
	return moved, nil
}

// change writes a batch in tx, together with the updates of its dead letters and the job runs that
// it creates, ends or holds. begun must be called after the commit.
func (st *Sagas) change(ctx context.Context, tx *sqlx.Tx,
	batch []saga.Change) (moved map[saga.Ref]bool, begun func(), err error) {
	steered, err := st.lockSteered(ctx, tx, batch)
	if err != nil {
		return nil, nil, err
	}
	given := batch
	batch = slices.Clone(batch) // some changes are replaced by another form (Change.Letter, Change.Run)
	var all []dlqdb.LetterUpdate
	for i := range batch {
		if c := &batch[i]; c.Letter != nil {
			all = append(all, st.letterUpdatesOf(c))
		}
	}
	found, err := st.tell.LockForUpdates(ctx, tx, all)
	if err != nil {
		return nil, nil, err
	}
	runs, err := st.requestedRuns(ctx, tx, batch)
	if err != nil {
		return nil, nil, err
	}
	for i := range batch {
		c := &batch[i]
		if c.Letter == nil || c.Letter.Outcome != dlq.GaveUp {
			continue
		}
		if before, known := found[c.Letter.ID]; !known || !before.ReopensOn(c.Letter) {
			batch[i] = c.WithNewLetter()
		}
	}
	query, args, err := changeColumns(st.db, batch)
	if err != nil {
		return nil, nil, err
	}
	rows, err := st.db.QueryIn(ctx, tx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	if moved, err = movedSagas(rows, given); err != nil {
		return nil, nil, err
	}
	if err := st.park(ctx, tx, batch, moved); err != nil {
		return nil, nil, err
	}
	told := all[:0]
	for i := range batch {
		if c := &batch[i]; c.Letter != nil && moved[c.After.Ref()] {
			told = append(told, st.letterUpdatesOf(c))
		}
	}
	if err := st.tell.UpdateLetters(ctx, tx, told, found); err != nil {
		return nil, nil, err
	}
	created, err := st.beginRuns(ctx, tx, batch, runs, moved)
	if err != nil {
		return nil, nil, err
	}
	ended, err := st.steer(ctx, tx, batch, steered, moved)
	return moved, func() { created(); ended() }, err
}

// letterUpdatesOf returns the update that a change makes to its dead letter. If content is sealed,
// the letter's error contains nothing that a participant may have returned.
func (st *Sagas) letterUpdatesOf(c *saga.Change) dlqdb.LetterUpdate {
	n := dlqdb.LetterUpdate{SourceUpdate: c.Letter, Tenant: c.After.Tenant.ID, At: dlq.Moment{Now: c.After.UpdatedAt}}
	if n.Outcome == dlq.GaveUp && st.db.Keys.Seals() {
		plain := *c.Letter
		l := &plain.Letter
		l.Failure = saga.Plain(l)
		l.Fingerprint = dlq.Fingerprint(l.OriginalTopic, l.ConsumerGroup, l.Failure)
		n.SourceUpdate = &plain
	}
	return n
}
