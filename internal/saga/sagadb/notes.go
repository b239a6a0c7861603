package sagadb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

const (
	notesOf = `SELECT n.saga_id, n.version, n.assignee, n.note
	  FROM saga.saga_notes n
	 WHERE n.tenant_id = $1 AND n.saga_id = ANY ($2::uuid[])`

	firstNote = `
INSERT INTO saga.saga_notes (tenant_id, saga_id, version, assignee, note, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $7, $6) ON CONFLICT DO NOTHING`
	nextNote = `
UPDATE saga.saga_notes SET version = $3, assignee = $4, note = $5, updated_at = $6
 WHERE tenant_id = $1 AND saga_id = $2 AND version = $3 - 1`

	// eraseNotes erases the text of notes but keeps the assignees.
	eraseNotes = `
UPDATE saga.saga_notes SET note = '', version = version + 1, updated_at = now()
 WHERE tenant_id = $1 AND saga_id = ANY ($2::uuid[]) AND note <> ''`
)

// Notes implements saga.Notes.
func (st *Sagas) Notes(ctx context.Context, tenant uuid.UUID, sagas ...uuid.UUID) (map[uuid.UUID]saga.Note, error) {
	if len(sagas) == 0 {
		return nil, nil
	}
	found := map[uuid.UUID]saga.Note{}
	err := st.db.ListTenant(ctx, tenant, notesOf, func(rows *sql.Rows) error {
		var id uuid.UUID
		var n saga.Note
		err := rows.Scan(&id, &n.Version, &n.Assignee, &n.Text)
		found[id] = n
		return err
	}, tenant, pq.Array(sagas))
	if err != nil {
		return nil, fmt.Errorf("read the notes of sagas: %w", err)
	}
	return found, nil
}

// PutNote implements saga.Notes.
func (st *Sagas) PutNote(ctx context.Context, n saga.Noted) error {
	put, err := postgres.RetryCollision(func() (bool, error) { return st.putNote(ctx, &n) })
	switch {
	case err != nil:
		return postgres.Wrap("write the note of a saga", err)
	case !put:
		return fault.New(fault.Conflict, saga.CodeStale, "the note of saga %s has changed since it was read", n.Saga.ID)
	}
	return nil
}

func (st *Sagas) putNote(ctx context.Context, n *saga.Noted) (put bool, err error) {
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		text, args := nextNote, []any{n.Saga.Tenant, n.Saga.ID, n.Note.Version, n.Note.Assignee, n.Note.Text, n.At}
		if n.Note.Version == 1 {
			text, args = firstNote, append(args, n.Of)
		}
		done, err := tx.ExecContext(ctx, text, args...)
		if err != nil {
			return err
		}
		rows, err := done.RowsAffected()
		if put = rows == 1; err != nil || !put {
			return err
		}
		event := newEventBatch(1)
		if err := addEvent(st.db, event, &n.Event); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, insertBatch.Text, insertBatch.Args(event)...)
		return err
	})
	return put && err == nil, err
}
