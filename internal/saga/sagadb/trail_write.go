package sagadb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// eventRow is a row of saga.audit_events, with its JSON in stored form.
type eventRow struct {
	trail.StoredEvent
	data, failure []byte
}

// finiteTime is the time of an event e. It guards against a time stored by another program that no
// client can read.
const finiteTime = `CASE WHEN isfinite(e.timestamp) THEN e.timestamp ELSE 'epoch' END`

// eventTable is saga.audit_events. Every column may be NULL when it is read, because a row may
// contain only the position that Trail.Feed has reached.
var eventTable = postgres.NewTable(
	postgres.Read("id", func(r *eventRow) any { return postgres.ScanOr(&r.ID, 0) }),
	postgres.Read("txid", func(r *eventRow) any { return postgres.ScanOr(&r.TxID, 0) }),
	postgres.UUID("saga_id", func(r *eventRow) *uuid.UUID { return &r.SagaID }),
	postgres.UUID("tenant_id", func(r *eventRow) *uuid.UUID { return &r.TenantID }),
	postgres.Text("event_type", func(r *eventRow) *eventtype.Type { return &r.Type }).Into(
		func(r *eventRow) any { return postgres.ScanOr(&r.Type, "") }),
	postgres.IntOr(saga.NoStep, "step_index", func(r *eventRow) *int { return &r.StepIndex }),
	postgres.TextOrEmpty("step_name", func(r *eventRow) *string { return &r.StepName }),
	postgres.IntOr(0, "attempt", func(r *eventRow) *int { return &r.Attempt }),
	postgres.Time("timestamp", func(r *eventRow) *time.Time { return &r.At }).ReadFrom(finiteTime).
		Into(func(r *eventRow) any { return postgres.ScanOr(&r.At, time.Time{}) }),
	postgres.JSON("event_data", func(r *eventRow) *[]byte { return &r.data }),
	postgres.IntOr(saga.NoState, "old_state", func(r *eventRow) *saga.State { return &r.Old }),
	postgres.IntOr(saga.NoState, "new_state", func(r *eventRow) *saga.State { return &r.New }),
	postgres.JSON("error", func(r *eventRow) *[]byte { return &r.failure }),
	postgres.Text("actor", func(r *eventRow) *string { return &r.Actor }).Into(
		func(r *eventRow) any { return postgres.ScanOr(&r.Actor, "") }),
	postgres.TextOrEmpty("request_id", func(r *eventRow) *string { return &r.RequestID }),
	postgres.TextOrNil("trace_id", func(r *eventRow) **string { return &r.TraceID }),
	postgres.TextOrNil("span_id", func(r *eventRow) **string { return &r.SpanID }),
	postgres.Bytes("digest", func(r *eventRow) *[]byte { return &r.Stored }),
)

var theEvents = eventTable.As("e")

// insertEvents is the statement that inserts theEvents, without its condition on e. Ids are
// assigned in the order of the batch.
var insertEvents = `
	INSERT INTO saga.audit_events (` + eventTable.Inserted() + `)
	SELECT ` + eventTable.Stored("") + `
	  FROM ` + postgres.Unnest("e", theEvents)

// eventBatch collects audit events.
type eventBatch struct {
	*postgres.Batch[eventRow]
	row eventRow
}

func newEventBatch(events int) *eventBatch {
	return &eventBatch{Batch: eventTable.Batch(events)}
}

func (b *eventBatch) add(e *saga.AuditEvent) (err error) {
	digest := e.Digest()
	b.row.AuditEvent, b.row.Stored = *e, append(b.row.Stored[:0], digest[:]...)
	b.row.data = e.Data
	b.row.failure, err = errorDoc(e.Error)
	b.Add(&b.row)
	return err
}

// PutEvent stores an event that belongs to no saga, in the transaction of the action that it
// describes.
func PutEvent(ctx context.Context, tx *sqlx.Tx, e *saga.AuditEvent) error {
	digest := e.Digest()
	row := eventRow{data: e.Data}
	row.AuditEvent, row.Stored = *e, digest[:]
	_, err := tx.ExecContext(ctx, insertOne.Text, insertOne.Args(eventTable.Row(&row))...)
	return err
}

var insertOne = postgres.Named(`INSERT INTO saga.audit_events (`+eventTable.Inserted()+`)
 VALUES (`+eventTable.Values("e")+`)`, theEvents)

// insertBatch inserts events in a transaction on one of the writers' connections.
var insertBatch = postgres.Named(insertEvents, theEvents)

// errorDoc returns a saga's error as JSON, or nil if there is none.
func errorDoc(e *saga.Error) ([]byte, error) {
	if e == nil {
		return nil, nil
	}
	return marshalError(e)
}

func marshalError(e *saga.Error) ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode error: %w", err)
	}
	return b, nil
}
