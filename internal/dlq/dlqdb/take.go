package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// maxBlocking is the maximum number of blocking letters with the same key that an error names.
const maxBlocking = 10

// Take implements dlq.Queue with the rights of the letter's tenant. The revision, the claim and the
// action are stored in one transaction.
func (st *Queue) Take(ctx context.Context, c dlq.Claim, lease time.Duration) (dlq.Drive, error) {
	d, err := postgres.RetryCollision(func() (dlq.Drive, error) {
		var d dlq.Drive
		err := st.db.InTenant(ctx, c.TenantID, func(tx *sqlx.Tx) (err error) {
			d, err = st.take(ctx, tx, &c, lease)
			return err
		})
		return d, err
	})
	return d, postgres.Wrap("claim a dead letter", err)
}

func (st *Queue) take(ctx context.Context, tx *sqlx.Tx, c *dlq.Claim, lease time.Duration) (d dlq.Drive, err error) {
	l, err := st.takeable(ctx, tx, c, " FOR NO KEY UPDATE")
	if err != nil {
		return d, err
	}
	revision := l.Revision
	if c.Revision != nil {
		if revision, err = putRevision(ctx, st.db, tx, c.TenantID, *c.Revision); err != nil {
			return d, err
		}
	}
	claimed, err := ScanLetter(st.db, tx.QueryRowContext(ctx, `UPDATE dlq.dlq_messages m`+ClaimLetter+`, revision = $4
		WHERE m.tenant_id = $1 AND m.id = $3 RETURNING `+LetterColumns+`, m.attempts`,
		c.TenantID, lease.Microseconds(), c.LetterID, revision), &d.Number)
	if err != nil {
		return d, err
	}
	d.Letter, d.Send, d.To, d.Actor = claimed, claimed.Content, claimed.Destination(c.Target), c.Actor
	d.ActorName = c.By.ActorName
	d.Forced, d.Was = l.Status == dlq.Dead, l.Resolution
	d.RedriveID = uuid.Nil // the retry belongs to no redrive; the column keeps the last one
	drives := []dlq.Drive{d}
	if err := Revise(ctx, st.db, tx, drives); err != nil {
		return d, err
	}
	return drives[0], auditdb.PutAction(ctx, tx, c.By)
}

// inOrder finds the redrive that is currently sending the letters of a letter's key in order, if
// there is one.
var inOrder = `
SELECT d.id FROM dlq.dlq_messages m CROSS JOIN LATERAL (SELECT d.id ` + CollectedBy + `
	   AND d.key_order = '` + string(dlq.PerKey) + `' AND d.state` + postgres.Among(dlq.Ahead) + ` LIMIT 1) AS d
 WHERE m.tenant_id = $1 AND m.id = $2`

// MayTake implements dlq.Queue.
func (st *Queue) MayTake(ctx context.Context, c dlq.Claim) error {
	err := st.db.InTenant(ctx, c.TenantID, func(tx *sqlx.Tx) error {
		_, err := st.takeable(ctx, tx, &c, "")
		return err
	})
	return postgres.Wrap("check the claim of a dead letter", err)
}

// takeable reads the letter of a claim, and returns the reason why it cannot be claimed, if there
// is one. lock is appended to the statement that reads it.
func (st *Queue) takeable(ctx context.Context, tx *sqlx.Tx, c *dlq.Claim, lock string) (dlq.Letter, error) {
	l, err := ScanLetter(st.db, tx.QueryRowContext(ctx, `SELECT `+LetterColumns+`
	  FROM dlq.dlq_messages m
	 WHERE m.tenant_id = $1 AND m.id = $2`+lock,
		c.TenantID, c.LetterID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return l, dlq.NotFound(c.LetterID)
	case errors.Is(err, envelope.ErrUnreadable):
		return l, l.Closed().Because(err)
	case err != nil:
		return l, err
	}
	return l, st.refusal(ctx, tx, &l, c)
}

// refusal returns the reason why a letter cannot be claimed.
func (st *Queue) refusal(ctx context.Context, tx *sqlx.Tx, l *dlq.Letter, c *dlq.Claim) error {
	if err := l.Claimable(c); err != nil {
		return err
	}
	if l.Content.Key != nil {
		var by uuid.UUID
		switch err := tx.GetContext(ctx, &by, inOrder, l.TenantID, l.ID); {
		case err == nil:
			return dlq.InOrderOf(by)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	if !l.Ordered {
		return nil
	}
	var older []string
	err := tx.SelectContext(ctx, &older, `
		SELECT o.id FROM dlq.dlq_messages m JOIN dlq.dlq_messages o ON `+OlderOfKey+`
		 WHERE m.tenant_id = $1 AND m.id = $2 ORDER BY o.seq LIMIT $3`, l.TenantID, l.ID, maxBlocking)
	if err != nil || older == nil {
		return err
	}
	return dlq.KeyBlocked(older)
}

// putRevision stores an edited content under the letter's next revision number and returns that
// number. The caller has locked the letter's row.
func putRevision(ctx context.Context, db *postgres.DB, tx *sqlx.Tx, tenant uuid.UUID,
	r dlq.Revision) (number int, err error) {
	err = tx.GetContext(ctx, &number, `SELECT coalesce(max(number), 0) + 1
	  FROM dlq.dlq_revisions
	 WHERE tenant_id = $1 AND message_id = $2`, tenant, r.LetterID)
	if err != nil {
		return 0, err
	}
	sealer := db.Keys.SealerFor(tenant, r.LetterID)
	content, err := sealContent(&sealer, revisionFields(number), r.Content)
	if err != nil {
		return 0, err
	}
	patch, err := postgres.Seal(&sealer, revisionField(fieldPatch, number), r.Patch)
	if err != nil {
		return 0, err
	}
	r.Number = number
	row := revisionRow{r, tenant, content[0], content[1], content[2], patch}
	_, err = tx.ExecContext(ctx, insertRevision.Text, insertRevision.Args(revisionTable.Row(&row))...)
	return number, err
}

var insertRevision = postgres.Named(`INSERT INTO dlq.dlq_revisions (`+revisionTable.Inserted()+`)
 VALUES (`+revisionTable.Values("r")+`)`,
	revisionTable.As("r"))
