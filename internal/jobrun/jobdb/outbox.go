package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// An event that is to be published to a Kafka topic has an additional row in the outbox. Unsent
// rows are found by their state instead of by a cursor, so that late commits are not missed.

// publication is a row of jobs.event_publications.
type publication struct {
	event, tenant uuid.UUID
	key           string
	jobrun.EventPublication
}

var publicationTable = postgres.NewTable(
	postgres.UUID("event_id", func(p *publication) *uuid.UUID { return &p.event }),
	postgres.UUID("tenant_id", func(p *publication) *uuid.UUID { return &p.tenant }),
	postgres.Text("topic", func(p *publication) *string { return &p.Topic }),
	postgres.Text("key", func(p *publication) *string { return &p.key }),
	postgres.Time("created_at", func(p *publication) *time.Time { return &p.CreatedAt }).From("clock_timestamp()"),
	postgres.TimeOrNil("ended_at", func(p *publication) **time.Time { return &p.EndedAt }).ReadOnly(),
	postgres.Text("error", func(p *publication) *string { return &p.Error }).ReadOnly(),
	postgres.UUIDOrZero("letter_id", func(p *publication) *uuid.UUID { return &p.LetterID }).ReadOnly(),
)

var (
	insertPublication = postgres.Named(`
INSERT INTO jobs.event_publications AS p (`+publicationTable.Inserted()+`) VALUES (`+publicationTable.Values("p")+`)`,
		publicationTable.As("p"))

	unsent = `
SELECT ` + publishedEventColumns + `, p.topic, p.key, p.created_at
  FROM jobs.event_publications p JOIN jobs.events v ON v.id = p.event_id
 WHERE p.ended_at IS NULL ORDER BY p.position LIMIT $1`

	// Locking the term's row makes a takeover wait.
	termOfPublication = `SELECT true FROM saga.publications p WHERE p.name = $1 AND p.epoch = $2 FOR SHARE`

	endPublications = `
UPDATE jobs.event_publications p
   SET ended_at = clock_timestamp()
 WHERE p.event_id = ANY ($1::uuid[]) AND p.ended_at IS NULL`

	refusePublication = `
UPDATE jobs.event_publications p
   SET ended_at = clock_timestamp(), error = $2, letter_id = $3
 WHERE p.event_id = $1 AND p.ended_at IS NULL`

	getEventPublication = postgres.OfTenant(`SELECT `+publicationTable.Selected("p")+`
  FROM jobs.event_publications p WHERE p.tenant_id = tenant.id AND p.event_id = $2`, "")
)

// publishLater schedules the publication of an event of r to the topic that r's definition names
// for it, in the transaction that stores the event.
func (db *DB) publishLater(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, e *jobrun.NewEvent) error {
	spec, err := db.specOf(ctx, tx, r)
	if err != nil {
		return err
	}
	topic := spec.TopicOf(e.Type)
	if topic == "" {
		return nil
	}
	p := publication{event: e.ID, tenant: r.TenantID, key: r.RecordKey(e)}
	p.Topic = topic
	_, err = tx.ExecContext(ctx, insertPublication.Text, insertPublication.Args(publicationTable.Row(&p))...)
	return err
}

// Unsent implements jobrun.Outbox.
func (st *Events) Unsent(ctx context.Context, limit int) (all []jobrun.Outgoing, err error) {
	rows, err := st.db.QueryRead(ctx, unsent, limit)
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			var o jobrun.Outgoing
			var err error
			if o.Event, err = st.db.scanEvent(rows, &o.Topic, &o.Key, &o.CreatedAt); err != nil {
				return st.db.PassOver(ctx, err)
			}
			postgres.UTC(&o.CreatedAt)
			all = append(all, o)
			return nil
		})
	}
	return all, postgres.Wrap("read the events to be published", err)
}

// Sent implements jobrun.Outbox.
func (st *Events) Sent(
	ctx context.Context, name string, epoch int64, sent []uuid.UUID, refused []jobrun.RefusedEvent,
) (ours bool, err error) {
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &ours, termOfPublication, name, epoch)
		if ours = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, endPublications, pq.Array(sent)); err != nil {
			return err
		}
		var letters []dlqdb.LetterUpdate
		for i := range refused {
			f := &refused[i]
			res, err := tx.ExecContext(ctx, refusePublication, f.ID, jobrun.StoredReason(f.Why), f.Letter.ID)
			is, err := postgres.ChangedOne(res, "record that a topic refused an event", err)
			if err != nil {
				return err
			}
			if is {
				letters = append(letters, dlqdb.LetterUpdate{
					SourceUpdate: &dlq.SourceUpdate{Outcome: dlq.GaveUp, Letter: f.Letter},
					Tenant:       f.Letter.TenantID,
					At:           dlq.Moment{Now: f.Letter.CreatedAt},
				})
			}
		}
		return st.db.Tell.UpdateLetters(ctx, tx, letters, nil)
	})
	return ours, postgres.Wrap("record which events were published", err)
}
