package bulkdb

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// SagaBulks is sagabulk.Store on PostgreSQL, and performs the leader's work on these bulks. Rows
// are locked in this order: the bulk, then the rows that a change of sagas locks.
type SagaBulks struct {
	db    *jobdb.DB
	sagas *sagadb.Sagas
	bulks round
}

// NewSagaBulks returns the bulk operations on sagas.
func NewSagaBulks(db *jobdb.DB, sagas *sagadb.Sagas) *SagaBulks {
	return &SagaBulks{db: db, sagas: sagas}
}

var _ sagabulk.Store = (*SagaBulks)(nil)

// sagaBulkRow is a row of saga.saga_bulks.
type sagaBulkRow struct {
	sagabulk.Bulk
	position
	asked []byte
}

var sagaBulkTable = postgres.NewTable(
	postgres.UUID("id", func(b *sagaBulkRow) *uuid.UUID { return &b.ID }),
	postgres.UUID("tenant_id", func(b *sagaBulkRow) *uuid.UUID { return &b.TenantID }),
	postgres.Int("version", func(b *sagaBulkRow) *int64 { return &b.Version }),
	postgres.Int("steps", func(b *sagaBulkRow) *int64 { return &b.Steps }),
	postgres.Text("action", func(b *sagaBulkRow) *saga.Verb { return &b.Action }),
	postgres.Text("state", func(b *sagaBulkRow) *bulk.State { return &b.State }),
	postgres.JSON("asked", func(b *sagaBulkRow) *[]byte { return &b.asked }),
	postgres.OrMark("filter", func(b *sagaBulkRow) **saga.Filter { return &b.Filter },
		func(b *sagaBulkRow) *bool { return &b.Unreadable }),
	postgres.UUIDsOrNil("ids", func(b *sagaBulkRow) *[]uuid.UUID { return &b.IDs }),
	postgres.Time("before", func(b *sagaBulkRow) *time.Time { return &b.Before }),
	postgres.Float("rate", func(b *sagaBulkRow) *float64 { return &b.Rate }),
	postgres.Time("paced_at", func(b *sagaBulkRow) *time.Time { return &b.PacedAt }),
	postgres.TextOrEmpty("covers", func(b *sagaBulkRow) *page.Snapshot { return &b.Snapshot }).Cast("::pg_snapshot"),
	postgres.IntOrNil("expected", func(b *sagaBulkRow) **int64 { return &b.Expected }),
	postgres.IntOrNil("halts_above", func(b *sagaBulkRow) **int64 { return &b.HaltsAbove }),
	postgres.Text("halt_reason", func(b *sagaBulkRow) *string { return &b.HaltReason }),
	postgres.IntOrNil("found", func(b *sagaBulkRow) **int64 { return &b.Found }),
	postgres.Bool("expected_capped", func(b *sagaBulkRow) *bool { return &b.ExpectedCapped }),
	postgres.TimeOrNil("cursor_at", func(b *sagaBulkRow) **time.Time { return &b.at }),
	postgres.UUIDOrZero("cursor_id", func(b *sagaBulkRow) *uuid.UUID { return &b.id }),
	postgres.Int("matched", func(b *sagaBulkRow) *int64 { return &b.Matched }),
	postgres.Int("done", func(b *sagaBulkRow) *int64 { return &b.Done }),
	postgres.Int("skipped", func(b *sagaBulkRow) *int64 { return &b.Skipped }),
	postgres.Bytes("request_hash", func(b *sagaBulkRow) *[]byte { return &b.RequestHash }),
	postgres.Text("reason", func(b *sagaBulkRow) *string { return &b.Reason }),
	postgres.Text("actor", func(b *sagaBulkRow) *string { return &b.Actor }),
	postgres.Text("actor_name", func(b *sagaBulkRow) *string { return &b.ActorName }),
	postgres.Time("created_at", func(b *sagaBulkRow) *time.Time { return &b.CreatedAt }),
	postgres.TimeOrNil("ended_at", func(b *sagaBulkRow) **time.Time { return &b.EndedAt }),
)

func scanSagaBulk(row postgres.Scanner, more ...any) (sagabulk.Bulk, error) {
	b, err := sagaBulkTable.One(row, more...)
	b.Asked = b.asked
	b.Cursor = b.place()
	return b.Bulk, err
}

func sagaRowOf(b *sagabulk.Bulk) *sagaBulkRow {
	return &sagaBulkRow{Bulk: *b, position: positionOf(b.Cursor), asked: b.Asked}
}

// sagaBulks is the storage of bulk operations on sagas.
var sagaBulks = kind[sagabulk.Bulk]{
	name:    "bulk operation on sagas",
	plural:  "bulk operations on sagas",
	table:   "saga.saga_bulks",
	columns: sagaBulkTable.Selected("b"),
	scan:    scanSagaBulk,
	head:    func(b *sagabulk.Bulk) *bulk.Head { return &b.Head },
	move:    (*sagabulk.Bulk).Moved,
	audits:  operator.SagaBulk,
	missing: sagabulk.NotFound(),
}

var insertSagaBulk = postgres.Named(`
INSERT INTO saga.saga_bulks (`+sagaBulkTable.Inserted()+`)
VALUES (`+sagaBulkTable.Values("b")+`)
    ON CONFLICT (id) DO NOTHING`,
	sagaBulkTable.As("b"))

// Create implements sagabulk.Store.
func (st *SagaBulks) Create(
	ctx context.Context, b sagabulk.Bulk, by operator.Action,
) (stored sagabulk.Bulk, created bool, err error) {
	return sagaBulks.create(ctx, st.db, b, by, creation[sagabulk.Bulk]{
		look:   func(tx *sqlx.Tx) (bulk.Seen, error) { return st.look(ctx, tx, &b) },
		stored: st.Get,
		asked:  (*sagabulk.Bulk).Requested,
		insert: insertSagaBulk, row: func(b *sagabulk.Bulk) postgres.Bound { return sagaBulkTable.Row(sagaRowOf(b)) },
	})
}

// look counts the sagas that a bulk has not processed yet. If the bulk lists ids, their number is
// the count.
func (st *SagaBulks) look(ctx context.Context, tx *sqlx.Tx, b *sagabulk.Bulk) (seen bulk.Seen, err error) {
	if b.Filter != nil {
		return st.sagas.Look(ctx, tx, b.TenantID, b.Scope(1))
	}
	seen.At, seen.Snapshot, seen.Count, err = postgres.Look(ctx, tx, `SELECT $1::bigint`, len(b.IDs))
	return seen, err
}

// Count implements sagabulk.Store.
func (st *SagaBulks) Count(ctx context.Context, b sagabulk.Bulk) (int64, error) {
	b.Before = b.Before.Add(bulk.Slack)
	return st.rest(ctx, &b)
}

// rest counts the sagas that a bulk has not processed yet.
func (st *SagaBulks) rest(ctx context.Context, b *sagabulk.Bulk) (n int64, err error) {
	err = st.db.InTenant(ctx, b.TenantID, func(tx *sqlx.Tx) error {
		seen, err := st.look(ctx, tx, b)
		n = seen.Count
		return err
	})
	return n, postgres.Wrap("count the sagas of a bulk operation", err)
}

var getSagaBulk = postgres.OfTenant(`SELECT `+sagaBulks.columns+`, clock_timestamp() FROM saga.saga_bulks b
  WHERE b.tenant_id = tenant.id AND b.id = $2`, "")

// Get implements sagabulk.Store.
func (st *SagaBulks) Get(ctx context.Context, tenant, id uuid.UUID) (sagabulk.Bulk, error) {
	b, _, err := st.at(ctx, tenant, id)
	return b, err
}

// at returns a bulk and the database's time.
func (st *SagaBulks) at(ctx context.Context, tenant, id uuid.UUID) (b sagabulk.Bulk, now time.Time, err error) {
	b, err = sagaBulks.get(ctx, st.db, tenant, id, getSagaBulk,
		func(row postgres.Scanner, more ...any) (sagabulk.Bulk, error) {
			return scanSagaBulk(row, append(more, &now)...)
		})
	return b, now.UTC(), err
}

// List implements sagabulk.Store.
func (st *SagaBulks) List(
	ctx context.Context, tenant uuid.UUID, state bulk.State, p page.ByTime,
) (page.Of[sagabulk.Bulk], error) {
	return sagaBulks.inState(ctx, st.db, tenant, state, p)
}

// Move implements sagabulk.Store.
func (st *SagaBulks) Move(
	ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action,
) (sagabulk.Bulk, error) {
	return sagaBulks.moved(ctx, st.db, tenant, id, on, by)
}

// SetRate implements sagabulk.Store.
func (st *SagaBulks) SetRate(
	ctx context.Context, tenant, id uuid.UUID, was int64, rate float64, by operator.Action,
) (b sagabulk.Bulk, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if b, err = sagaBulks.lock(ctx, tx, tenant, id); err != nil {
			return err
		}
		if was != 0 && was != b.Version {
			return fault.New(fault.Precondition, sagabulk.CodeStale, "the bulk operation is at version %d", b.Version)
		}
		if err := b.SetRate(rate, by.At); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE saga.saga_bulks b SET rate = $3, paced_at = $4, version = $5
		  WHERE b.tenant_id = $1 AND b.id = $2`,
			tenant, id, b.Rate, b.PacedAt, b.Version); err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	return b, postgres.Wrap("change the rate of a bulk operation on sagas", err)
}

// itemsOfSagaBulk reads the sagas of a bulk in their current state. There are few of them (OFFSET
// 0).
func itemsOfSagaBulk(w *postgres.Where, limit int) string {
	return `SELECT i.saga_id, i.position, i.outcome, i.code, i.detail, i.at, coalesce(s.workflow_name, ''), s.state
  FROM (SELECT i.* FROM saga.saga_bulk_items i WHERE ` + w.Text() + `
    ORDER BY i.position LIMIT ` + strconv.Itoa(limit) + ` OFFSET 0) AS i
  LEFT JOIN saga.saga_states s ON s.id = i.saga_id AND s.tenant_id = i.tenant_id
 ORDER BY i.position`
}

// Items implements sagabulk.Store.
func (st *SagaBulks) Items(
	ctx context.Context, tenant, id uuid.UUID, o sagabulk.Outcome, p page.Request[int64],
) (page.Of[sagabulk.Item], error) {
	var w postgres.Where
	w.Add("i.tenant_id = ? AND i.bulk_id = ? AND i.position > ?", tenant, id, p.Start())
	switch o {
	case sagabulk.Skipped:
		w.Add("i.outcome = '" + string(o) + "'") // as in the predicate of the index
	case sagabulk.Done:
		w.Add("i.outcome = ?", o)
	}
	var read []sagabulk.Item
	err := st.db.ListTenant(ctx, tenant, itemsOfSagaBulk(&w, p.Limit+1), func(rows *sql.Rows) error {
		var i sagabulk.Item
		err := rows.Scan(&i.SagaID, &i.Position, &i.Outcome, &i.Code, &i.Detail, &i.At, &i.Workflow, &i.State)
		i.At = i.At.UTC()
		read = append(read, i)
		return err
	}, w.Args...)
	return page.Cut(p, read), postgres.Wrap("list the sagas of a bulk operation", err)
}
