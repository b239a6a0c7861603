package jobdb

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// Events are read from Kafka records here. Each partition has a mark, the offset up to which its
// records are stored as events. The mark advances in the transaction that stores them, so a record
// that is read again after a crash, a rebalance or an offset reset lies below the mark (decision
// 0062).

// recordEvent is a row of jobs.events that was read from a record, with its payload as stored.
type recordEvent struct {
	*jobrun.RecordEvent
	payload []byte
}

var recordEventTable = postgres.NewTable(
	postgres.UUID("id", func(e *recordEvent) *uuid.UUID { return &e.ID }),
	postgres.UUID("tenant_id", func(e *recordEvent) *uuid.UUID { return &e.TenantID }),
	postgres.Text("event_type", func(e *recordEvent) *string { return &e.Type }),
	postgres.JSON("payload_json", func(e *recordEvent) *[]byte { return &e.payload }).Cast("::jsonb"),
	postgres.TextOrEmpty("dedupe_key", func(e *recordEvent) *string { return &e.DedupeKey }),
	postgres.TextOrEmpty("correlation_id", func(e *recordEvent) *string { return &e.CorrelationID }),
	postgres.TimeOrNil("occurred_at", func(e *recordEvent) **time.Time { return &e.OccurredAt }),
	postgres.TextOrEmpty("published_by", func(e *recordEvent) *string { return &e.By }),
	postgres.Text("source_topic", func(e *recordEvent) *string { return &e.Place.Topic }),
	postgres.Int("source_partition", func(e *recordEvent) *int32 { return &e.Place.Partition }),
	postgres.Int("source_offset", func(e *recordEvent) *int64 { return &e.Place.Offset }),
)

// partition is a partition of one incarnation of a topic, with its mark.
type partition struct {
	place
	next int64 // offset of the first record that is not stored yet
}

type place struct {
	topic     string
	life      uuid.UUID
	partition int32
}

var markTable = postgres.NewTable(
	postgres.Text("topic", func(p *partition) *string { return &p.topic }),
	postgres.UUID("topic_id", func(p *partition) *uuid.UUID { return &p.life }),
	postgres.Int("partition", func(p *partition) *int32 { return &p.place.partition }),
	postgres.Int("next_offset", func(p *partition) *int64 { return &p.next }),
)

// Marks are locked in key order, so that nodes with the same partitions wait for each other instead
// of deadlocking.
var (
	addMarks = postgres.Named(`
INSERT INTO jobs.event_sources (`+markTable.Inserted()+`, updated_at)
SELECT `+markTable.Stored("n")+`, clock_timestamp() FROM `+postgres.Unnest("n", markTable.As("n"))+`
 ORDER BY n.topic COLLATE "C", n.topic_id, n.partition
ON CONFLICT DO NOTHING`, markTable.As("n"))

	lockMarks = postgres.Named(`
SELECT `+markTable.Selected("s")+` FROM jobs.event_sources s
 WHERE (s.topic, s.topic_id, s.partition) IN (SELECT n.topic, n.topic_id, n.partition
                                                FROM `+postgres.Unnest("n", markTable.As("n"))+`)
 ORDER BY s.topic, s.topic_id, s.partition
   FOR UPDATE`, markTable.As("n"))

	moveMarks = postgres.Named(`
UPDATE jobs.event_sources s SET next_offset = n.next_offset, updated_at = clock_timestamp()
  FROM `+postgres.Unnest("n", markTable.As("n"))+`
 WHERE s.topic = n.topic AND s.topic_id = n.topic_id AND s.partition = n.partition`, markTable.As("n"))

	freeRecordKeys = postgres.Named(`
UPDATE jobs.events v SET dedupe_key = NULL
  FROM (SELECT DISTINCT n.tenant_id, n.event_type, n.dedupe_key FROM `+postgres.Unnest("n", recordEventTable.As("n"))+`
         WHERE n.dedupe_key IS NOT NULL) AS k
 WHERE v.tenant_id = k.tenant_id AND v.event_type = k.event_type AND v.dedupe_key = k.dedupe_key
   AND v.created_at <= now() - @window * interval '1 microsecond'`, recordEventTable.As("n"), postgres.Single("window"))

	// If several events have the same key, the first one is stored.
	insertRecords = postgres.Named(`
INSERT INTO jobs.events AS v (`+recordEventTable.Inserted()+`, created_at)
SELECT `+recordEventTable.Stored("n")+`, now() FROM `+postgres.UnnestNumbered("n", recordEventTable.As("n"))+`
 ORDER BY n.tenant_id, n.event_type, n.dedupe_key, n.n
ON CONFLICT (tenant_id, event_type, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
RETURNING v.id`, recordEventTable.As("n"))
)

// PublishRecords implements jobrun.RecordEvents.
func (st *Events) PublishRecords(ctx context.Context, batch []jobrun.RecordEvent) (stored int, err error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return 0, err
	}
	stored, err = postgres.RetryCollision(func() (n int, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			n, err = st.publishRecords(ctx, tx, batch, dedupeWindow(settings))
			return err
		})
		return n, err
	})
	if postgres.DataError(err) {
		return 0, fault.New(fault.Invalid, jobrun.CodeInvalid, "the database cannot store the content of an event").Because(err)
	}
	if err == nil && stored > 0 {
		st.db.Hub.WantLeader()
	}
	return stored, postgres.Wrap("publish the events of records", err)
}

func (st *Events) publishRecords(
	ctx context.Context, tx *sqlx.Tx, batch []jobrun.RecordEvent, window time.Duration,
) (stored int, err error) {
	marks, err := st.lockMarks(ctx, tx, batch)
	if err != nil {
		return 0, err
	}
	rows, moved := recordEventTable.Batch(len(batch)), map[place]int64{}
	for i := range batch {
		e := &batch[i]
		at := placeOf(e)
		if e.Place.Offset < marks[at] {
			continue // already stored
		}
		moved[at] = e.Place.Offset + 1
		row := recordEvent{RecordEvent: e}
		sealer := st.db.Keys.SealerFor(e.TenantID, e.ID)
		if row.payload, err = postgres.Seal(&sealer, fieldEventPayload, e.Payload); err != nil {
			return 0, err
		}
		rows.Add(&row)
	}
	if len(moved) == 0 {
		return 0, nil
	}
	if err := st.db.ExecIn(ctx, tx, freeRecordKeys.Text,
		freeRecordKeys.Args(rows, postgres.Values{window.Microseconds()})...); err != nil {
		return 0, err
	}
	inserted, err := st.db.QueryIn(ctx, tx, insertRecords.Text, insertRecords.Args(rows)...)
	if err == nil {
		err = postgres.EachRow(inserted, func() error { stored++; return inserted.Scan(new(uuid.UUID)) })
	}
	if err != nil {
		return 0, err
	}
	next := markTable.Batch(len(moved))
	for at, offset := range moved {
		next.Add(&partition{at, offset})
	}
	return stored, st.db.ExecIn(ctx, tx, moveMarks.Text, moveMarks.Args(next)...)
}

// lockMarks locks and returns the marks of the partitions in a batch.
func (st *Events) lockMarks(
	ctx context.Context, tx *sqlx.Tx, batch []jobrun.RecordEvent,
) (marks map[place]int64, err error) {
	all, seen := markTable.Batch(1), map[place]bool{}
	for i := range batch {
		if at := placeOf(&batch[i]); !seen[at] {
			seen[at] = true
			all.Add(&partition{place: at})
		}
	}
	if err := st.db.ExecIn(ctx, tx, addMarks.Text, addMarks.Args(all)...); err != nil {
		return nil, err
	}
	marks = make(map[place]int64, len(seen))
	var rows *sql.Rows
	if rows, err = st.db.QueryIn(ctx, tx, lockMarks.Text, lockMarks.Args(all)...); err != nil {
		return nil, err
	}
	return marks, postgres.EachRow(rows, func() error {
		p, err := markTable.One(rows)
		marks[p.place] = p.next
		return err
	})
}

func placeOf(e *jobrun.RecordEvent) place {
	return place{e.Place.Topic, e.Place.TopicID, e.Place.Partition}
}
