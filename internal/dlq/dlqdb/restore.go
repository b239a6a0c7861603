package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
)

// movedColumns are the columns copied by a move between dlq_messages and its archive: all except
// those of a running retry, which neither row has at that time. They have the same names in both
// tables.
var movedColumns = messageTable.Inserted() + ", seq, attempts"

// lockArchived reads and locks the columns of an archived letter that the rules need.
const lockArchived = `
SELECT a.version, a.status, a.retry_count, a.max_retries
  FROM dlq.dlq_messages_archive a
 WHERE a.tenant_id = $1 AND a.id = $2
 FOR UPDATE`

// restoreLetter moves a letter back as dlq.Apply decides, by inserting the row that it deletes from
// the archive. The dedupe key is dropped if another letter has it by now, and the Kafka offset if
// the record was read again.
var restoreLetter = `
WITH gone AS (
	DELETE FROM dlq.dlq_messages_archive a WHERE a.tenant_id = $1 AND a.id = $2
	RETURNING ` + qualified("a", movedColumns) + `
), back AS (
	INSERT INTO dlq.dlq_messages AS m (` + movedColumns + `)
	OVERRIDING SYSTEM VALUE
	SELECT ` + strings.NewReplacer(
	"g.version", "$4::bigint", "g.max_retries", "$5::integer", "g.status", "$6::text", "g.updated_at", "$3::timestamptz",
	"g.dedupe_key", `CASE WHEN (SELECT o.id
	                              FROM dlq.dlq_messages o
	                             WHERE o.tenant_id = $1 AND o.dedupe_key = g.dedupe_key) IS NULL THEN g.dedupe_key END`,
	"g.dlq_topic_id", "g.dlq_topic_id", // otherwise dlq_topic would be replaced within it
	"g.dlq_topic", placeFree("g.dlq_topic"), "g.dlq_partition", placeFree("g.dlq_partition"), "g.dlq_offset",
	placeFree("g.dlq_offset"),
	"g.resolution", "NULL", "g.next_retry_at", "NULL::timestamptz", "g.terminal_at", "NULL::timestamptz",
).Replace(qualified("g", movedColumns)) + `
	  FROM gone g
	RETURNING ` + LetterColumns + `
)
SELECT * FROM back`

// placeFree returns a column of a record's place, or NULL if another letter has the place. Such a
// letter has the same topic id or an unknown one.
func placeFree(column string) string {
	return `CASE WHEN NOT EXISTS (SELECT FROM dlq.dlq_messages o
	                               WHERE o.tenant_id = g.tenant_id AND o.dlq_topic = g.dlq_topic
		AND o.dlq_partition = g.dlq_partition AND o.dlq_offset = g.dlq_offset
		AND (o.dlq_topic_id = g.dlq_topic_id OR ` + unknownLife("o", "g.dlq_topic_id") + `)) THEN ` + column + ` END`
}

// qualified prefixes each name in a list with an alias.
func qualified(alias, names string) string {
	fields := strings.Split(names, ",")
	for i, f := range fields {
		fields[i] = alias + "." + strings.TrimSpace(f)
	}
	return strings.Join(fields, ", ")
}

// Restore implements dlq.Letters.
func (st *Letters) Restore(ctx context.Context, tenant, id uuid.UUID, now time.Time,
	by operator.Action) (dlq.Letter, error) {
	r := restoration{tenant, id, now, by}
	l, err := postgres.RetryCollision(func() (dlq.Letter, error) { return st.restore(ctx, r) })
	// If a key or a place was taken while the statement ran, the trigger of places reports no
	// error. A second try sees the conflict.
	if postgres.DataError(err) || fault.KindOf(err) == fault.NotFound {
		l, err = st.restore(ctx, r)
	}
	return l, postgres.Wrap("restore dead letter", err)
}

type restoration struct {
	tenant, id uuid.UUID
	at         time.Time
	by         operator.Action
}

// restore runs with the engine's rights, because a tenant's role may not delete from archives.
func (st *Letters) restore(ctx context.Context, r restoration) (l dlq.Letter, err error) {
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) (err error) { // for column
		was := dlq.Letter{ID: r.id, TenantID: r.tenant}
		err = tx.QueryRowContext(ctx, lockArchived, r.tenant, r.id).Scan(&was.Version, &was.Status, &was.RetryCount,
			&was.MaxRetries)
		if errors.Is(err, sql.ErrNoRows) {
			return dlq.NotFound(r.id)
		}
		if err != nil {
			return err
		}
		c, err := dlq.Apply(was, dlq.RestoreRequested{}, dlq.Moment{Now: r.at})
		if err != nil {
			return err
		}
		l, err = ScanLetter(st.db, tx.QueryRowContext(ctx, restoreLetter, r.tenant, r.id, r.at, c.After.Version,
			c.After.MaxRetries, c.After.Status))
		if errors.Is(err, sql.ErrNoRows) { // the trigger of places skips the row without an error
			return dlq.NotFound(r.id)
		}
		if err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, r.by)
	})
	if err != nil {
		return dlq.Letter{}, err
	}
	return l, nil
}
