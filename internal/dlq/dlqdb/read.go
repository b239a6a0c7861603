package dlqdb

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// getLetter reads a letter of a tenant, live or archived, and when and why it was archived. Live
// letters come first, because a restored letter is live.
var getLetter = postgres.OfTenant(`
SELECT `+LetterColumns+`, NULL::timestamptz AS archived_at, NULL::text AS archive_reason
  FROM dlq.dlq_messages m WHERE m.tenant_id = tenant.id AND m.id = $2
UNION ALL
SELECT `+LetterColumns+`, m.archived_at, m.archive_reason
  FROM dlq.dlq_messages_archive m WHERE m.tenant_id = tenant.id AND m.id = $2`, "")

// scanAnyLetter reads LetterColumns, archived_at and archive_reason, and scans the columns after
// them into more.
func scanAnyLetter(db *postgres.DB, row postgres.Scanner, more ...any) (dlq.Letter, error) {
	var at *time.Time
	var reason sql.NullString
	l, err := ScanLetter(db, row, append([]any{&at, &reason}, more...)...)
	postgres.UTC(at)
	l.ArchivedAt, l.ArchiveReason = at, reason.String
	return l, err
}

// Get implements dlq.Letters.
func (st *Letters) Get(ctx context.Context, tenant, id uuid.UUID) (dlq.Letter, error) {
	var l dlq.Letter
	err := st.db.ReadOne(ctx, tenant, getLetter, dlq.NotFound(id), func(rows *sql.Rows) (err error) {
		l, err = scanAnyLetter(st.db, rows)
		return shown(err)
	}, id)
	if err != nil {
		return dlq.Letter{}, postgres.Wrap("get dead letter", err)
	}
	one := []dlq.Letter{l}
	if err = st.lastErrors(ctx, tenant, one); err != nil {
		return one[0], postgres.Wrap("read the last retry of a dead letter", err)
	}
	err = st.collectedBy(ctx, tenant, one)
	return one[0], postgres.Wrap("look for the redrive that holds a dead letter", err)
}
