package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// This file writes the updates that sagas and webhooks report for their letters (dlq.SourceUpdate)
// in the transaction that changes the source. The letters are locked first, so that the rules
// decide on current data.

// LetterUpdate is an update reported by a source, with its time.
type LetterUpdate struct {
	*dlq.SourceUpdate
	Tenant uuid.UUID
	At     dlq.Moment
}

// LetterUpdater writes the updates that sources report for their letters.
type LetterUpdater struct {
	db      *postgres.DB
	retries int
}

// NewLetterUpdater returns a LetterUpdater on db. retries is the number of times that a letter may
// be retried if neither its topic nor its tenant has a policy.
func NewLetterUpdater(db *postgres.DB, retries int) *LetterUpdater {
	return &LetterUpdater{db, retries}
}

// Or returns t or, if t is nil, a LetterUpdater on db with the retries of the common policy.
func (t *LetterUpdater) Or(db *postgres.DB) *LetterUpdater {
	if t == nil {
		return NewLetterUpdater(db, dlq.DefaultPolicy.MaxRetries)
	}
	return t
}

// lockLetters reads live letters and locks them, ordered by id.
var lockLetters = `
SELECT ` + LetterColumns + `
  FROM dlq.dlq_messages m
  JOIN unnest($1::uuid[], $2::uuid[]) AS k (tenant_id, id) ON m.tenant_id = k.tenant_id AND m.id = k.id
 ORDER BY m.id
   FOR NO KEY UPDATE OF m`

// LockForUpdates locks the live letters that the updates refer to, and returns them by id.
func (t *LetterUpdater) LockForUpdates(ctx context.Context, tx *sqlx.Tx,
	all []LetterUpdate) (map[uuid.UUID]dlq.Letter, error) {
	var tenants, ids []uuid.UUID
	for _, n := range all {
		if n.ID != uuid.Nil {
			tenants, ids = append(tenants, n.Tenant), append(ids, n.ID)
		}
	}
	found := map[uuid.UUID]dlq.Letter{}
	if ids == nil {
		return found, nil
	}
	rows, err := tx.QueryContext(ctx, lockLetters, pq.Array(tenants), pq.Array(ids))
	if err != nil {
		return nil, err
	}
	return found, postgres.EachRow(rows, func() error {
		l, err := ScanLetter(t.db, rows)
		found[l.ID] = l
		return t.db.PassOver(ctx, err) // its content is not needed
	})
}

// UpdateLetters writes all updates to found, the letters that LockForUpdates returned. tx must be
// on one of the writers' connections if any update in all is GaveUp.
func (t *LetterUpdater) UpdateLetters(ctx context.Context, tx *sqlx.Tx, all []LetterUpdate,
	found map[uuid.UUID]dlq.Letter) error {
	allowed := map[policyKey]int{}         // retries allowed, by policy
	fresh, n := batchOf(t.db, len(all)), 0 // n counts letters that cannot conflict with stored ones
	for _, told := range all {
		before, known := found[told.ID]
		if told.Outcome == dlq.GaveUp && (!known || !before.ReopensOn(told.SourceUpdate)) {
			topic := policyKey{told.Tenant, told.Letter.OriginalTopic}
			retries, read := allowed[topic]
			if !read {
				var err error
				if retries, err = t.letterRetries(ctx, tx, topic); err != nil {
					return err
				}
				allowed[topic] = retries
			}
			l := told.Letter.Allowed(retries, told.At)
			if err := fresh.add(ctx, &l); err != nil {
				return err
			}
			if told.Letter.DedupeKey == "" {
				n++
			}
			continue
		}
		if !known {
			continue // archived or deleted in the meantime, which is allowed
		}
		c, err := dlq.Apply(before, dlq.SourceReported{SourceUpdate: told.SourceUpdate}, told.At)
		if err != nil {
			return fmt.Errorf("update dead letter %s: %w", before.ID, err)
		}
		if !c.Changes() {
			continue
		}
		if err := t.putUpdates(ctx, tx, &before, &c.After, c.Attempt); err != nil {
			return err
		}
		if told.Action == nil {
			continue
		}
		if err := auditdb.PutAction(ctx, tx, *told.Action); err != nil {
			return err
		}
	}
	if fresh.letters.Len() == 0 {
		return nil
	}
	stmt, err := t.db.PreparedIn(ctx, tx, pushLetters.Text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, pushLetters.Args(fresh.bound()...)...)
	if err != nil {
		return err
	}
	stored := 0
	if err := postgres.EachRow(rows, func() error { stored++; return nil }); err != nil {
		return err
	}
	if stored < n {
		return fmt.Errorf("store dead letters: %d of %d already exist", n-stored, n)
	}
	return nil
}

// letterRetries returns the number of times that letters of a topic may be retried. It comes from
// the topic's policy, or else from the tenant's default, or else from the configuration.
func (t *LetterUpdater) letterRetries(ctx context.Context, tx *sqlx.Tx, of policyKey) (int, error) {
	n := t.retries
	err := tx.QueryRowContext(ctx, `
		SELECT p.max_retries
		  FROM dlq.dlq_policies p
		 WHERE p.tenant_id = $1 AND p.topic IN ($2, '')
		 ORDER BY p.topic DESC
		 LIMIT 1`,
		of.tenant, of.topic).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return n, err
}

// putLetter writes the changes that an update makes to a letter, and the retry that it ended. It
// omits a retry whose number is already taken by statements that do not count claims, because a
// saga must not fail for that reason.
var putLetter = postgres.Named(`
WITH moved AS (
	UPDATE dlq.dlq_messages m
	   SET `+movedLetter.Set("m", "tenant_id", "id")+`, terms = @terms::integer[], next_retry_at = NULL,
	       retry_token = @token,
	       retry_lease_until = CASE WHEN @token::uuid IS NOT NULL THEN now() + @lease * interval '1 microsecond' END,
	       attempts = m.attempts + CASE WHEN @token::uuid IS DISTINCT FROM m.retry_token
	                                    AND @token::uuid IS NOT NULL THEN 1 ELSE 0 END
	 WHERE m.tenant_id = @m.tenant_id AND m.id = @m.id AND m.version = @was
	RETURNING m.id, m.tenant_id, m.attempts
), ended AS (
	INSERT INTO dlq.dlq_attempts (message_id, tenant_id, number, token, `+endedAttempt.Inserted()+`)
	SELECT moved.id, moved.tenant_id, greatest(moved.attempts, 1), @ended, `+endedAttempt.Values("a")+`
	  FROM moved WHERE @ended::uuid IS NOT NULL
	ON CONFLICT (message_id, number) DO NOTHING
)
SELECT id FROM moved`,
	movedLetter.As("m"), postgres.Single("was", "terms", "token", "lease", "ended"), endedAttempt.As("a"))

// The columns changed by an update: those of the letter, and those of the retry that it ended.
var (
	movedLetter = messageTable.Only("tenant_id", "id", "version", "status", "resolution", "retry_count", "error_message",
		"error_type", "error_class", "fingerprint", "last_retry_at", "terminal_at", "updated_at")
	endedAttempt = attemptTable.Only("revision", "target", "outcome", "error", "redrive_id", "actor", "actor_name",
		"started_at", "ended_at")
)

func (t *LetterUpdater) putUpdates(ctx context.Context, tx *sqlx.Tx, before, l *dlq.Letter, ended *dlq.Attempt) error {
	if ended == nil {
		ended = &dlq.Attempt{}
	}
	attempt, err := attemptOf(ended)
	if err != nil {
		return err
	}
	sealer := t.db.Keys.SealerFor(l.TenantID, l.ID)
	var id uuid.UUID
	err = tx.GetContext(ctx, &id, putLetter.Text, putLetter.Args(movedLetter.Row(&letterRow{Letter: l}), postgres.Values{
		before.Version, termArray(letterTerms(nil, l, sealer.Seals())),
		postgres.NullIfZero(l.Token), dlq.Lease.Microseconds(),
		postgres.NullIfZero(ended.Token),
	}, endedAttempt.Row(attempt))...)
	if err != nil {
		return fmt.Errorf("move dead letter %s: %w", l.ID, err)
	}
	if l.Fingerprint == before.Fingerprint {
		return nil
	}
	_, err = tx.ExecContext(ctx, joinGroup.Text, joinGroup.Args(postgres.Values{
		l.TenantID, l.Fingerprint, l.OriginalTopic, l.Failure.Type, dlq.Normalised(l.Failure.Message), l.UpdatedAt, l.ID,
	})...)
	return err
}

// joinGroup counts a letter whose error has changed in the group of its new error.
var joinGroup = postgres.Named(`
INSERT INTO dlq.dlq_groups AS g (tenant_id, fingerprint, topic, error_type, message, received, first_seen, last_seen,
                                 sample_id, updated_at)
VALUES (@tenant, @fingerprint, @topic, @type, @message, 1, @at, @at, @letter, @at)
ON CONFLICT (tenant_id, fingerprint) DO UPDATE
   SET received = g.received + 1, last_seen = greatest(g.last_seen, EXCLUDED.last_seen), sample_id = EXCLUDED.sample_id,
       state = CASE g.state WHEN 'RESOLVED' THEN 'REGRESSED' ELSE g.state END,
       version = CASE g.state WHEN 'RESOLVED' THEN g.version + 1 ELSE g.version END,
       updated_at = CASE g.state WHEN 'RESOLVED' THEN EXCLUDED.updated_at ELSE g.updated_at END`,
	postgres.Single("tenant", "fingerprint", "topic", "type", "message", "at", "letter"))
