package dlqdb

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// The parameters for a batch of new letters.
var (
	newLetterRows = messageTable.As("l")
	newGroups     = batchGroups.As("g")
	newTerms      = postgres.Single("terms")
)

// insertLetters is a list of WITH members that store a batch of letters, some of which may already
// be stored, in one statement on one of the writers' connections:
//
//   - stored (id, tenant_id, seq, original_topic, fingerprint, created_at): the
//     new letters, in the order of the batch. It omits letters whose dedupe key,
//     place in Kafka or id is already stored, including archived places and ids;
//     the stored letters are not changed. settlePlaces has already checked the
//     places without the topic's id.
//   - their groups, and their arrivals by topic and minute; a RESOLVED group becomes
//     REGRESSED, with an operator.Action without an actor.
//
// Rows are locked in the same order here and in insertNew, so that batches of two nodes wait for
// each other instead of deadlocking: letters as they are ordered in Kafka, groups and arrivals by
// key, known groups before new ones. One rare deadlock remains, between two batches with the same
// dedupe keys in different orders; the caller must retry.
//
// Hash joins are disabled on those connections, so nothing that is as long as the batch is joined
// here.
var insertLetters = `stored AS (
	INSERT INTO dlq.dlq_messages AS m (` + messageTable.Inserted() + `)
	SELECT ` + messageTable.Stored("l") + `
	  FROM ` + postgres.UnnestNumbered("l", newLetterRows) + `
	 WHERE (SELECT a.id
	          FROM dlq.dlq_messages_archive a
	         WHERE a.id = l.id) IS NULL -- NOT EXISTS would be a join, of the whole archive
	   AND (l.dlq_topic IS NULL OR (SELECT a.id FROM dlq.dlq_messages_archive a
	        WHERE a.tenant_id = l.tenant_id
	          AND a.dlq_topic = l.dlq_topic
	          AND a.dlq_partition = l.dlq_partition
	          AND a.dlq_offset = l.dlq_offset
	          AND a.dlq_topic_id = l.dlq_topic_id LIMIT 1) IS NULL)
	 ORDER BY l.dlq_topic, l.dlq_partition, l.dlq_offset, l.dlq_topic_id, l.n
	ON CONFLICT DO NOTHING
	RETURNING m.id, m.tenant_id, m.seq, m.original_topic, m.fingerprint, m.created_at
), known AS MATERIALIZED (
	` + lockGroups("(SELECT DISTINCT tenant_id, fingerprint FROM stored)") + `
), named AS MATERIALIZED (
	SELECT * FROM ` + postgres.Unnest("n", newGroups) + `
), grouped AS (
	INSERT INTO dlq.dlq_groups AS g (tenant_id, fingerprint, topic, error_type, message, received, first_seen, last_seen,
	                                 sample_id, updated_at)
	SELECT u.tenant_id,
	       u.fingerprint,
	       max(u.topic),
	       max(u.error_type),
	       max(u.message),
	       count(u.id),
	       min(u.created_at),
	       max(u.created_at),
	       (array_agg(u.id ORDER BY u.seq DESC) FILTER (WHERE u.id IS NOT NULL))[1], max(u.created_at)
	  FROM (SELECT n.tenant_id, n.fingerprint, n.topic, n.error_type, n.message, NULL::uuid AS id, NULL::bigint AS seq,
	        NULL::timestamptz AS created_at
	          FROM named n
	        UNION ALL
	        SELECT s.tenant_id, s.fingerprint, NULL, NULL, NULL, s.id, s.seq, s.created_at FROM stored s) AS u
	 WHERE (SELECT count(*) FROM known) >= 0 -- which are locked first
	 GROUP BY u.tenant_id, u.fingerprint
	HAVING count(u.id) > 0
	 ORDER BY u.tenant_id, u.fingerprint
	` + intoGroup + `
), regressed AS (
	` + regress + `
), counted AS (
	INSERT INTO dlq.dlq_arrivals AS a (tenant_id, topic, minute, received)
	SELECT s.tenant_id, s.original_topic, date_trunc('minute', s.created_at, 'UTC') AS minute, count(*)
	  FROM stored s
	 GROUP BY 1, 2, 3
	 ORDER BY 1, 2, 3
	` + intoArrivals + `
)`

// lockGroups locks the groups of a table that are already stored, in the same order for all
// batches.
func lockGroups(of string) string {
	return `SELECT g.tenant_id, g.fingerprint, g.state
	  FROM ` + of + ` AS s
	  JOIN dlq.dlq_groups g ON g.tenant_id = s.tenant_id AND g.fingerprint = s.fingerprint
	 ORDER BY g.tenant_id, g.fingerprint
	   FOR NO KEY UPDATE OF g`
}

// intoGroup adds to an existing group g.
const intoGroup = `ON CONFLICT (tenant_id, fingerprint) DO UPDATE
	   SET received = g.received + EXCLUDED.received, last_seen = greatest(g.last_seen, EXCLUDED.last_seen),
	       sample_id = CASE WHEN EXCLUDED.last_seen >= g.last_seen THEN EXCLUDED.sample_id ELSE g.sample_id END,
	       state = CASE g.state WHEN 'RESOLVED' THEN 'REGRESSED' ELSE g.state END,
	       version = CASE g.state WHEN 'RESOLVED' THEN g.version + 1 ELSE g.version END,
	       updated_at = CASE g.state WHEN 'RESOLVED' THEN EXCLUDED.updated_at ELSE g.updated_at END`

// intoArrivals adds to the arrivals a of a minute.
const intoArrivals = `ON CONFLICT (tenant_id, topic, minute) DO UPDATE SET received = a.received + EXCLUDED.received`

// regress records an action for each group in known and named that has been reopened.
const regress = `INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb)
	SELECT n.regression, n.tenant_id, now(), '` + string(operator.DeadGroup) + `', n.fingerprint, 'regress'
	  FROM known k JOIN named n ON n.tenant_id = k.tenant_id AND n.fingerprint = k.fingerprint
	 WHERE k.state = 'RESOLVED'`

// newLetters collects a batch of letters for insertLetters or arriveLetters.
type newLetters struct {
	db      *postgres.DB
	letters *postgres.Batch[letterRow]
	terms   postgres.BinaryColumn // of all letters, concatenated
	tally   tally

	row   letterRow // the letter being added
	found []int32
}

// batchOf returns an empty batch with room for about the given number of letters.
func batchOf(db *postgres.DB, letters int) *newLetters {
	return &newLetters{
		db: db, letters: messageTable.Batch(letters), terms: postgres.BinaryColumnOf(letters * commonTerms),
	}
}

// bound returns the values of newLetterRows, newGroups and newTerms.
func (c *newLetters) bound(more ...postgres.Bound) []postgres.Bound {
	groups := batchGroups.Batch(len(c.tally.groups))
	for i := range c.tally.groups {
		groups.Add(&c.tally.groups[i])
	}
	return append([]postgres.Bound{c.letters, groups, postgres.Values{c.terms.Parameter()}}, more...)
}

// add appends one letter, sealed if db has encryption.
func (c *newLetters) add(ctx context.Context, l *dlq.Letter) error {
	sealer := c.db.Keys.SealerFor(l.TenantID, l.ID)
	content, err := sealContent(&sealer, contentFields, l.Content)
	if err != nil {
		return err
	}
	stack, err := sealer.SealText(fieldLetterStack, l.Failure.Stack)
	if err != nil {
		return err
	}
	target, err := json.Marshal(l.Target)
	if err != nil {
		return fmt.Errorf("encode target: %w", err)
	}
	var order []byte
	if l.Ordered {
		if order, err = c.db.KeyDigest(ctx, l.TenantID, l.OriginalTopic, l.Content.Key); err != nil {
			return err
		}
	}
	c.found = letterTerms(c.found[:0], l, sealer.Seals())
	row := &c.row
	*row = letterRow{
		Letter: l, at: placeOf(l.Arrived), terms: int64(c.terms.N)<<termBits | int64(len(c.found)),
		key: content[0], headers: content[1], payload: content[2], stack: stack, target: target,
		order: order,
	}
	if l.Link.StepName != "" {
		row.stepIndex = &l.Link.StepIndex
	}
	if l.Encoding == dlq.JSON && len(l.Content.Payload) <= maxPayloadView && !sealer.Seals() {
		row.view = l.Content.Payload
	}
	c.letters.Add(row)
	for _, t := range c.found {
		c.terms.Int4(t)
	}
	c.tally.count(l, c.db.NewID)
	return nil
}

// termArray formats terms as a PostgreSQL array literal.
func termArray(terms []int32) string {
	b := append(make([]byte, 0, 12*len(terms)+2), '{')
	for i, t := range terms {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(t), 10)
	}
	return string(append(b, '}'))
}

// tally contains what a batch of letters adds to groups and arrivals if all of them are new, and
// the ranges of Kafka offsets that the batch covers.
type tally struct {
	groups   []groupRow
	of       map[groupKey]int // index in groups
	arrivals map[arrivalKey]int64
	spans    map[partitionKey]*span
}

type groupKey struct {
	tenant      uuid.UUID
	fingerprint string
}

// span is a range of offsets, including both ends.
type span struct{ first, last int64 }
