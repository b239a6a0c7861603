// Package bulkdb stores operations on many items in PostgreSQL: bulk operations on job runs
// (run_bulks.go) and on sagas (saga_bulks.go), and backfills (backfills.go). kind.go contains their
// common parts. The package also executes these operations for the leader of the job runs, in
// steps. Each step stores its progress in the same transaction.
package bulkdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// kind is the storage of one kind of operation: backfills, bulk operations on runs, or bulk
// operations on sagas. Each kind has one table, with alias b.
type kind[T any] struct {
	name    string // in error messages
	plural  string // of name
	table   string
	columns string // in the order of scan
	scan    func(row postgres.Scanner, more ...any) (T, error)
	head    func(*T) *bulk.Head
	move    func(b *T, on bulk.Verb, at time.Time) (changed bool, err error)
	audits  operator.Kind
	missing error // the fault for an operation that does not exist; nil: the fault for job runs
}

func (k *kind[T]) none() error {
	if k.missing != nil {
		return k.missing
	}
	return jobrun.NoBulk(k.name)
}

// creation describes how an operation is stored.
type creation[T any] struct {
	look   func(*sqlx.Tx) (bulk.Seen, error) // finds the items that it currently covers; nil: its rule determines them
	asked  func(*T, bulk.Seen)               // completes the operation
	insert *postgres.Statement               // does nothing if its id exists
	row    func(*T) postgres.Bound
	stored func(ctx context.Context, tenant, id uuid.UUID) (T, error) // reads the stored operation
}

// create stores an operation. It detects a repeated request before it counts the covered items
// again. For a repeated request, created is false, and stored is the operation that the first
// request created.
func (k *kind[T]) create(
	ctx context.Context, db *jobdb.DB, b T, by operator.Action, c creation[T],
) (stored T, created bool, err error) {
	h := k.head(&b)
	err = db.InTenant(ctx, h.TenantID, func(tx *sqlx.Tx) error {
		var there bool
		err := tx.GetContext(ctx, &there, `SELECT EXISTS (SELECT 1 FROM `+k.table+` b WHERE b.id = $1)`, h.ID)
		if err != nil || there {
			return err
		}
		if c.look != nil {
			seen, err := c.look(tx)
			if err != nil {
				return err
			}
			c.asked(&b, seen)
		}
		res, err := tx.ExecContext(ctx, c.insert.Text, c.insert.Args(c.row(&b))...)
		if created, err = postgres.ChangedOne(res, "insert a "+k.name, err); err != nil || !created {
			return err
		}
		if err := auditdb.PutAction(ctx, tx, by); err != nil || h.State != bulk.Halted {
			return err
		}
		return auditdb.PutAction(ctx, tx, h.AuditHalt(db.DB.NewID(), k.audits, by.At))
	})
	if err == nil && !created {
		stored, err = c.stored(ctx, h.TenantID, h.ID)
		return stored, false, err
	}
	return b, created, postgres.Wrap("create "+k.name, err)
}

// get reads one operation with a query made by OfTenant, using scan.
func (k *kind[T]) get(
	ctx context.Context, db *jobdb.DB, tenant, id uuid.UUID, query string,
	scan func(row postgres.Scanner, more ...any) (T, error),
) (b T, err error) {
	err = db.ReadOne(ctx, tenant, query, k.none(), func(rows *sql.Rows) (err error) {
		b, err = scan(rows)
		return err
	}, id)
	return b, postgres.Wrap("get "+k.name, err)
}

// list reads a page of the operations that w selects, newest first.
func (k *kind[T]) list(
	ctx context.Context, db *jobdb.DB, tenant uuid.UUID, w *postgres.Where, p page.ByTime,
) (found page.Of[T], err error) {
	err = db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		l := postgres.NewestFirst{Columns: k.columns, From: k.table + " b", At: "b.created_at", ID: "b.id"}
		found, err = postgres.ReadFew(ctx, tx, l, w, p, k.scan)
		return err
	})
	return found, postgres.Wrap("list "+k.plural, err)
}

// inState lists the operations of a tenant that are in a state, newest first; "" means any state.
func (k *kind[T]) inState(
	ctx context.Context, db *jobdb.DB, tenant uuid.UUID, state bulk.State, p page.ByTime,
) (page.Of[T], error) {
	var w postgres.Where
	w.Add("b.tenant_id = ?", tenant)
	if state != "" {
		w.Add("b.state = ?", state)
	}
	return k.list(ctx, db, tenant, &w, p)
}

// lock locks an operation and returns it. Fault: NotFound.
func (k *kind[T]) lock(ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID) (T, error) {
	b, err := k.scan(tx.QueryRowContext(ctx, `SELECT `+k.columns+` FROM `+k.table+` b
	  WHERE b.tenant_id = $1 AND b.id = $2 FOR UPDATE`, tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		return b, k.none()
	}
	return b, err
}

// moved applies a person's verb according to the rule of the operation.
func (k *kind[T]) moved(
	ctx context.Context, db *jobdb.DB, tenant, id uuid.UUID, on bulk.Verb, by operator.Action,
) (b T, err error) {
	err = db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if b, err = k.lock(ctx, tx, tenant, id); err != nil {
			return err
		}
		if changed, err := k.move(&b, on, by.At); err != nil || !changed {
			return err
		}
		if err := k.putHead(ctx, tx, k.head(&b)); err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	return b, postgres.Wrap(string(on)+" "+k.name, err)
}

// putHead stores the state of a locked operation.
func (k *kind[T]) putHead(ctx context.Context, tx *sqlx.Tx, h *bulk.Head) error {
	_, err := tx.ExecContext(ctx, `UPDATE `+k.table+` b
   SET state = $3, version = $4, ended_at = $5, halts_above = $6, halt_reason = $7, found = $8
 WHERE b.tenant_id = $1 AND b.id = $2`,
		h.TenantID, h.ID, h.State, h.Version, h.EndedAt, h.HaltsAbove, h.HaltReason, h.Found)
	return err
}

// halt stores a locked operation that has halted, and records the halt in the audit trail.
func (k *kind[T]) halt(ctx context.Context, db *jobdb.DB, tx *sqlx.Tx, h *bulk.Head, now time.Time) error {
	if err := k.putHead(ctx, tx, h); err != nil {
		return err
	}
	return auditdb.PutAction(ctx, tx, h.AuditHalt(db.DB.NewID(), k.audits, now))
}

// bulksAtOnce is the number of backfills, and of bulk operations of each kind, that one call of the
// leader continues.
const bulksAtOnce = 50

// bulkRef identifies a backfill or a bulk operation, and its position among the RUNNING ones.
type bulkRef struct {
	Tenant, ID uuid.UUID
	createdAt  time.Time
}

// errDamaged means that it is unknown which items the operation covers, so nothing is done to any
// item.
var errDamaged = errors.New("the stored filter or schedule is damaged: cancel the operation")

// round is the progress of a round over the operations of a kind. Each operation gets one turn per
// round.
type round struct {
	mu   sync.Mutex
	last bulkRef // the last operation that had its turn; zero: the round begins
	more bool    // one of them has more to do immediately
}

// step continues the RUNNING operations by one step each, oldest first, from where the last call
// stopped. An operation that fails does not keep the others from their turns.
func (k *kind[T]) step(
	ctx context.Context, db *jobdb.DB, r *round, one func(bulkRef) (jobrun.Swept, error),
) (all jobrun.Swept, err error) {
	r.mu.Lock()
	after := r.last
	r.mu.Unlock()
	list, err := k.running(ctx, db, after)
	if err != nil {
		return all, postgres.Wrap("find running "+k.plural, err)
	}
	more := false
	for i, m := range list {
		swept, err := postgres.RetryCollision(func() (jobrun.Swept, error) { return one(m) })
		switch {
		case err == nil:
		case ctx.Err() != nil || fault.IsCode(err, jobrun.CodeNoLeader):
			r.had(list[:i+1], more, false)
			return all, postgres.Wrap("advance a "+k.name, err)
		default:
			all.Failed = append(all.Failed, jobrun.Failure{What: k.name, ID: m.ID, Err: err})
		}
		all.Moved += swept.Moved
		more = more || swept.More
	}
	all.More = r.had(list, more, len(list) < bulksAtOnce)
	return all, nil
}

// had records which operations have had their turn; over means that they were the last ones of the
// round. It reports whether to continue immediately.
func (r *round) had(list []bulkRef, more, over bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.more = r.more || more
	if !over {
		r.last = list[len(list)-1]
		return true
	}
	more = r.more
	r.last, r.more = bulkRef{}, false
	return more
}

// running returns the next RUNNING operations, oldest first.
func (k *kind[T]) running(ctx context.Context, db *jobdb.DB, after bulkRef) (list []bulkRef, err error) {
	rows, err := db.QueryRead(ctx, fmt.Sprintf(`
SELECT b.tenant_id, b.id, b.created_at FROM %s b
 WHERE b.state%s AND (b.created_at, b.id) > ($1, $2)
 ORDER BY b.created_at, b.id LIMIT $3`, k.table, jobdb.Is(bulk.Running)), after.createdAt, after.ID, bulksAtOnce)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var m bulkRef
		err := rows.Scan(&m.Tenant, &m.ID, &m.createdAt)
		list = append(list, m)
		return err
	})
	return list, err
}

// bulkFound returns the number of items that an operation covers, if that must be known before it
// changes n more items. Otherwise it returns the number that is known so far. rest counts the items
// that the operation has not reached.
func bulkFound(h *bulk.Head, touched int64, n int, rest func() (int64, error)) (int64, error) {
	all := touched + int64(n)
	if !h.MustCount(touched, int64(n)) {
		return all, nil
	}
	left, err := rest()
	return max(all, touched+left), err
}

// position is the progress of a bulk operation, as the two columns of its cursor.
type position struct {
	at *time.Time // nil: no item has been processed yet
	id uuid.UUID
}

func positionOf(place *page.TimeID) position {
	if place == nil {
		return position{}
	}
	return position{&place.At, place.ID}
}

func (p *position) place() *page.TimeID {
	if p.at == nil {
		return nil
	}
	return &page.TimeID{At: *p.at, ID: p.id}
}
