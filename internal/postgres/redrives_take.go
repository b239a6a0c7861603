package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
)

// takeWindow is how many waiting letters more are looked at to find those that may be
// taken, when some of the first wait for one of their key.
const takeWindow = 500

// lockRunning locks a redrive that runs, with the letters that its rate leaves at
// this moment: a bucket that fills at the rate, holds one second's worth, at least
// one letter, and begins with one. Nodes that come at the same time get nothing,
// and come again.
//
// For the rest of the transaction there are no bitmap scans: the next items of a
// redrive, of which the statistics know nothing yet, are to be read in the order
// of their index, not all of them and sorted. And there are only nested loops: of
// letters that came just now the planner knows as little, and would rather read
// all of them once than a few hundred by their places.
const lockRunning = `
SELECT ` + redriveColumns + `, c.at,
       CASE WHEN d.granted_at IS NULL THEN 1
            ELSE least(greatest(d.rate, 1), d.allowance + d.rate * greatest(extract(epoch FROM c.at - d.granted_at), 0)) END,
       set_config('enable_bitmapscan', 'off', true) || set_config('enable_hashjoin', 'off', true) || set_config('enable_mergejoin', 'off', true)
  FROM dlq.dlq_redrives d CROSS JOIN (SELECT clock_timestamp() AS at) AS c
 WHERE d.tenant_id = $1 AND d.id = $2 AND d.state = 'RUNNING'
   FOR NO KEY UPDATE OF d SKIP LOCKED`

// errNotRunning is told to who finds that a redrive does not run, or that another
// node is at it.
var errNotRunning = errors.New("the redrive is not running, or another node is working on it")

// TakeItems implements dlq.Redrives. Of an Ordered key, and with the order
// PER_KEY of any key, only the first letter that is not through is taken.
func (st *Redrives) TakeItems(ctx context.Context, r dlq.Redrive, kinds []dlq.TargetKind, lease time.Duration, limit int) ([]dlq.Drive, error) {
	var drives []dlq.Drive
	err := st.db.inRead(ctx, func(tx *sqlx.Tx) error {
		t := taking{st: st, tx: tx, kinds: kinds, lease: lease, seqs: map[uuid.UUID]int64{}}
		if err := t.begin(ctx, r, limit); err != nil {
			return err
		}
		if err := t.look(ctx); err != nil {
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
	return drives, outage("take letters of a redrive", err)
}

// taking is one call of TakeItems. The redrive's row is locked.
type taking struct {
	st        *Redrives
	tx        *sqlx.Tx
	r         dlq.Redrive
	kinds     []dlq.TargetKind
	lease     time.Duration
	at        time.Time
	allowance float64
	n         int // letters that may be taken
	chosen    []uuid.UUID
	seqs      map[uuid.UUID]int64 // of the chosen
	skipped   []skipped
}

// skipped is an item that is not to be driven, and why.
type skipped struct {
	seq int64
	why string
}

func (t *taking) begin(ctx context.Context, r dlq.Redrive, limit int) (err error) {
	var planner string
	t.r, err = scanRedrive(t.tx.QueryRowContext(ctx, lockRunning, r.TenantID, r.ID), &t.at, &t.allowance, &planner)
	if errors.Is(err, sql.ErrNoRows) {
		return errNotRunning
	}
	if err != nil {
		return err
	}
	t.n = min(limit, int(t.allowance))
	canary := t.r.Canary
	if t.r.CanaryOK {
		canary = nil
	}
	if canary != nil || t.r.StopOn != (dlq.StopOn{}) {
		var busy int64
		err := t.tx.GetContext(ctx, &busy, `SELECT count(*) FROM dlq.dlq_redrive_items i WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND i.state = 'TAKEN'`, r.TenantID, r.ID)
		if err != nil {
			return err
		}
		t.n = int(min(int64(t.n), t.r.Room(busy)))
		if canary != nil {
			t.n = min(t.n, max(0, canary.Count-int(t.r.Matched-t.r.Left())-int(busy)))
		}
	}
	if t.n == 0 {
		return errNotRunning
	}
	return nil
}

// look finds the letters to take: among as many as may be taken, and only if that
// was not enough among more.
func (t *taking) look(ctx context.Context) error {
	limits := []int{t.n, t.n + takeWindow}
	if t.r.Order == dlq.PerKey {
		limits = limits[1:] // some wait nearly always
	}
	for _, limit := range limits {
		candidates, err := t.candidates(ctx, limit)
		if err != nil {
			return err
		}
		if t.choose(candidates); len(t.chosen) == t.n || len(candidates) < limit {
			break
		}
	}
	return nil
}

// candidate is a waiting letter of a redrive.
type candidate struct {
	seq     int64
	id      uuid.UUID
	status  dlq.Status // "": it is gone
	topic   string
	key     []byte // nil: none
	to      dlq.Target
	blocked string // state of the item of the older letter that it waits for; "-": that is not of this redrive
}

// keyOf is what letters of one key have in common; "": it has none.
func (c *candidate) keyOf() string {
	if c.key == nil {
		return ""
	}
	return c.topic + "\x00" + string(c.key)
}

// waitingItems are the next letters of a redrive, with what keeps them from being
// taken: the oldest open letter of their key, and whether this redrive will come
// to that one before.
const waitingItems = `
SELECT i.seq, i.message_id, coalesce(m.status, ''), coalesce(m.original_topic, ''), m.message_key, coalesce(m.target, '{}'),
       CASE WHEN m.ordered THEN (
	SELECT coalesce((SELECT x.state FROM dlq.dlq_redrive_items x WHERE x.redrive_id = $2 AND x.message_id = o.id), '-')
	  FROM dlq.dlq_messages o WHERE ` + olderOfKey + ` ORDER BY o.seq LIMIT 1) END
  FROM (SELECT w.seq, w.message_id FROM dlq.dlq_redrive_items w
         WHERE w.tenant_id = $1 AND w.redrive_id = $2 AND w.state = 'WAITING' ORDER BY w.seq LIMIT $3) AS i
  LEFT JOIN dlq.dlq_messages m ON m.tenant_id = $1 AND m.id = i.message_id
 ORDER BY i.seq`

func (t *taking) candidates(ctx context.Context, limit int) ([]candidate, error) {
	rows, err := t.tx.QueryContext(ctx, waitingItems, t.r.TenantID, t.r.ID, limit)
	if err != nil {
		return nil, err
	}
	var all []candidate
	err = eachRow(rows, func() error {
		var c candidate
		var target []byte
		var blocked sql.NullString
		if err := rows.Scan(&c.seq, &c.id, &c.status, &c.topic, &c.key, &target, &blocked); err != nil {
			return err
		}
		c.blocked = blocked.String
		l := dlq.Letter{OriginalTopic: c.topic}
		if err := unmarshalTarget(target, &l.Target); err != nil {
			return err
		}
		c.to = l.Destination(t.r.Target)
		all = append(all, c)
		return nil
	})
	if err != nil || t.r.Order != dlq.PerKey {
		return all, err
	}
	return all, t.perKey(ctx, all)
}

// perKey opens the keys of the candidates, and blocks those whose key is being
// driven or has failed.
func (t *taking) perKey(ctx context.Context, all []candidate) error {
	state := map[string]string{} // of the key: TAKEN or FAILED
	rows, err := t.tx.QueryContext(ctx, `
		SELECT i.state, i.message_id, m.original_topic, m.message_key FROM dlq.dlq_redrive_items i
		  JOIN dlq.dlq_messages m ON m.tenant_id = i.tenant_id AND m.id = i.message_id
		 WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND i.state IN ('TAKEN', 'FAILED') AND m.message_key IS NOT NULL`, t.r.TenantID, t.r.ID)
	if err != nil {
		return err
	}
	err = eachRow(rows, func() error {
		var c candidate
		var is string
		if err := rows.Scan(&is, &c.id, &c.topic, &c.key); err != nil {
			return err
		}
		if err := t.open(&c); err != nil {
			return err
		}
		if k := c.keyOf(); state[k] != string(dlq.ItemFailed) {
			state[k] = is
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range all {
		c := &all[i]
		if err := t.open(c); err != nil {
			return err
		}
		if c.blocked == "" {
			c.blocked = state[c.keyOf()]
		}
	}
	return nil
}

// open replaces a sealed key by what it is.
func (t *taking) open(c *candidate) (err error) {
	place := t.st.db.keys.SealerFor(t.r.TenantID, c.id)
	c.key, err = place.OpenBytes(fieldLetterKey, c.key)
	return err
}

// choose decides which candidates are taken and which are skipped; the others
// go on waiting.
func (t *taking) choose(all []candidate) {
	t.chosen, t.skipped = nil, nil
	busy := map[string]bool{}
	skip := func(c *candidate, why string, args ...any) {
		t.skipped = append(t.skipped, skipped{c.seq, fmt.Sprintf(why, args...)})
	}
	for i := range all {
		c := &all[i]
		key := ""
		if t.r.Order == dlq.PerKey {
			key = c.keyOf()
		}
		switch {
		case len(t.chosen) == t.n:
			return
		case c.status == "":
			skip(c, "it is archived or deleted")
		case c.status != dlq.Pending && !(c.status == dlq.Dead && t.r.Force):
			skip(c, "it is %s", c.status)
		case !slices.Contains(t.kinds, c.to.Kind):
			skip(c, "target kind %s is not configured on this server", c.to.Kind)
		case c.blocked == string(dlq.ItemFailed):
			skip(c, "an older dead letter with the same key has failed")
		case c.blocked == string(dlq.ItemWaiting), c.blocked == string(dlq.ItemTaken), key != "" && busy[key]:
		case c.blocked != "":
			skip(c, "an older dead letter with the same key is open")
		default:
			t.chosen = append(t.chosen, c.id)
			t.seqs[c.id] = c.seq
			busy[key] = true
		}
	}
}

// claimChosen passes over letters that somebody is changing at this moment, and
// those that somebody has changed since it began: they wait for the next time.
//
// Letters are looked up by their ids alone, and then changed by their place, which
// the lock keeps. Their tenant is compared afterwards: where nothing is known of
// the table yet, the planner takes an index of all that a tenant has for as good.
var claimChosen = `
WITH locked AS MATERIALIZED (
	SELECT x.tenant_id, x.place, x.seq, x.resolution, x.size
	  FROM unnest($3::uuid[]) AS c (id)
	 CROSS JOIN LATERAL (
		SELECT m.tenant_id, m.ctid AS place, m.seq, coalesce(m.resolution, '') AS resolution, coalesce(octet_length(m.payload_raw), 0) AS size
		  FROM dlq.dlq_messages m
		 WHERE m.id = c.id AND (` + leaves("m.status || ''", dlq.Claimed) + ` OR ` + leaves("m.status || ''", dlq.ForcedClaim) + ` AND $4)
		OFFSET 0 FOR NO KEY UPDATE OF m SKIP LOCKED) AS x
	 WHERE x.tenant_id = $1
), was AS MATERIALIZED (
	SELECT s.tenant_id, s.place, s.resolution FROM (
		SELECT l.tenant_id, l.place, l.resolution, sum(l.size) OVER (ORDER BY l.seq) - l.size AS before FROM locked l) AS s
	 WHERE s.before < $6
)
UPDATE dlq.dlq_messages m` + claimLetter + `, redrive_id = $5
  FROM was WHERE m.ctid = was.place AND m.tenant_id = was.tenant_id
RETURNING ` + letterColumns + `, m.attempts, was.resolution`

func (t *taking) claim(ctx context.Context) ([]dlq.Drive, error) {
	if len(t.chosen) == 0 {
		return nil, nil
	}
	rows, err := t.tx.QueryContext(ctx, claimChosen, t.r.TenantID, t.lease.Microseconds(), pq.Array(t.chosen), t.r.Force, t.r.ID, claimedBytes)
	if err != nil {
		return nil, err
	}
	var drives []dlq.Drive
	err = eachRow(rows, func() error {
		var d dlq.Drive
		var err error
		if d.Letter, err = scanLetter(t.st.db, rows, &d.Number, &d.Was); err != nil {
			return t.st.db.passOver(ctx, err)
		}
		d.Forced = d.Was != ""
		d.Send, d.To, d.Actor = d.Content, d.Destination(t.r.Target), t.r.Actor
		drives = append(drives, d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	place := map[uuid.UUID]int{}
	for i, id := range t.chosen {
		place[id] = i
	}
	slices.SortFunc(drives, func(a, b dlq.Drive) int { return place[a.ID] - place[b.ID] })
	return drives, revise(ctx, t.st.db, t.tx, drives)
}

// storeTaken notes what was claimed and what was skipped, and takes the claimed
// from the bucket. It finds items as finishItems does.
const storeTaken = `
WITH chosen AS MATERIALIZED (
	SELECT x.place FROM unnest($3::bigint[]) AS s (seq)
	 CROSS JOIN LATERAL (SELECT i.ctid AS place FROM dlq.dlq_redrive_items i WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND i.seq = s.seq OFFSET 0) AS x
), refused AS MATERIALIZED (
	SELECT s.why, x.place FROM unnest($5::bigint[], $6::text[]) AS s (seq, why)
	 CROSS JOIN LATERAL (SELECT i.ctid AS place FROM dlq.dlq_redrive_items i WHERE i.tenant_id = $1 AND i.redrive_id = $2 AND i.seq = s.seq OFFSET 0) AS x
), taken AS (
	UPDATE dlq.dlq_redrive_items i SET state = 'TAKEN', lease_until = clock_timestamp() + $4 * interval '1 microsecond', updated_at = clock_timestamp()
	  FROM chosen c WHERE i.ctid = c.place AND i.tenant_id = $1 AND i.state || '' = 'WAITING'
), passed AS (
	UPDATE dlq.dlq_redrive_items i SET state = 'SKIPPED', detail = r.why, updated_at = clock_timestamp()
	  FROM refused r WHERE i.ctid = r.place AND i.tenant_id = $1 AND i.state || '' = 'WAITING'
	RETURNING i.seq
)
UPDATE dlq.dlq_redrives d
   SET allowance = $7::double precision, granted_at = $8, skipped = d.skipped + p.n, updated_at = clock_timestamp(),
       progress_at = CASE WHEN p.n > 0 THEN clock_timestamp() ELSE d.progress_at END
  FROM (SELECT count(*) AS n FROM passed) AS p
 WHERE d.tenant_id = $1 AND d.id = $2`

func (t *taking) store(ctx context.Context, drives []dlq.Drive) error {
	taken := make([]int64, len(drives))
	for i := range drives {
		taken[i] = t.seqs[drives[i].ID]
	}
	seqs, whys := make([]int64, len(t.skipped)), make([]string, len(t.skipped))
	for i, s := range t.skipped {
		seqs[i], whys[i] = s.seq, s.why
	}
	_, err := t.tx.ExecContext(ctx, storeTaken, t.r.TenantID, t.r.ID, pq.Array(taken), t.lease.Microseconds(), pq.Array(seqs), pq.Array(whys),
		t.allowance-float64(len(drives)), t.at)
	return err
}
