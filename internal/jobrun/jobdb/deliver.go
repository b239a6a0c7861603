package jobdb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// Events trigger runs here (S16). The leader processes events in the order of their arrival. For
// each definition that an event matches, it stores a run, or the reason why there is none yet. The
// run's key is derived from the event and the definition, so there is never more than one run per
// event and definition.

var (
	// Events whose deliveries wait for a retry are skipped.
	undelivered = `
SELECT ` + publishedEventColumns + ` FROM jobs.events v
 WHERE v.processed_at IS NULL
   AND NOT EXISTS (SELECT FROM jobs.event_deliveries d WHERE d.event_id = v.id AND d.next_try_at > clock_timestamp())
 ORDER BY v.created_at, v.id LIMIT $1
   FOR UPDATE OF v SKIP LOCKED`

	triedBefore = `
SELECT d.event_id, d.definition_id, d.attempts, d.next_try_at IS NOT NULL
  FROM jobs.event_deliveries d
 WHERE d.event_id = ANY ($1::uuid[])`

	putDeliveries = postgres.Named(`
INSERT INTO jobs.event_deliveries AS d (`+eventDeliveryTable.Inserted()+`)
SELECT `+eventDeliveryTable.Stored("n")+` FROM `+postgres.Unnest("n", eventDeliveryTable.As("n"))+`
ON CONFLICT (event_id, definition_id) DO UPDATE
   SET run_id = excluded.run_id,
       attempts = excluded.attempts,
       error = excluded.error,
       delivered_at = excluded.delivered_at,
       next_try_at = excluded.next_try_at, letter_id = excluded.letter_id`, eventDeliveryTable.As("n"))

	processed = `
UPDATE jobs.events v SET processed_at = clock_timestamp()
 WHERE v.id = ANY ($1::uuid[])
   AND NOT EXISTS (SELECT FROM jobs.event_deliveries d WHERE d.event_id = v.id AND d.next_try_at IS NOT NULL)`
)

// delivery is an event that is to be delivered to a definition.
type delivery struct {
	event *jobrun.PublishedEvent
	to    *jobrun.Definition
	tries int // earlier attempts
	args  json.RawMessage
	run   jobrun.Run
	err   error // why no run was created
}

// Deliver implements jobrun.Events.
func (st *Events) Deliver(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	var swept jobrun.Swept
	var runs []jobrun.Run
	var created []bool
	err := st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		runs, created, swept = nil, nil, jobrun.Swept{}
		events, err := st.undelivered(ctx, tx, limit)
		if err != nil || len(events) == 0 {
			return err
		}
		swept = jobrun.Swept{Moved: len(events), More: len(events) == limit}
		var now time.Time
		if err := tx.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
			return err
		}
		m := st.db.At(now)
		all, err := st.deliveries(ctx, tx, events, m.Now)
		if err != nil {
			return err
		}
		for i := range all {
			all[i].prepare(s, m)
		}
		if runs, created, err = st.insert(ctx, tx, all); err != nil {
			return err
		}
		return st.settle(ctx, tx, events, all, m)
	})
	if err != nil {
		return jobrun.Swept{}, postgres.Wrap("deliver events", err)
	}
	st.db.RunsCreated(runs, created)
	return swept, nil
}

func (st *Events) undelivered(ctx context.Context, tx *sqlx.Tx, limit int) (events []jobrun.PublishedEvent, err error) {
	rows, err := st.db.QueryIn(ctx, tx, undelivered, limit)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		e, err := st.db.scanEvent(rows)
		if err != nil {
			return st.db.PassOver(ctx, err)
		}
		events = append(events, e)
		return nil
	})
	return events, err
}

// deliveries returns the due events, each with the definitions to which it must be delivered. If an
// event was attempted before, only its failed deliveries are returned.
func (st *Events) deliveries(
	ctx context.Context, tx *sqlx.Tx, events []jobrun.PublishedEvent, now time.Time,
) ([]delivery, error) {
	var tenants, ids []uuid.UUID
	for i := range events {
		tenants, ids = append(tenants, events[i].TenantID), append(ids, events[i].ID)
	}
	of := map[uuid.UUID][]*jobrun.Definition{}
	rows, err := st.db.QueryIn(ctx, tx, listeners, pq.Array(tenants))
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			d, err := DefinitionTable.One(rows)
			if !d.Unreadable {
				of[d.TenantID] = append(of[d.TenantID], &d)
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	type try struct {
		tries int
		open  bool
	}
	before := map[uuid.UUID]map[uuid.UUID]try{}
	rows, err = st.db.QueryIn(ctx, tx, triedBefore, pq.Array(ids))
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			var event, definition uuid.UUID
			var t try
			err := rows.Scan(&event, &definition, &t.tries, &t.open)
			if before[event] == nil {
				before[event] = map[uuid.UUID]try{}
			}
			before[event][definition] = t
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	var all []delivery
	for i := range events {
		e := &events[i]
		for _, d := range of[e.TenantID] {
			t := before[e.ID][d.ID]
			if !e.Matches(d, now) || before[e.ID] != nil && !t.open {
				continue
			}
			all = append(all, delivery{event: e, to: d, tries: t.tries})
		}
	}
	return all, nil
}

// prepare returns the run of a delivery without storing it.
func (d *delivery) prepare(s jobrun.Settings, m jobrun.Moment) {
	if d.args, d.err = d.to.Spec.Event.ArgsOf(d.event); d.err != nil {
		return
	}
	schema, err := jobrun.ParseSchema(d.to.Spec.ArgsSchema)
	if err == nil {
		err = schema.Check("", d.args)
	}
	if d.err = err; err == nil {
		d.run = jobrun.New(d.to, jobrun.EventRequest(d.event, d.to, d.args), s, m)
	}
}

// insert stores the runs of deliveries: all at once, or one at a time if the database rejects one
// of them.
func (st *Events) insert(
	ctx context.Context, tx *sqlx.Tx, all []delivery,
) (runs []jobrun.Run, created []bool, err error) {
	var places []int
	for i := range all {
		if all[i].err == nil {
			places, runs = append(places, i), append(runs, all[i].run)
		}
	}
	if created, err = st.guarded(ctx, tx, runs); postgres.DataError(err) {
		created = make([]bool, len(runs))
		for n := range runs {
			var one []bool
			if one, err = st.guarded(ctx, tx, runs[n:n+1]); err == nil {
				created[n] = one[0]
			} else if all[places[n]].err = err; postgres.DataError(err) {
				err = nil
			} else {
				break
			}
		}
	}
	for n, i := range places {
		if err == nil && !created[n] && all[i].err == nil {
			all[i].run, err = st.db.runOfKey(ctx, tx, runs[n].TenantID, runs[n].IdempotencyKey)
		}
	}
	return runs, created, err
}

// guarded calls InsertRuns within a savepoint, so that tx remains usable after a failure.
func (st *Events) guarded(ctx context.Context, tx *sqlx.Tx, runs []jobrun.Run) ([]bool, error) {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT runs`); err != nil {
		return nil, err
	}
	created, err := st.db.InsertRuns(ctx, tx, runs)
	end := `RELEASE SAVEPOINT runs`
	if postgres.DataError(err) {
		end = `ROLLBACK TO SAVEPOINT runs`
	} else if err != nil {
		return nil, err
	}
	if _, failed := tx.ExecContext(ctx, end); failed != nil {
		return nil, failed
	}
	return created, err
}

// settle records the results of the deliveries and of their events. It stores a dead letter for
// each delivery whose retries are exhausted.
func (st *Events) settle(
	ctx context.Context, tx *sqlx.Tx, events []jobrun.PublishedEvent, all []delivery, m jobrun.Moment,
) error {
	batch := eventDeliveryTable.Batch(len(all))
	var told []dlqdb.LetterUpdate
	for i := range all {
		d := &all[i]
		row := eventDelivery{d.event.ID, d.event.TenantID, jobrun.EventDelivery{DefinitionID: d.to.ID, Attempts: d.tries + 1}}
		if d.err == nil {
			row.RunID, row.DeliveredAt = d.run.ID, &m.Now
		} else {
			why := whyRefused(d.err)
			if d.tries+1 < jobrun.DeliveryRetry.MaxAttempts {
				row.NextTryAt = new(m.Now.Add(jobrun.DeliveryRetry.Delay(d.tries+1, m.Jitter, 0)))
			} else {
				l := jobrun.Undelivered(d.event, d.to, d.args, why, m)
				row.LetterID = l.ID
				told = append(told, dlqdb.LetterUpdate{
					SourceUpdate: &dlq.SourceUpdate{Outcome: dlq.GaveUp, Letter: l},
					Tenant:       l.TenantID,
					At:           dlq.Moment{Now: m.Now},
				})
			}
			row.Error = jobrun.StoredReason(why)
		}
		batch.Add(&row)
	}
	if len(all) > 0 {
		if err := st.db.ExecIn(ctx, tx, putDeliveries.Text, putDeliveries.Args(batch)...); err != nil {
			return err
		}
	}
	if err := st.db.Tell.UpdateLetters(ctx, tx, told, nil); err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(events))
	for i := range events {
		ids[i] = events[i].ID
	}
	return st.db.ExecIn(ctx, tx, processed, pq.Array(ids))
}

// whyRefused explains in one line why no run was created.
func whyRefused(err error) string {
	if postgres.DataError(err) {
		return "the database cannot store its arguments"
	}
	if f := fault.As(err); f != nil {
		return fmt.Sprintf("its arguments do not match the definition: %s", f.Detail)
	}
	return err.Error()
}
