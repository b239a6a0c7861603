package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Events is jobrun.Events on PostgreSQL (A-05, S16).
type Events struct {
	db       *DB
	settings func(context.Context) (jobrun.Settings, error)
}

// NewEvents returns the events of db. settings returns the current settings.
func NewEvents(db *DB, settings func(context.Context) (jobrun.Settings, error)) *Events {
	return &Events{db, settings}
}

// fieldEventPayload names the payload of an event, which is sealed if encryption is on.
var fieldEventPayload = envelope.Field{Name: "jobs.event.payload"}

// dedupeWindow is how long an event's dedupe key is kept (S16).
func dedupeWindow(s jobrun.Settings) time.Duration {
	return time.Duration(s.Number(jobrun.EventDedupeHours) * float64(time.Hour))
}

// freeEventKey clears a dedupe key whose window has ended.
const freeEventKey = `
UPDATE jobs.events SET dedupe_key = NULL
 WHERE tenant_id = $1 AND event_type = $2 AND dedupe_key = $3 AND created_at <= now() - $4 * interval '1 microsecond'`

var insertEvent = postgres.Named(`
INSERT INTO jobs.events AS v (`+publishedEventTable.Inserted()+`) VALUES (`+publishedEventTable.Values("v")+`)
ON CONFLICT (tenant_id, event_type, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
RETURNING `+publishedEventColumns, publishedEventTable.As("v"))

func (db *DB) scanEvent(row postgres.Scanner, more ...any) (jobrun.PublishedEvent, error) {
	e, err := publishedEventTable.One(row, more...)
	if err != nil {
		return e.PublishedEvent, err
	}
	if e.record.Topic != "" {
		e.Record = &e.record
	}
	sealer := db.Keys.SealerFor(e.TenantID, e.ID)
	e.Payload, err = postgres.Unseal(&sealer, fieldEventPayload, e.payload)
	return e.PublishedEvent, err
}

// errEventsBusy means that other events repeatedly took and released a dedupe key.
var errEventsBusy = errors.New("the dedupe key of an event keeps being taken and released concurrently")

// publishEvent stores an event within tx, whose role must see the tenant. If another event used the
// dedupe key within the window, that event is returned, and created is false. source is the run
// that emits the event; zero means none.
func (db *DB) publishEvent(
	ctx context.Context, tx *sqlx.Tx, tenant, source uuid.UUID, e *jobrun.NewEvent, window time.Duration,
) (stored jobrun.PublishedEvent, created bool, err error) {
	row := publishedEvent{PublishedEvent: jobrun.PublishedEvent{NewEvent: *e, TenantID: tenant, SourceRunID: source}}
	sealer := db.Keys.SealerFor(tenant, e.ID)
	row.payload, err = postgres.Seal(&sealer, fieldEventPayload, e.Payload)
	if err != nil {
		return stored, false, err
	}
	for range 5 { // between the statements, the event with the key may be deleted or lose its key
		if e.DedupeKey != "" {
			if _, err := tx.ExecContext(ctx, freeEventKey, tenant, e.Type, e.DedupeKey, window.Microseconds()); err != nil {
				return stored, false, err
			}
		}
		stored, err = db.scanEvent(
			tx.QueryRowContext(ctx, insertEvent.Text, insertEvent.Args(publishedEventTable.Row(&row))...))
		if !errors.Is(err, sql.ErrNoRows) {
			return stored, err == nil, err
		}
		stored, err = db.scanEvent(tx.QueryRowContext(ctx, `SELECT `+publishedEventColumns+`
		  FROM jobs.events v
		 WHERE v.tenant_id = $1 AND v.event_type = $2 AND v.dedupe_key = $3`,
			tenant, e.Type, e.DedupeKey))
		if !errors.Is(err, sql.ErrNoRows) {
			return stored, false, err
		}
	}
	return stored, false, errEventsBusy
}

// Publish implements jobrun.Events.
func (st *Events) Publish(
	ctx context.Context, tenant uuid.UUID, e jobrun.NewEvent,
) (stored jobrun.PublishedEvent, created bool, err error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return stored, false, err
	}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		stored, created, err = st.db.publishEvent(ctx, tx, tenant, uuid.Nil, &e, dedupeWindow(settings))
		return err
	})
	if postgres.DataError(err) {
		return stored, false, fault.New(fault.Invalid, jobrun.CodeInvalid, "the database cannot store the content of this event").Because(err)
	}
	if err == nil && created {
		st.db.Hub.WantLeader()
	}
	return stored, created, postgres.Wrap("publish an event", err)
}

// listeners are the definitions of tenants that events may trigger.
var listeners = `
SELECT ` + DefinitionColumns + ` FROM jobs.job_definitions d
 WHERE d.tenant_id = ANY ($1::uuid[]) AND d.event_type IS NOT NULL AND d.enabled AND d.deleted_at IS NULL ORDER BY d.id`

// eventWithKey is the event whose dedupe key equals the given one and is still in effect.
var eventWithKey = `SELECT ` + publishedEventColumns + ` FROM jobs.events v
 WHERE v.tenant_id = $1 AND v.event_type = $2 AND v.dedupe_key = $3
   AND v.created_at > now() - $4 * interval '1 microsecond'`

// WouldPublish implements jobrun.Events.
func (st *Events) WouldPublish(
	ctx context.Context, tenant uuid.UUID, e jobrun.NewEvent,
) (before *jobrun.PublishedEvent, all []jobrun.Definition, err error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if e.DedupeKey != "" {
			stored, err := st.db.scanEvent(tx.QueryRowContext(ctx, eventWithKey, tenant, e.Type, e.DedupeKey,
				dedupeWindow(settings).Microseconds()))
			if !errors.Is(err, sql.ErrNoRows) {
				before = &stored
				return err
			}
		}
		rows, err := tx.QueryContext(ctx, listeners, pq.Array([]uuid.UUID{tenant}))
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			d, err := DefinitionTable.One(rows)
			if !d.Unreadable {
				all = append(all, d)
			}
			return err
		})
	})
	return before, all, postgres.Wrap("preview an event", err)
}

var getEvent = postgres.OfTenant(`SELECT `+publishedEventColumns+`
  FROM jobs.events v
 WHERE v.tenant_id = tenant.id AND v.id = $2`, "")

var getEventDeliveries = postgres.OfTenant(`SELECT `+eventDeliveryTable.Selected("d")+`
  FROM jobs.event_deliveries d WHERE d.tenant_id = tenant.id AND d.event_id = $2`, "ORDER BY definition_id")

// Event implements jobrun.Events.
func (st *Events) Event(ctx context.Context, tenant, id uuid.UUID) (e jobrun.PublishedEvent, err error) {
	missing := fault.New(fault.NotFound, jobrun.CodeEventNotFound, "there is no event %s", id)
	err = st.db.ReadOne(ctx, tenant, getEvent, missing, func(rows *sql.Rows) (err error) {
		e, err = st.db.scanEvent(rows)
		return err
	}, id)
	if err == nil {
		err = st.db.ReadTenant(ctx, tenant, getEventDeliveries, func(rows *sql.Rows) error {
			d, err := eventDeliveryTable.One(rows)
			e.Deliveries = append(e.Deliveries, d.EventDelivery)
			return err
		}, id)
	}
	if err == nil && e.SourceRunID != uuid.Nil {
		err = st.db.ReadTenant(ctx, tenant, getEventPublication, func(rows *sql.Rows) error {
			p, err := publicationTable.One(rows)
			e.Publication = &p.EventPublication
			return err
		}, id)
	}
	return e, postgres.Wrap("get an event", err)
}

// ListEvents implements jobrun.Events.
func (st *Events) ListEvents(
	ctx context.Context, tenant uuid.UUID, f jobrun.EventFilter, p page.ByTime,
) (found page.Of[jobrun.PublishedEvent], err error) {
	var w postgres.Where
	w.Add("v.tenant_id = ?", tenant)
	if f.Type != "" {
		w.Add("v.event_type = ?", f.Type)
	}
	if f.Processed != nil {
		w.Add("(v.processed_at IS NOT NULL) = ?", *f.Processed)
	}
	if f.CorrelationID != "" {
		w.Add("v.correlation_id = ?", f.CorrelationID)
	}
	if !f.From.IsZero() {
		w.Add("v.created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.Add("v.created_at < ?", f.To)
	}
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		var total int64
		if p.Total {
			most := int64(math.MaxInt64)
			if p.TotalCap > 0 {
				most = p.TotalCap + 1 // the extra row shows whether there are more
			}
			count := fmt.Sprintf(`SELECT count(*)
			  FROM (SELECT FROM jobs.events v WHERE %s LIMIT $%d) AS c`, w.Text(), len(w.Args)+1)
			if err := tx.GetContext(ctx, &total, count, append(w.Args[:len(w.Args):len(w.Args)], most)...); err != nil {
				return err
			}
		}
		l := postgres.NewestFirst{Columns: publishedEventColumns, From: "jobs.events v", At: "v.created_at", ID: "v.id"}
		found, err = postgres.ReadPage(ctx, tx, l, &w, p, st.db.scanEvent)
		found.Total = total
		found.CapTotal(p.TotalCap)
		return err
	})
	return found, postgres.Wrap("list events", err)
}
