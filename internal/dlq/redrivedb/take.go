package redrivedb

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// takeWindow is the number of additional waiting letters that are checked if some of the first ones
// wait for another letter with the same key.
const takeWindow = 500

// lockRunning locks a running redrive. It returns the redrive's bucket as of when letters were last
// taken (dlq.Redrive.Allowance), and the time. If another node has locked the redrive, it returns
// no row, and the caller tries again later.
//
// Bitmap scans are disabled for the rest of the transaction. The next items of a redrive must be
// read in index order, instead of all items being read and sorted, and there are no statistics for
// them yet. Only nested loops are left enabled as well: there are no statistics for letters that
// have just arrived, and the planner would rather read all of them than look up a few hundred by
// ctid.
var lockRunning = `
SELECT ` + redriveColumns + `, c.at, d.allowance, d.granted_at,
       set_config('enable_bitmapscan', 'off', true) || set_config('enable_hashjoin', 'off',
                                                                  true) || set_config('enable_mergejoin', 'off', true)
  FROM dlq.dlq_redrives d CROSS JOIN (SELECT clock_timestamp() AS at) AS c
 WHERE d.tenant_id = $1 AND d.id = $2 AND ` + running + `
   FOR NO KEY UPDATE OF d SKIP LOCKED`

// errNotRunning means that the redrive is not running, or that another node has locked it.
var errNotRunning = errors.New("the redrive is not running, or another node is working on it")

// TakeItems implements dlq.Redrives.
func (st *Redrives) TakeItems(ctx context.Context, r dlq.Redrive, routes dlq.Routes, lease time.Duration,
	limit int) ([]dlq.Drive, error) {
	var drives []dlq.Drive
	err := st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		t := taking{st: st, tx: tx, routes: routes, lease: lease}
		if err := t.begin(ctx, r, limit); err != nil {
			return err
		}
		if err := t.look(ctx); err != nil {
			return err
		}
		if err := t.stand(ctx); err != nil {
			return err
		}
		var err error
		if drives, err = t.claim(ctx); err != nil {
			return err
		}
		return t.store(ctx, drives)
	})
	if errors.Is(err, errNotRunning) {
		return nil, nil
	}
	return drives, postgres.Wrap("take letters of a redrive", err)
}

// taking is the state of one call of TakeItems. The redrive's row is locked.
type taking struct {
	st        *Redrives
	tx        *sqlx.Tx
	r         dlq.Redrive
	routes    dlq.Routes
	lease     time.Duration
	at        time.Time
	allowance float64
	n         int // how many letters may be taken
	choice    dlq.Choice
	parked    map[string][]string // letters that must wait at gates, by participant
}

// scanRunning reads the row that lockRunning returns.
func scanRunning(row postgres.Scanner) (r dlq.Redrive, at time.Time, allowance float64, err error) {
	var since *time.Time
	var left float64
	var planner string
	r, err = redriveTable.One(row, &at, &left, &since, &planner)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNotRunning
	}
	return r, at, r.Allowance(left, since, at), err
}

func (t *taking) begin(ctx context.Context, r dlq.Redrive, limit int) (err error) {
	t.r, t.at, t.allowance, err = scanRunning(t.tx.QueryRowContext(ctx, lockRunning, r.TenantID, r.ID))
	if err != nil {
		return err
	}
	var busy int64
	if t.r.Bounded() {
		err := t.tx.GetContext(ctx, &busy, `SELECT count(*)
		  FROM dlq.dlq_redrive_items i
		 WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND `+taken("i.state"), r.TenantID, r.ID)
		if err != nil {
			return err
		}
	}
	if t.n = t.r.Grant(limit, t.allowance, busy); t.n == 0 {
		return errNotRunning
	}
	return nil
}

// look finds the letters to take. It first looks among as many letters as may be taken, and looks
// among more only if too few of those are free.
func (t *taking) look(ctx context.Context) error {
	limits := []int{t.n, t.n + takeWindow}
	if t.r.Order == dlq.PerKey {
		limits = limits[1:] // in key order, some nearly always wait
	}
	keys, err := t.keys(ctx)
	if err != nil {
		return err
	}
	for _, limit := range limits {
		candidates, err := t.candidates(ctx, limit)
		if err != nil {
			return err
		}
		t.choice = t.r.Choose(candidates, keys, t.routes, t.n)
		if len(t.choice.Taken) == t.n || len(candidates) < limit {
			break
		}
	}
	return nil
}

// waitingItems selects the next letters of a redrive, together with what prevents taking them: the
// oldest open letter with the same key, and whether this redrive will reach that letter earlier.
var waitingItems = `
SELECT i.seq,
       i.message_id,
       coalesce(m.status, ''),
       coalesce(m.original_topic, ''),
       m.message_key,
       coalesce(m.target, '{}'),
       CASE WHEN m.ordered THEN (
	SELECT coalesce((SELECT x.state FROM dlq.dlq_redrive_items x WHERE x.redrive_id = $2 AND x.message_id = o.id),
	                '` + string(dlq.Elsewhere) + `')
	  FROM dlq.dlq_messages o WHERE ` + dlqdb.OlderOfKey + ` ORDER BY o.seq LIMIT 1) END,
       (SELECT d.id ` + dlqdb.CollectedBy + `
	       AND d.id <> $2 AND (d.started_at, d.id) < ($4, $2) AND d.state` + postgres.Among(dlq.Ahead) + ` LIMIT 1),
       (SELECT w.granted_at IS NOT NULL FROM saga.gate_waits w
         WHERE w.tenant_id = $1 AND w.kind = 'item' AND w.id = i.message_id AND w.redrive_id = $2)
  FROM (SELECT w.seq, w.message_id FROM dlq.dlq_redrive_items w
         WHERE w.tenant_id = $1 AND w.redrive_id = $2 AND ` + waiting("w.state") + ` ORDER BY w.seq LIMIT $3) AS i
  LEFT JOIN dlq.dlq_messages m ON m.tenant_id = $1 AND m.id = i.message_id
 ORDER BY i.seq`

func (t *taking) candidates(ctx context.Context, limit int) ([]dlq.Candidate, error) {
	rows, err := t.tx.QueryContext(ctx, waitingItems, t.r.TenantID, t.r.ID, limit, t.r.StartedAt)
	if err != nil {
		return nil, err
	}
	var all []dlq.Candidate
	t.parked = nil
	err = postgres.EachRow(rows, func() error {
		var c dlq.Candidate
		var target []byte
		var behind sql.NullString
		var let sql.NullBool // whether it was let through; NULL if it does not wait at a gate
		err := rows.Scan(&c.Seq, &c.LetterID, &c.Status, &c.Topic, &c.Key, &target, &behind,
			postgres.ScanOr(&c.Other, uuid.Nil), &let)
		if err != nil {
			return err
		}
		c.Behind = dlq.ItemState(behind.String)
		l := dlq.Letter{OriginalTopic: c.Topic}
		if err := dlqdb.ReadTarget(target, &l.Target); err != nil {
			return err
		}
		c.To = l.Destination(t.r.Target)
		c.Paused = t.r.Pauses.Hold(&c.To, t.at)
		if at := t.routes.GateOf(t.r.TenantID, &c.To); at != "" && !let.Bool {
			c.Paused = true
			if !let.Valid {
				t.park(at, c.LetterID)
			}
		}
		if t.r.Order == dlq.PerKey {
			c.Key, err = t.open(c.LetterID, c.Key)
		}
		all = append(all, c)
		return err
	})
	return all, err
}

func (t *taking) park(participant string, letter uuid.UUID) {
	if t.parked == nil {
		t.parked = map[string][]string{}
	}
	t.parked[participant] = append(t.parked[participant], letter.String())
}

// standItems assigns places at a gate to letters of a redrive, in the order of the redrive.
const standItems = `
INSERT INTO saga.gate_waits AS w (tenant_id, kind, id, redrive_id, participant, parked_at)
SELECT $1, 'item', l.id, $2, $3, clock_timestamp() + l.place * interval '1 microsecond'
  FROM unnest($4::uuid[]) WITH ORDINALITY AS l (id, place)
ON CONFLICT (tenant_id, kind, id) DO UPDATE
   SET redrive_id = excluded.redrive_id, participant = excluded.participant, parked_at = excluded.parked_at,
       granted_at = NULL`

// stand stores which letters now wait at gates.
func (t *taking) stand(ctx context.Context) error {
	for participant, letters := range t.parked {
		if _, err := t.tx.ExecContext(ctx, standItems, t.r.TenantID, t.r.ID, participant, pq.Array(letters)); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the keys that have a letter in flight or a failed letter, for the order per_key.
func (t *taking) keys(ctx context.Context) (dlq.Keys, error) {
	if t.r.Order != dlq.PerKey {
		return nil, nil //nolint:nilnil // not needed for other orders
	}
	rows, err := t.tx.QueryContext(ctx, `
		SELECT i.state, i.message_id, m.original_topic, m.message_key FROM dlq.dlq_redrive_items i
		  JOIN dlq.dlq_messages m ON m.tenant_id = i.tenant_id AND m.id = i.message_id
		 WHERE i.tenant_id = $1
		   AND i.redrive_id = $2
		   AND i.state`+postgres.Among(dlq.Noted)+`
		   AND m.message_key IS NOT NULL`, t.r.TenantID, t.r.ID)
	if err != nil {
		return nil, err
	}
	keys := dlq.Keys{}
	return keys, postgres.EachRow(rows, func() error {
		var is dlq.ItemState
		var id uuid.UUID
		var topic string
		var key []byte
		if err := rows.Scan(&is, &id, &topic, &key); err != nil {
			return err
		}
		key, err := t.open(id, key)
		if of, has := dlq.KeyOf(topic, key); has {
			keys.Note(of, is)
		}
		return err
	})
}

// open decrypts a sealed key.
func (t *taking) open(letter uuid.UUID, key []byte) ([]byte, error) {
	sealer := t.st.db.Keys.SealerFor(t.r.TenantID, letter)
	return sealer.OpenBytes(dlqdb.FieldLetterKey, key)
}

// claimChosen skips letters that are locked by another transaction or that were changed since the
// redrive's transaction began; they wait for the next call.
//
// Letters are looked up by id alone, and then updated by ctid, which the lock keeps valid. The
// tenant is compared afterwards, because without statistics the planner considers an index on all
// letters of a tenant just as good.
var claimChosen = `
WITH locked AS MATERIALIZED (
	SELECT x.tenant_id, x.place, x.seq, x.resolution, x.size
	  FROM unnest($3::uuid[]) AS c (id)
	 CROSS JOIN LATERAL (
		SELECT m.tenant_id,
		       m.ctid AS place,
		       m.seq,
		       coalesce(m.resolution, '') AS resolution,
		       coalesce(octet_length(m.payload_raw), 0) AS size
		  FROM dlq.dlq_messages m
		 WHERE m.id = c.id
		   AND (` + dlqdb.Leaves("m.status || ''", dlq.Claimed) + `
		        OR ` + dlqdb.Leaves("m.status || ''", dlq.ForcedClaim) + ` AND $4)
		OFFSET 0 FOR NO KEY UPDATE OF m SKIP LOCKED) AS x
	 WHERE x.tenant_id = $1
), was AS MATERIALIZED (
	SELECT s.tenant_id, s.place, s.resolution FROM (
		SELECT l.tenant_id, l.place, l.resolution, sum(l.size) OVER (ORDER BY l.seq) - l.size AS before FROM locked l) AS s
	 WHERE s.before < $6
)
UPDATE dlq.dlq_messages m` + dlqdb.ClaimLetter + `, redrive_id = $5
  FROM was WHERE m.ctid = was.place AND m.tenant_id = was.tenant_id
RETURNING ` + dlqdb.LetterColumns + `, m.attempts, was.resolution`

func (t *taking) claim(ctx context.Context) ([]dlq.Drive, error) {
	if len(t.choice.Taken) == 0 {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(t.choice.Taken))
	place := make(map[uuid.UUID]int, len(ids))
	for i := range ids {
		ids[i] = t.choice.Taken[i].LetterID
		place[ids[i]] = i
	}
	rows, err := t.tx.QueryContext(ctx, claimChosen, t.r.TenantID, t.lease.Microseconds(), pq.Array(ids), t.r.Force,
		t.r.ID, dlqdb.ClaimedBytes)
	if err != nil {
		return nil, err
	}
	var drives []dlq.Drive
	err = postgres.EachRow(rows, func() error {
		var d dlq.Drive
		var err error
		if d.Letter, err = dlqdb.ScanLetter(t.st.db, rows, &d.Number, &d.Was); err != nil {
			return t.st.db.PassOver(ctx, err)
		}
		d.Forced = d.Was != ""
		d.Send, d.To, d.Actor = d.Content, d.Destination(t.r.Target), t.r.Actor
		d.ActorName = t.r.ActorName
		drives = append(drives, d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(drives, func(a, b dlq.Drive) int { return place[a.ID] - place[b.ID] })
	return drives, dlqdb.Revise(ctx, t.st.db, t.tx, drives)
}

// storeTaken records which letters were claimed and which were skipped, and subtracts the claimed
// ones from the bucket. It finds items in the same way as finishItems.
var storeTaken = postgres.Named(`
WITH chosen AS MATERIALIZED (
	SELECT x.place FROM unnest(@taken::bigint[]) AS s (seq)
	 CROSS JOIN LATERAL (SELECT i.ctid AS place
	                       FROM dlq.dlq_redrive_items i
	                      WHERE i.tenant_id = @tenant AND i.redrive_id = @redrive AND i.seq = s.seq
	                      OFFSET 0) AS x
), refused AS MATERIALIZED (
	SELECT s.why, x.place FROM unnest(@skipped::bigint[], @whys::text[]) AS s (seq, why)
	 CROSS JOIN LATERAL (SELECT i.ctid AS place
	                       FROM dlq.dlq_redrive_items i
	                      WHERE i.tenant_id = @tenant AND i.redrive_id = @redrive AND i.seq = s.seq
	                      OFFSET 0) AS x
), taken AS (
	UPDATE dlq.dlq_redrive_items i
	   SET state = 'TAKEN',
	       lease_until = clock_timestamp() + @lease * interval '1 microsecond',
	       updated_at = clock_timestamp()
	  FROM chosen c WHERE i.ctid = c.place AND i.tenant_id = @tenant AND `+waiting("i.state || ''")+`
), passed AS (
	UPDATE dlq.dlq_redrive_items i SET state = 'SKIPPED', detail = r.why, updated_at = clock_timestamp()
	  FROM refused r WHERE i.ctid = r.place AND i.tenant_id = @tenant AND `+waiting("i.state || ''")+`
	RETURNING i.seq
)
UPDATE dlq.dlq_redrives d
   SET allowance = @allowance::double precision,
       granted_at = @at,
       skipped = d.skipped + p.n,
       updated_at = clock_timestamp(),
       progress_at = CASE WHEN p.n > 0 THEN clock_timestamp() ELSE d.progress_at END
  FROM (SELECT count(*) AS n FROM passed) AS p
 WHERE d.tenant_id = @tenant
   AND d.id = @redrive`, postgres.Single("tenant", "redrive", "taken", "lease", "skipped", "whys", "allowance", "at"))

func (t *taking) store(ctx context.Context, drives []dlq.Drive) error {
	seq := make(map[uuid.UUID]int64, len(t.choice.Taken))
	for i := range t.choice.Taken {
		seq[t.choice.Taken[i].LetterID] = t.choice.Taken[i].Seq
	}
	taken := make([]int64, len(drives))
	for i := range drives {
		taken[i] = seq[drives[i].ID]
	}
	seqs, whys := make([]int64, len(t.choice.Skipped)), make([]string, len(t.choice.Skipped))
	for i := range t.choice.Skipped {
		seqs[i], whys[i] = t.choice.Skipped[i].Seq, t.choice.Skipped[i].Detail
	}
	_, err := t.tx.ExecContext(ctx, storeTaken.Text, storeTaken.Args(postgres.Values{
		t.r.TenantID, t.r.ID, pq.Array(taken), t.lease.Microseconds(), pq.Array(seqs), pq.Array(whys),
		t.allowance - float64(len(drives)), t.at,
	})...)
	return err
}
