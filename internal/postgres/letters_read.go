package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// getLetter reads a letter of a tenant, live or archived, with when and why it
// was archived. A restored letter is live: it is looked for there first.
var getLetter = ofTenant(`
SELECT `+letterColumns+`, NULL::timestamptz AS archived_at, NULL::text AS archive_reason
  FROM dlq.dlq_messages m WHERE m.tenant_id = tenant.id AND m.id = $2
UNION ALL
SELECT `+letterColumns+`, m.archived_at, m.archive_reason
  FROM dlq.dlq_messages_archive m WHERE m.tenant_id = tenant.id AND m.id = $2`, "")

// scanAnyLetter reads letterColumns, archived_at, archive_reason, and more.
func scanAnyLetter(db *DB, row scanner, more ...any) (dlq.Letter, error) {
	var at *time.Time
	var reason sql.NullString
	l, err := scanLetter(db, row, append([]any{&at, &reason}, more...)...)
	utc(at)
	l.ArchivedAt, l.ArchiveReason = at, reason.String
	return l, err
}

// Get implements dlq.Letters.
func (st *Letters) Get(ctx context.Context, tenant, id uuid.UUID) (dlq.Letter, error) {
	var l dlq.Letter
	found := false
	err := st.db.readTenant(ctx, tenant, getLetter, func(rows *sql.Rows) (err error) {
		if found {
			return nil
		}
		l, err = scanAnyLetter(st.db, rows)
		found = true
		return err
	}, id)
	switch {
	case err != nil:
		return dlq.Letter{}, fmt.Errorf("get dead letter: %w", err)
	case !found:
		return dlq.Letter{}, dlq.NotFound(id)
	}
	one := []dlq.Letter{l}
	err = st.lastErrors(ctx, tenant, one)
	return one[0], outage("read the last retry of a dead letter", err)
}
