package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/principal"
)

// pushLetters stores a batch and returns the letters that are new.
var pushLetters = postgres.Named(`WITH `+insertLetters+` SELECT s.id, s.seq
  FROM stored s`, newLetterRows, newGroups, newTerms)

// pushAudited extends pushLetters by the audit record of the push: one action for each tenant with
// a new letter in the batch, stored in the transaction of the letters. If there is one such letter,
// it is the subject of the action. If there are several, the action names all of them; their number
// is limited because batches are bounded. Letters from Kafka are stored by pushLetters, without
// actions.
var pushAudited = postgres.Named(`WITH `+insertLetters+`, told AS (
	INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb, detail, actor, reason, request_id,
	                                credential_id, address, operation)
	SELECT a.id,
	       a.tenant_id,
	       now(),
	       '`+string(operator.DeadLetter)+`',
	       CASE p.letters WHEN 1 THEN p.ids->>0 ELSE '*' END,
	       '`+dlq.VerbPush+`',
	       nullif(CASE WHEN p.letters > 1 THEN jsonb_build_object('letters', p.letters, 'ids', p.ids) ELSE '{}' END
	              || coalesce(nullif(@named, ''), '{}')::jsonb, '{}'),
	       @actor::text, @reason::text, @request_id::text, @credential::uuid, @address::text, @operation::text
	  FROM unnest(@action_ids::uuid[], @tenants::uuid[]) AS a (id, tenant_id)
	 CROSS JOIN LATERAL (SELECT count(*) AS letters, jsonb_agg(s.id ORDER BY s.seq) AS ids
	                       FROM stored s
	                      WHERE s.tenant_id = a.tenant_id) AS p
	 WHERE p.letters > 0
) SELECT s.id, s.seq FROM stored s`, newLetterRows, newGroups, newTerms,
	postgres.Single("action_ids", "tenants", "actor", "reason", "request_id", "credential", "address", "operation",
		"named"))

// knownLetters finds the letters that prevented others from being stored. They are found by id (of
// any tenant, live or archived), by dedupe key, and by place in Kafka or the id of the letter that
// settlePlaces found there.
var knownLetters = `
SELECT m.*, k.n
  FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::integer[], $7::bigint[], $8::uuid[],
              $9::uuid[])
       AS k (n, tenant_id, id, dedupe_key, topic, part, place, topic_id, double)
 CROSS JOIN LATERAL (
	SELECT ` + LetterColumns + `, NULL::timestamptz AS archived_at, NULL::text AS archive_reason
	  FROM dlq.dlq_messages m
	 WHERE m.id = k.id
	UNION ALL
	SELECT ` + LetterColumns + `, m.archived_at, m.archive_reason FROM dlq.dlq_messages_archive m WHERE m.id = k.id
	UNION ALL
	SELECT ` + LetterColumns + `, NULL, NULL
	  FROM dlq.dlq_messages m
	 WHERE m.tenant_id = k.tenant_id AND m.dedupe_key = k.dedupe_key
	UNION ALL
	SELECT ` + LetterColumns + `, NULL, NULL FROM dlq.dlq_messages m WHERE m.id = k.double
	UNION ALL
	SELECT ` + LetterColumns + `, m.archived_at, m.archive_reason FROM dlq.dlq_messages_archive m WHERE m.id = k.double
	UNION ALL
	SELECT ` + LetterColumns + `, NULL, NULL FROM dlq.dlq_messages m
	 WHERE m.tenant_id = k.tenant_id
	   AND m.dlq_topic = k.topic
	   AND m.dlq_partition = k.part
	   AND m.dlq_offset = k.place
	   AND m.dlq_topic_id = k.topic_id
	UNION ALL
	SELECT ` + LetterColumns + `, m.archived_at, m.archive_reason FROM dlq.dlq_messages_archive m
	 WHERE m.tenant_id = k.tenant_id
	   AND m.dlq_topic = k.topic
	   AND m.dlq_partition = k.part
	   AND m.dlq_offset = k.place
	   AND m.dlq_topic_id = k.topic_id
	 LIMIT 1) AS m`

// pushTries is the number of times that a push is repeated if the conflicting letter is gone by the
// time it is looked up.
const pushTries = 3

var errConflictGone = errors.New("a dead letter conflicts with a letter that cannot be found")

// Push implements dlq.Letters. A dedupe key is recognized while its letter is live; archiving or
// deleting the letter frees the key.
func (st *Letters) Push(ctx context.Context, batch []dlq.Letter) ([]dlq.Pushed, error) {
	return st.push(ctx, batch, pushTries)
}

func (st *Letters) push(ctx context.Context, batch []dlq.Letter, tries int) ([]dlq.Pushed, error) {
	if tries == 0 {
		return nil, fmt.Errorf("push dead letters: %w", errConflictGone)
	}
	batch = slices.Clone(batch)
	asked := make([]arrival, len(batch))
	for i := range batch {
		asked[i].letter = &batch[i]
	}
	doubles, err := settlePlaces(ctx, st.db, st.db.QueryWrite, asked)
	if err != nil {
		return nil, fmt.Errorf("push dead letters: %w", err)
	}
	fresh := batch
	if len(doubles) > 0 {
		fresh = nil
		for i := range batch {
			if _, is := doubles[i]; !is {
				fresh = append(fresh, batch[i])
			}
		}
	}
	stored, err := postgres.RetryCollision(func() (map[uuid.UUID]int64, error) { return st.insert(ctx, fresh) })
	switch {
	case err == nil:
	case postgres.DataError(err) && len(batch) > 1:
		return postgres.OneByOne(batch, func(one []dlq.Letter) ([]dlq.Pushed, error) { return st.push(ctx, one, tries) })
	case postgres.DataError(err):
		refused := fault.New(fault.Invalid, dlq.CodeInvalid, "the database cannot store the dead letter").Because(err)
		return []dlq.Pushed{{Letter: batch[0], Err: refused}}, nil
	default:
		return nil, fmt.Errorf("push dead letters: %w", err)
	}
	out := make([]dlq.Pushed, len(batch))
	var left []int
	for i := range batch {
		seq, ok := stored[batch[i].ID]
		if !ok {
			left = append(left, i)
			continue
		}
		delete(stored, batch[i].ID) // only once, in case an id occurs twice
		out[i].Letter = batch[i]
		out[i].Letter.Seq = seq
	}
	if len(left) == 0 {
		return out, nil
	}
	return out, st.pushConflicting(ctx, batch, doubles, left, out, tries)
}

func (st *Letters) insert(ctx context.Context, batch []dlq.Letter) (map[uuid.UUID]int64, error) {
	c := batchOf(st.db, len(batch))
	for i := range batch {
		if err := c.add(ctx, &batch[i]); err != nil {
			return nil, err
		}
	}
	told := pushedBy(operator.Acting(ctx), st.db.NewID, batch)
	stored := make(map[uuid.UUID]int64, len(batch))
	err := st.db.WriteEach(ctx, pushAudited.Text, func(rows *sql.Rows) error {
		var id uuid.UUID
		var seq int64
		err := rows.Scan(&id, &seq)
		stored[id] = seq
		return err
	}, pushAudited.Args(c.bound(told)...)...)
	return stored, err
}

// pushedBy returns the parameters of pushAudited that pushLetters does not have.
func pushedBy(by operator.By, newID func() uuid.UUID, batch []dlq.Letter) postgres.Values {
	var ids, tenants []uuid.UUID
	for i := range batch {
		if slices.Contains(tenants, batch[i].TenantID) {
			continue
		}
		ids, tenants = append(ids, newID()), append(tenants, batch[i].TenantID)
	}
	return postgres.Values{
		pq.Array(ids), pq.Array(tenants), by.Actor, by.Reason, by.RequestID,
		uuid.NullUUID{UUID: by.Credential, Valid: by.Credential != uuid.Nil}, by.Address, by.Operation,
		string(principal.WithName(nil, by.ActorName)),
	}
}

// pushConflicting finds the letters that conflict with those at left, and pushes those letters
// again whose conflict is gone.
func (st *Letters) pushConflicting(ctx context.Context, batch []dlq.Letter, doubles map[int]uuid.UUID, left []int,
	out []dlq.Pushed, tries int) error {
	found, err := st.known(ctx, batch, doubles, left)
	if err != nil {
		return fmt.Errorf("look for known dead letters: %w", err)
	}
	var open []int
	var repeat []dlq.Letter
	for _, i := range left {
		if l, ok := found[i]; ok {
			if out[i] = (dlq.Pushed{Letter: l, Duplicate: true}); l.TenantID != batch[i].TenantID {
				taken := fault.New(fault.Conflict, dlq.CodeConflict, "dead letter %s already exists", batch[i].ID)
				out[i] = dlq.Pushed{Letter: batch[i], Err: taken}
			}
			continue
		}
		open = append(open, i)
		repeat = append(repeat, batch[i])
	}
	if open == nil {
		return nil
	}
	pushed, err := st.push(ctx, repeat, tries-1)
	if err != nil {
		return err
	}
	for k, i := range open {
		out[i] = pushed[k]
	}
	return nil
}

// known returns the stored letters that the letters at left duplicate.
func (st *Letters) known(ctx context.Context, batch []dlq.Letter, doubles map[int]uuid.UUID,
	left []int) (map[int]dlq.Letter, error) {
	n := make([]int64, len(left))
	tenants, ids := make([]uuid.UUID, len(left)), make([]uuid.UUID, len(left))
	keys, topics := make([]sql.NullString, len(left)), make([]sql.NullString, len(left))
	partitions, offsets := make([]sql.NullInt64, len(left)), make([]sql.NullInt64, len(left))
	lives, double := make([]uuid.NullUUID, len(left)), make([]uuid.NullUUID, len(left))
	for k, i := range left {
		l := &batch[i]
		n[k], tenants[k], ids[k] = int64(i), l.TenantID, l.ID
		keys[k] = sql.NullString{String: l.DedupeKey, Valid: l.DedupeKey != ""}
		if p := l.Arrived; p != nil {
			topics[k] = sql.NullString{String: p.Topic, Valid: true}
			partitions[k] = sql.NullInt64{Int64: int64(p.Partition), Valid: true}
			offsets[k] = sql.NullInt64{Int64: p.Offset, Valid: true}
			lives[k] = uuid.NullUUID{UUID: p.TopicID, Valid: true}
		}
		double[k].UUID, double[k].Valid = doubles[i]
	}
	rows, err := st.db.QueryRead(ctx, knownLetters, pq.Array(n), pq.Array(tenants), pq.Array(ids), pq.Array(keys),
		pq.Array(topics),
		pq.Array(partitions), pq.Array(offsets), pq.Array(lives), pq.Array(double))
	if err != nil {
		return nil, err
	}
	found := map[int]dlq.Letter{}
	return found, postgres.EachRow(rows, func() error {
		var i int
		l, err := scanAnyLetter(st.db, rows, &i)
		found[i] = l
		return err
	})
}
