package dlqdb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// The columns of a letter that operators may change, and the subset (annotations) that they may
// change while a retry is running.
var (
	changedLetter = messageTable.Only("tenant_id", "id", "version", "status", "resolution", "retry_count", "max_retries",
		"next_retry_at", "terminal_at", "labels", "assignee", "note", "updated_at")
	describedLetter = changedLetter.Only("tenant_id", "id", "version", "labels", "assignee", "note", "updated_at")
)

// changeLetter stores an operator's change of a letter, unless it was changed in the meantime. A
// letter without a retry has no token: it becomes RETRYING only by a claim and leaves that state
// only by the claim's finish, so a change never touches the token and the lease.
var changeLetter = postgres.Named(`
UPDATE dlq.dlq_messages m
   SET `+changedLetter.Set("m", "tenant_id", "id")+`,
       terms = @terms::integer[],
       held_retry_at = @held_retry_at,
       retry_asked = @retry_asked
 WHERE m.tenant_id = @m.tenant_id
   AND m.id = @m.id
   AND m.version + 1 = @m.version
   AND m.status <> '`+string(dlq.Retrying)+`'
   AND @m.status::varchar <> '`+string(dlq.Retrying)+`'`,
	changedLetter.As("m"), postgres.Single("terms", "held_retry_at", "retry_asked"))

var describeLetter = postgres.Named(`
UPDATE dlq.dlq_messages m SET `+describedLetter.Set("m", "tenant_id", "id")+`, terms = @terms::integer[]
 WHERE m.tenant_id = @m.tenant_id
   AND m.id = @m.id
   AND m.version + 1 = @m.version
   AND m.status || ''`+postgres.Among([]dlq.Status{dlq.Retrying}),
	describedLetter.As("m"), postgres.Single("terms"))

// Change implements dlq.Letters. The letter must be loaded with its content, because its terms are
// computed from it. While a retry is running, only labels, assignee and note are written.
func (st *Letters) Change(ctx context.Context, l dlq.Letter, by operator.Action) error {
	sealer := st.db.Keys.SealerFor(l.TenantID, l.ID)
	terms, row := termArray(letterTerms(nil, &l, sealer.Seals())), letterRow{Letter: &l}
	return postgres.Wrap("change dead letter", st.db.InTenant(ctx, l.TenantID, func(tx *sqlx.Tx) error {
		var res sql.Result
		var err error
		if l.Status == dlq.Retrying {
			res, err = tx.ExecContext(ctx, describeLetter.Text,
				describeLetter.Args(describedLetter.Row(&row), postgres.Values{terms})...)
		} else {
			res, err = tx.ExecContext(ctx, changeLetter.Text,
				changeLetter.Args(changedLetter.Row(&row), postgres.Values{terms, l.HeldRetryAt, l.RetryAsked})...)
		}
		if err := changedFault(ctx, tx, l.TenantID, l.ID, res, err); err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by)
	}))
}

// changedFault returns the fault for a versioned write that changed no row.
func changedFault(ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID, res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); n > 0 || err != nil {
		return err
	}
	var present int64
	err = tx.GetContext(ctx, &present, `SELECT m.version
	  FROM dlq.dlq_messages m
	 WHERE m.tenant_id = $1 AND m.id = $2`, tenant, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return dlq.NotFound(id)
	case err != nil:
		return err
	}
	return dlq.Stale(id, present)
}

// Delete implements dlq.Letters. A letter whose retry is running is not deleted, whatever its
// version (fault: Stale).
func (st *Letters) Delete(ctx context.Context, l dlq.Letter, by operator.Action) error {
	return postgres.Wrap("delete dead letter", st.db.InTenant(ctx, l.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `
			DELETE FROM dlq.dlq_messages m
			 WHERE m.tenant_id = $1 AND m.id = $2 AND m.version = $3 AND m.status <> '`+string(dlq.Retrying)+`'`,
			l.TenantID, l.ID, l.Version)
		if err := changedFault(ctx, tx, l.TenantID, l.ID, res, err); err != nil {
			return err
		}
		for _, table := range []string{"dlq.dlq_revisions", "dlq.dlq_attempts"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+`
			 WHERE tenant_id = $1 AND message_id = $2`, l.TenantID, l.ID); err != nil {
				return err
			}
		}
		return auditdb.PutAction(ctx, tx, by)
	}))
}
