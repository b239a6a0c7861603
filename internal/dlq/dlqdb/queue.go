package dlqdb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// Queue implements dlq.Queue on PostgreSQL, with the letters of all tenants, for the loops. Leases
// and due times use the database's clock.
type Queue struct {
	db     *postgres.DB
	common dlq.Policy

	mu       sync.Mutex
	policies map[policyKey]knownPolicy // guarded by mu
	// forgotten counts how often policies were dropped from the cache; guarded by mu
	forgotten int
}

// NewQueue returns the queue of db. common is the policy for topics without a policy in tenants
// without a default.
func NewQueue(db *postgres.DB, common dlq.Policy) *Queue {
	return &Queue{db: db, common: common, policies: map[policyKey]knownPolicy{}}
}

// OlderOfKey is the condition that an open letter, alias o, with the same key arrived before letter
// m and therefore blocks it. Sealed keys are never equal, so their digests are compared
// (postgres.DB.KeyDigest).
var OlderOfKey = `o.tenant_id = m.tenant_id
  AND o.original_topic = m.original_topic
  AND ` + KeyOf("o") + ` = ` + KeyOf("m") + `
		   AND o.seq < m.seq AND o.ordered AND o.status` + postgres.Among(dlq.Blocking)

// KeyOf returns the SQL expression that distinguishes the keys of ordered letters.
func KeyOf(alias string) string {
	return "coalesce(" + alias + ".order_key, " + alias + ".message_key)"
}

// ClaimLetter sets a letter to RETRYING with a fresh token for $2 microseconds. A token of UUID
// version 8 means that its holder writes hand-over notes; nodes of earlier releases use tokens of
// version 4 and do not write them. The reason for a terminal status is cleared, because the letter
// may have been DEAD.
const ClaimLetter = `
   SET status = 'RETRYING',
       resolution = NULL,
       terminal_at = NULL,
       next_retry_at = NULL,
       held_retry_at = NULL,
       retry_asked = false,
       last_retry_at = clock_timestamp(),
       updated_at = clock_timestamp(),
       retry_token = overlay(gen_random_uuid()::text PLACING '8' FROM 15)::uuid,
       retry_lease_until = clock_timestamp() + $2 * interval '1 microsecond',
       attempts = m.attempts + 1, version = m.version + 1`

// ClaimedBytes limits the payloads that are claimed at once and held in memory. Once this many
// bytes are claimed, no further letters are taken.
const ClaimedBytes = 64 << 20

// claimDue claims the letters that idx_dlq_messages_due reports as due. MATERIALIZED limits the
// locks to the rows that are claimed, whatever join order the planner chooses (requirements 3.2,
// defect B9).
var claimDue = `
WITH locked AS MATERIALIZED (
	SELECT m.id, m.next_retry_at, m.seq, coalesce(octet_length(m.payload_raw), 0) AS size FROM dlq.dlq_messages m
	 WHERE ` + Leaves("m.status", dlq.Claimed) + `
	   AND m.next_retry_at <= clock_timestamp()
	   AND m.target ->> 'kind' = ANY ($1::text[])
	   AND (NOT m.ordered OR NOT EXISTS (SELECT 1 FROM dlq.dlq_messages o WHERE ` + OlderOfKey + `))
	   AND NOT (` + retriedAutomatically("m") + ` AND NOT m.retry_asked AND (` + heldTopic("m", 5) + `))
	   AND NOT ` + collected + `
	 ORDER BY m.next_retry_at, m.seq LIMIT $3
	 FOR NO KEY UPDATE OF m SKIP LOCKED
), due AS (
	SELECT s.id
	  FROM (SELECT l.id, sum(l.size) OVER (ORDER BY l.next_retry_at, l.seq) - l.size AS before FROM locked l) AS s
	 WHERE s.before < $4
)
UPDATE dlq.dlq_messages m` + ClaimLetter + `
  FROM due WHERE m.id = due.id AND ` + Leaves("m.status || ''", dlq.Claimed) + `
RETURNING ` + LetterColumns + `, m.attempts`

// Due implements dlq.Queue.
func (st *Queue) Due(ctx context.Context, kinds []dlq.TargetKind, lease time.Duration, limit int) ([]dlq.Drive, error) {
	if done, err := st.park(ctx, kinds); err != nil || !done {
		return nil, postgres.Wrap("hold dead letters", err)
	}
	rows, err := st.db.QueryRead(ctx, claimDue, kindNames(kinds), lease.Microseconds(), limit, ClaimedBytes,
		st.common.AutoRetry)
	if err != nil {
		return nil, fmt.Errorf("claim dead letters: %w", err)
	}
	drives, err := scanDrives(ctx, st.db, rows)
	for i := range drives {
		drives[i].Due = true
	}
	if err == nil {
		err = Revise(ctx, st.db, st.db.Read, drives)
	}
	return drives, postgres.Wrap("claim dead letters", err)
}

// scanDrives reads claimed letters in the order of their arrival, each with its number of claims.
// Their drives belong to no redrive; the column keeps the last redrive. A letter whose content
// cannot be decrypted stays claimed until its lease expires, and then counts as a failed retry.
func scanDrives(ctx context.Context, db *postgres.DB, rows *sql.Rows) ([]dlq.Drive, error) {
	var drives []dlq.Drive
	err := postgres.EachRow(rows, func() error {
		var d dlq.Drive
		var err error
		if d.Letter, err = ScanLetter(db, rows, &d.Number); err != nil {
			return db.PassOver(ctx, err)
		}
		d.Send, d.To, d.RedriveID = d.Content, d.Destination(nil), uuid.Nil
		drives = append(drives, d)
		return nil
	})
	slices.SortFunc(drives, func(a, b dlq.Drive) int { return int(a.Seq - b.Seq) })
	return drives, err
}

// Revise fills in the edited content of letters that have a revision.
func Revise(ctx context.Context, db *postgres.DB, q sqlx.QueryerContext, drives []dlq.Drive) error {
	byLetter := map[uuid.UUID]*dlq.Drive{}
	var ids, tenants []uuid.UUID
	var numbers []int64
	for i := range drives {
		if d := &drives[i]; d.Revision > 0 {
			byLetter[d.ID] = d
			ids, tenants, numbers = append(ids, d.ID), append(tenants, d.TenantID), append(numbers, int64(d.Revision))
		}
	}
	if ids == nil {
		return nil
	}
	rows, err := q.QueryContext(ctx, `
		SELECT r.message_id, r.number, r.message_key, r.headers, r.payload_raw
		  FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) AS w (id, tenant_id, number)
		  JOIN dlq.dlq_revisions r ON r.message_id = w.id AND r.tenant_id = w.tenant_id AND r.number = w.number`,
		pq.Array(ids), pq.Array(tenants), pq.Array(numbers))
	if err != nil {
		return err
	}
	return postgres.EachRow(rows, func() error {
		var id uuid.UUID
		var number int
		var key, headers, payload []byte
		if err := rows.Scan(&id, &number, &key, &headers, &payload); err != nil {
			return err
		}
		d := byLetter[id]
		sealer := db.Keys.SealerFor(d.TenantID, d.ID)
		edited, err := openContent(&sealer, revisionFields(number), key, headers, payload)
		if err != nil {
			return err
		}
		d.Send = d.Content.With(edited)
		return nil
	})
}

const extendLeases = `
UPDATE dlq.dlq_messages
   SET retry_lease_until = clock_timestamp() + $2 * interval '1 microsecond', updated_at = clock_timestamp()
 WHERE status = 'RETRYING' AND retry_token = ANY ($1::uuid[])
RETURNING retry_token`

// Extend implements dlq.Queue. It also extends an expired lease, provided that the letter has not
// been reclaimed.
func (st *Queue) Extend(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	rows, err := st.db.QueryRead(ctx, extendLeases, pq.Array(tokens), lease.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("extend leases of dead letters: %w", err)
	}
	var held []uuid.UUID
	err = postgres.EachRow(rows, func() error {
		var t uuid.UUID
		err := rows.Scan(&t)
		held = append(held, t)
		return err
	})
	return held, postgres.Wrap("extend leases of dead letters", err)
}
