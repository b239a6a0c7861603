package dlqdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// askedPlace is the place in Kafka of letter n of a batch.
type askedPlace struct {
	n      int
	tenant uuid.UUID
	*dlq.Position
}

var askedPlaces = postgres.NewTable(
	postgres.Int("n", func(r *askedPlace) *int { return &r.n }),
	postgres.UUID("tenant_id", func(r *askedPlace) *uuid.UUID { return &r.tenant }),
	postgres.Text("topic", func(r *askedPlace) *string { return &r.Topic }),
	postgres.Int("part", func(r *askedPlace) *int32 { return &r.Partition }),
	postgres.Int("place", func(r *askedPlace) *int64 { return &r.Offset }),
)

// storedThere is a letter that is already stored at the place of letter n.
type storedThere struct {
	n  int
	id uuid.UUID
}

var lettersThere = postgres.NewTable(
	postgres.Int("n", func(r *storedThere) *int { return &r.n }),
	postgres.UUID("id", func(r *storedThere) *uuid.UUID { return &r.id }),
)

// atPlaces finds the letters, live or archived, that are stored at the places of a batch.
var atPlaces = postgres.Named(`
SELECT k.n, m.id, m.dlq_topic_id
  FROM `+postgres.Unnest("k", askedPlaces.As("p"))+`
 CROSS JOIN LATERAL (
	SELECT m.id, m.dlq_topic_id, m.seq FROM dlq.dlq_messages m
	 WHERE m.tenant_id = k.tenant_id AND m.dlq_topic = k.topic AND m.dlq_partition = k.part AND m.dlq_offset = k.place
	UNION ALL
	SELECT m.id, m.dlq_topic_id, m.seq FROM dlq.dlq_messages_archive m
	 WHERE m.tenant_id = k.tenant_id
	   AND m.dlq_topic = k.topic
	   AND m.dlq_partition = k.part
	   AND m.dlq_offset = k.place) AS m
 ORDER BY k.n, m.seq`, askedPlaces.As("p"))

// atPlacesWhole reads the letters that atPlaces found, with their content.
var atPlacesWhole = postgres.Named(`
SELECT m.*, k.n
  FROM `+postgres.Unnest("k", lettersThere.As("t"))+`
 CROSS JOIN LATERAL (
	SELECT `+LetterColumns+`, NULL::timestamptz AS archived_at, NULL::text AS archive_reason
	  FROM dlq.dlq_messages m
	 WHERE m.id = k.id
	UNION ALL
	SELECT `+LetterColumns+`, m.archived_at, m.archive_reason FROM dlq.dlq_messages_archive m WHERE m.id = k.id
	 LIMIT 1) AS m
 ORDER BY k.n`, lettersThere.As("t"))

// arrival is a letter with a place and the time at which its record was written. A zero time means
// unknown.
type arrival struct {
	letter  *dlq.Letter
	written time.Time
}

// lockPlaces makes a transaction wait while another one stores places of the other form, with or
// without the id of a topic, than the batch. The lock is held until the transaction ends.
const lockPlaces = `SELECT dlq.lock_places($1::uuid[])`

func (a arrival) digest() uuid.UUID { return a.letter.Digest(a.written) }

// settlePlaces finds the letters of a batch whose records are already stored, and returns the ids
// of the stored letters. If the topic's id is missing on one of the two sides, the records are
// compared. If a place without an id is already taken by a different record, the digest of the
// record replaces the id, which changes the Place of the batch's letter. A letter without a place
// is left unchanged.
//
// Letters stored while this runs are not visible. They conflict with the INSERT, so the caller must
// then look again. Places of the other form, with or without an id, would not conflict; lockPlaces
// excludes them.
func settlePlaces(ctx context.Context, db *postgres.DB, ask postgres.QueryFunc,
	batch []arrival) (known map[int]uuid.UUID, err error) {
	asked := askedPlaces.Batch(len(batch))
	for i, a := range batch {
		if a.letter.Arrived != nil {
			asked.Add(&askedPlace{n: i, tenant: a.letter.TenantID, Position: a.letter.Arrived})
		}
	}
	if asked.Len() == 0 {
		return nil, nil //nolint:nilnil // none is stored
	}
	rows, err := ask(ctx, atPlaces.Text, atPlaces.Args(asked)...)
	if err != nil {
		return nil, fmt.Errorf("look at places in Kafka: %w", err)
	}
	known = map[int]uuid.UUID{}
	taken := map[int][]uuid.UUID{} // the ids of topics at a place
	var compare []storedThere
	err = postgres.EachRow(rows, func() error {
		var i int
		var id, topic uuid.UUID
		if err := rows.Scan(&i, &id, &topic); err != nil {
			return err
		}
		taken[i] = append(taken[i], topic)
		came, there := batch[i].letter.Arrived.KnownTopic(), dlq.Position{TopicID: topic}.KnownTopic()
		switch {
		case came == uuid.Nil && topic != uuid.Nil && topic == batch[i].digest():
			known[i] = id
		case came == uuid.Nil || there == uuid.Nil:
			compare = append(compare, storedThere{i, id})
		case came == there:
			known[i] = id
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at places in Kafka: %w", err)
	}
	if err := compareAt(ctx, db, ask, batch, known, compare); err != nil {
		return nil, fmt.Errorf("compare letters at the same place in Kafka: %w", err)
	}
	for i := range taken {
		l := batch[i].letter
		if _, is := known[i]; is || l.Arrived.KnownTopic() != uuid.Nil {
			continue
		}
		at := *l.Arrived
		at.TopicID = batch[i].digest()
		l.Arrived = &at
	}
	return known, nil
}

// compareAt adds to known the letters that have the same content as a stored one. A stored letter
// whose content cannot be decrypted equals no other letter, so any record read at its place is
// stored.
func compareAt(ctx context.Context, db *postgres.DB, ask postgres.QueryFunc, batch []arrival, known map[int]uuid.UUID,
	compare []storedThere) error {
	if len(compare) == 0 {
		return nil
	}
	there := lettersThere.Batch(len(compare))
	for i := range compare {
		there.Add(&compare[i])
	}
	rows, err := ask(ctx, atPlacesWhole.Text, atPlacesWhole.Args(there)...)
	if err != nil {
		return err
	}
	return postgres.EachRow(rows, func() error {
		var i int
		stored, err := scanAnyLetter(db, rows, &i)
		if err != nil {
			return db.PassOver(ctx, err)
		}
		if stored.Arrived != nil && batch[i].letter.SameRecord(&stored, batch[i].written) {
			known[i] = stored.ID
		}
		return nil
	})
}
