package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/erasure"
)

// This file implements trail.Chain, the trail as a chain of seals.

var readSpan = `
SELECT ` + storedColumns + withoutSaga + ` FROM saga.every_audit_event e
 WHERE e.tenant_id = $1 AND (e.txid, e.id) > ($2::xid8, $3::bigint) AND (e.txid, e.id) <= ($4::xid8, $5::bigint)
 ORDER BY e.txid, e.id LIMIT $6`

// Unsealed implements trail.Chain.
func (t *Trail) Unsealed(ctx context.Context) ([]trail.Unsealed, error) {
	return auditdb.OfEvents.UnsealedIn(ctx, t.db)
}

// Seal implements trail.Chain.
func (t *Trail) Seal(ctx context.Context, tenant uuid.UUID) (events int, err error) {
	return auditdb.OfEvents.SealIn(ctx, t.db, tenant)
}

// Seals implements trail.Chain.
func (t *Trail) Seals(ctx context.Context, tenant uuid.UUID, from int64, limit int) ([]trail.Seal, error) {
	return auditdb.OfEvents.SealsIn(ctx, t.db, tenant, from, limit)
}

// Span implements trail.Chain.
func (t *Trail) Span(ctx context.Context, tenant uuid.UUID, after, upTo trail.Position,
	limit int) ([]trail.StoredEvent, error) {
	var events []trail.StoredEvent
	err := t.db.ListTenant(ctx, tenant, readSpan, func(rows *sql.Rows) error {
		e, err := storedEvent(rows)
		events = append(events, e)
		return err
	}, tenant, strconv.FormatUint(after.TxID, 10), after.ID, strconv.FormatUint(upTo.TxID, 10), upTo.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("read sealed events: %w", err)
	}
	return events, nil
}

// Links implements trail.Chain.
func (t *Trail) Links(ctx context.Context, tenant uuid.UUID, after, upTo trail.Position,
	limit int) ([]trail.Link, error) {
	events, err := t.Span(ctx, tenant, after, upTo, limit)
	if err != nil {
		return nil, err
	}
	links := trail.LinksOf(events)
	var ids []uuid.UUID
	for i := range links {
		if !links[i].Intact {
			ids = append(ids, events[i].SagaID)
		}
	}
	if ids == nil {
		return links, nil
	}
	erasures, err := t.erasures(ctx, tenant, ids)
	erasure.Account(links, events, erasures)
	return links, err
}

var readErasures = `
SELECT ` + storedColumns + withoutSaga + ` FROM saga.every_audit_event e
 WHERE e.tenant_id = $1 AND e.saga_id = ANY ($2::uuid[]) AND e.event_type = 'saga.erased'`

// erasures returns the events that record erasures of sagas.
func (t *Trail) erasures(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) (found []trail.StoredEvent,
	err error) {
	err = t.db.ListTenant(ctx, tenant, readErasures, func(rows *sql.Rows) error {
		e, err := storedEvent(rows)
		found = append(found, e)
		return err
	}, tenant, pq.Array(ids))
	if err != nil {
		return nil, fmt.Errorf("read the erasures of sagas: %w", err)
	}
	return found, nil
}
