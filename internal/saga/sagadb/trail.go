package sagadb

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// Trail implements trail.Trail on PostgreSQL.
type Trail struct{ db *postgres.DB }

// NewTrail returns the audit trail of db.
func NewTrail(db *postgres.DB) *Trail { return &Trail{db} }

// storedColumns are the columns that storedEvent reads before sagaOfEvent.
var storedColumns = eventTable.Selected("e")

// The columns of an event's saga, and the join that finds the saga.
const (
	sagaOfEvent = `coalesce(s.workflow_name, a.workflow_name) AS workflow_name,
	CASE WHEN coalesce(s.workflow_name, a.workflow_name) ^@ '` + saga.InlinePrefix + `'
	     THEN coalesce(s.saga_type, a.saga_type) ELSE '' END AS label,
	coalesce(s.correlation_id, a.correlation_id) AS correlation_id,
	coalesce(s.business_key, a.business_key) AS business_key,
	coalesce(s.tracestate, a.tracestate) AS tracestate, coalesce(s.baggage, a.baggage) AS baggage`
	withoutSaga     = `, NULL, NULL, NULL, NULL, NULL, NULL` // instead of sagaOfEvent
	joinSagaOfEvent = `LEFT JOIN saga.saga_states s ON s.id = e.saga_id AND s.tenant_id = e.tenant_id
	LEFT JOIN saga.saga_states_archive a ON a.id = e.saga_id AND a.tenant_id = e.tenant_id AND s.id IS NULL`
)

// rareType is the condition of idx_event_type_timestamp.
const rareType = `e.event_type NOT IN ('saga.started', 'saga.step.started', 'saga.step.completed', 'saga.completed')`

// AfterRestore makes new events follow the events that came with a dump from another cluster, and
// reports whether there were any. It must be called before the first event is written. It does
// nothing if no event needs it. Several nodes may call it at the same time.
func (t *Trail) AfterRestore(ctx context.Context) (restored bool, err error) {
	var ahead int64
	if err := t.db.Read.QueryRowContext(ctx, `SELECT saga.advance_feed()`).Scan(&ahead); err != nil {
		return false, fmt.Errorf("find restored events: %w", err)
	}
	return ahead > 0, nil
}

// Feed implements trail.Trail.
func (t *Trail) Feed(ctx context.Context, tenant uuid.UUID, after trail.Position, f trail.EventFilter,
	limit int) ([]trail.StoredEvent, trail.Position, error) {
	query, args, scan := feedQuery(tenant, after, f, limit)
	var events []trail.StoredEvent
	var looked int
	var last, newest nullPosition
	err := t.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		e, err := storedEvent(rows, &looked, &last.txid, &last.id, &newest.txid, &newest.id)
		if e.ID != 0 { // otherwise no event was found, and this row contains only the position reached
			events = append(events, e)
		}
		return err
	}, args...)
	if err != nil {
		return nil, after, fmt.Errorf("read the feed: %w", err)
	}
	end := after
	switch {
	case len(events) == limit:
		end = events[limit-1].Position
	case looked == scan:
		end = last.position()
	case newest.id.Valid && newest.position().Compare(after) > 0:
		end = newest.position()
	}
	return events, end, nil
}

type nullPosition struct{ txid, id sql.Null[uint64] }

func (p nullPosition) position() trail.Position {
	return trail.Position{TxID: p.txid.V, ID: int64(min(p.id.V, math.MaxInt64))} //nolint:gosec // bounded
}

// feedQuery returns the query for one call of Feed, and how many events it examines. The candidates
// come from the index that suits the filter, up to a limit, and the filter's other conditions
// select among them.
func feedQuery(tenant uuid.UUID, after trail.Position, f trail.EventFilter,
	limit int) (query string, args []any, scan int) {
	w := eventWhere{}
	w.Add("e.tenant_id = ?", tenant)
	w.Add("(e.txid, e.id) > (?::xid8, ?::bigint)", strconv.FormatUint(after.TxID, 10), after.ID)
	w.Add(auditdb.Settled)
	newest := w.Text()
	scan = max(limit, trail.FeedScan)
	if isZero(f) {
		scan = limit
	}
	candidates := fmt.Sprintf("SELECT * FROM saga.audit_events e WHERE %%s ORDER BY e.txid, e.id LIMIT %d", scan)
	switch rare := f.Types != nil && !slices.ContainsFunc(f.Types, eventtype.Type.Common); {
	case f.SagaID != uuid.Nil:
		w.Add("e.saga_id = ?", f.SagaID)
	case f.TraceID != "":
		w.Add("e.trace_id = ?", f.TraceID)
	case rare:
		// One bounded read of the index per type, in index order.
		w.Add("e.event_type = t.event_type AND " + rareType)
		w.Args = append(w.Args, pq.Array(f.Types))
		candidates = fmt.Sprintf(`SELECT e.* FROM unnest($%d::text[]) AS t (event_type) CROSS JOIN LATERAL (%s) AS e
			 ORDER BY e.txid, e.id LIMIT %d`, len(w.Args), candidates, scan)
	}
	candidates = fmt.Sprintf(candidates, w.Text())
	rest := eventWhere{postgres.Where{Args: w.Args}}
	rest.Add("true")
	rest.events(f)
	return fmt.Sprintf(`
WITH looked AS MATERIALIZED (%s),
     found AS (SELECT %s, %s FROM looked e %s WHERE %s ORDER BY e.txid, e.id LIMIT %d),
     last AS (SELECT txid, id FROM looked ORDER BY txid DESC, id DESC LIMIT 1),
     newest AS (SELECT e.txid, e.id FROM saga.audit_events e WHERE %s ORDER BY e.txid DESC, e.id DESC LIMIT 1)
SELECT (SELECT count(*) FROM looked), last.txid, last.id, newest.txid, newest.id, found.*
  FROM (VALUES (1)) AS one LEFT JOIN last ON true LEFT JOIN newest ON true LEFT JOIN found ON true
 ORDER BY found.txid, found.id`,
		candidates, storedColumns, sagaOfEvent, joinSagaOfEvent, rest.Text(), limit, newest), rest.Args, scan
}

func isZero(f trail.EventFilter) bool {
	return f.Types == nil && f.SagaID == uuid.Nil && f.WorkflowName == "" && f.TraceID == "" && f.Actor == "" &&
		f.From.IsZero() && f.To.IsZero()
}

// eventWhere collects conditions on the events of the trail.
type eventWhere struct{ postgres.Where }

// events adds the conditions of an EventFilter on e, s and a.
func (w *eventWhere) events(f trail.EventFilter) {
	if f.Types != nil {
		w.Add("e.event_type = ANY (?)", pq.Array(f.Types))
	}
	if f.SagaID != uuid.Nil {
		w.Add("e.saga_id = ?", f.SagaID)
	}
	for _, eq := range []struct{ column, value string }{
		{"e.trace_id", f.TraceID},
		{"e.actor", f.Actor},
	} {
		if eq.value != "" {
			w.Add(eq.column+" = ?", eq.value)
		}
	}
	if f.WorkflowName != "" {
		w.Add(`(coalesce(s.workflow_name, a.workflow_name) = ? OR coalesce(s.workflow_name, a.workflow_name) ^@ '`+
			saga.InlinePrefix+`' AND coalesce(s.saga_type, a.saga_type) = ?)`, f.WorkflowName, saga.TypeOf(f.WorkflowName))
	}
	if !f.From.IsZero() {
		w.Add("e.timestamp >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.Add("e.timestamp < ?", f.To)
	}
}

const endOfFeed = `SELECT e.txid, e.id FROM saga.audit_events e
 WHERE e.tenant_id = $1 AND ` + auditdb.Settled + ` ORDER BY e.txid DESC, e.id DESC LIMIT 1`

// End implements trail.Trail.
func (t *Trail) End(ctx context.Context, tenant uuid.UUID) (trail.Position, error) {
	var end trail.Position
	err := t.db.ListTenant(ctx, tenant, endOfFeed, func(rows *sql.Rows) error { return rows.Scan(&end.TxID, &end.ID) },
		tenant)
	if err != nil {
		return end, fmt.Errorf("find the end of the feed: %w", err)
	}
	return end, nil
}

// Events implements trail.Trail.
func (t *Trail) Events(ctx context.Context, tenant, sagaID uuid.UUID, f trail.EventFilter, newestFirst bool,
	after int64,
	limit int) ([]trail.StoredEvent, bool, error) {
	query, args := eventsQuery(tenant, sagaID, f, newestFirst, after, limit)
	events := []trail.StoredEvent{}
	err := t.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		e, err := storedEvent(rows)
		events = append(events, e)
		return err
	}, args...)
	if err != nil {
		return nil, false, fmt.Errorf("read a saga's events: %w", err)
	}
	if len(events) > limit {
		return events[:limit], true, nil
	}
	return events, false, nil
}

// eventsQuery reads one event more than limit, which shows whether there is a next page.
func eventsQuery(tenant, sagaID uuid.UUID, f trail.EventFilter, newestFirst bool, after int64,
	limit int) (query string, args []any) {
	w := eventWhere{}
	w.Add("e.saga_id = ?", sagaID)
	w.Add("e.tenant_id = ?", tenant)
	order := "e.id"
	switch {
	case !newestFirst:
		w.Add("e.id > ?", after)
	case after > 0:
		w.Add("e.id < ?", after)
		fallthrough
	default:
		order = "e.id DESC"
	}
	w.events(f)
	return fmt.Sprintf(`SELECT %s, %s FROM saga.every_audit_event e %s WHERE %s ORDER BY %s LIMIT %d`,
		storedColumns, sagaOfEvent, joinSagaOfEvent, w.Text(), order, limit+1), w.Args
}

// storedEvent reads a row that has the columns of before, then storedColumns and sagaOfEvent. It
// sets Altered if the row contains JSON that an event cannot represent. An ID of 0 means that the
// row has no event.
func storedEvent(rows *sql.Rows, before ...any) (trail.StoredEvent, error) {
	var r eventRow
	e := &r.StoredEvent
	err := eventTable.Scan(withFirst{rows, before}, &r,
		postgres.ScanOr(&e.WorkflowName, ""), postgres.ScanOr(&e.Label, ""), &e.CorrelationID, &e.BusinessKey,
		&e.TraceState, &e.Baggage)
	if err != nil {
		return *e, err
	}
	var badData, badError error
	e.At = e.At.UTC()
	e.Data, badData = postgres.Canonical(r.data)
	e.Error, badError = parseError(r.failure)
	e.Altered = badData != nil || badError != nil || !sameError(r.failure, e.Error)
	return *e, nil
}

// withFirst scans a row that starts with other columns.
type withFirst struct {
	postgres.Scanner
	before []any
}

func (l withFirst) Scan(dest ...any) error { return l.Scanner.Scan(append(l.before, dest...)...) }

// sameError reports whether a stored error contains exactly what was read from it. Without this
// check, unknown members would be ignored.
func sameError(stored []byte, read *saga.Error) bool {
	if stored == nil {
		return true
	}
	want, err := postgres.Canonical(stored)
	if err != nil {
		return false
	}
	got, err := marshalError(read)
	if err == nil {
		got, err = postgres.Canonical(got)
	}
	return err == nil && bytes.Equal(want, got)
}
