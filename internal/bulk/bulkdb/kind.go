// Package bulkdb stores operations on many things in PostgreSQL: bulk operations on job
// runs (run_bulks.go) and on sagas (saga_bulks.go), and backfills (backfills.go). What they
// have in common is in kind.go. It also carries them out for the leader of the job runs,
// piece by piece, each piece in one transaction with the progress.
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

// kind is the storage of backfills, or of bulk operations on runs or on sagas: each has
// one table, alias b.
type kind[T any] struct {
	name    string // in error messages, singular
	table   string
	columns string // in the order of scan
	scan    func(row postgres.Scanner, more ...any) (T, error)
	head    func(*T) *bulk.Head
	move    func(b *T, on bulk.Verb, at time.Time) (changed bool, err error)
	audits  operator.Kind
	missing error // the fault of one that is not there; nil: that of job runs
}

func (k *kind[T]) none() error {
	if k.missing != nil {
		return k.missing
	}
	return jobrun.NoBulk(k.name)
}

// creation is how one is stored.
type creation[T any] struct {
	look   func(*sqlx.Tx) (bulk.Seen, error) // what it is for now; nil: its rule knows
	asked  func(*T, bulk.Seen)               // completes it
	insert *postgres.Statement               // does nothing if its id exists
	row    func(*T) postgres.Bound
	stored func(ctx context.Context, tenant, id uuid.UUID) (T, error) // reads it
}

// create stores one. A second request is found before what it is for is counted again: created
// is false then, and stored what the first one created.
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

// get reads one by a query made with OfTenant, using scan.
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

// list reads a page of those that w selects, newest first.
func (k *kind[T]) list(
	ctx context.Context, db *jobdb.DB, tenant uuid.UUID, w *postgres.Where, p page.ByTime,
) (found page.Of[T], err error) {
	err = db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		l := postgres.NewestFirst{Columns: k.columns, From: k.table + " b", At: "b.created_at", ID: "b.id"}
		found, err = postgres.ReadFew(ctx, tx, l, w, p, k.scan)
		return err
	})
	return found, postgres.Wrap("list "+k.name+"s", err)
}

// inState lists those of a tenant that are in a state, newest first; "" means any state.
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

// lock returns one, locked. Fault: NotFound.
func (k *kind[T]) lock(ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID) (T, error) {
	b, err := k.scan(tx.QueryRowContext(ctx, `SELECT `+k.columns+` FROM `+k.table+` b
	  WHERE b.tenant_id = $1 AND b.id = $2 FOR UPDATE`, tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		return b, k.none()
	}
	return b, err
}

// moved applies a verb of a person by its rule.
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

// putHead stores where one stands that is locked.
func (k *kind[T]) putHead(ctx context.Context, tx *sqlx.Tx, h *bulk.Head) error {
	_, err := tx.ExecContext(ctx, `UPDATE `+k.table+` b
   SET state = $3, version = $4, ended_at = $5, halts_above = $6, halt_reason = $7, found = $8
 WHERE b.tenant_id = $1 AND b.id = $2`,
		h.TenantID, h.ID, h.State, h.Version, h.EndedAt, h.HaltsAbove, h.HaltReason, h.Found)
	return err
}

// halt stores one that is locked and has halted, and that it has.
func (k *kind[T]) halt(ctx context.Context, db *jobdb.DB, tx *sqlx.Tx, h *bulk.Head, now time.Time) error {
	if err := k.putHead(ctx, tx, h); err != nil {
		return err
	}
	return auditdb.PutAction(ctx, tx, h.AuditHalt(db.DB.NewID(), k.audits, now))
}

// bulksAtOnce is how many backfills, and how many bulk operations of a kind, continue in
// one call of the leader.
const bulksAtOnce = 50

// bulkRef identifies a backfill or a bulk operation, and says where it stands among those
// that are RUNNING.
type bulkRef struct {
	Tenant, ID uuid.UUID
	createdAt  time.Time
}

// errDamaged: it is not known which things were meant, so nothing is done to any.
var errDamaged = errors.New("its stored filter or schedule is damaged: cancel it")

// round is how far a round over the operations of a kind has come: each has its turn
// before any has another.
type round struct {
	mu   sync.Mutex
	last bulkRef // the last one that had its turn; zero: the round begins
	more bool    // one of them has more to do at once
}

// step continues those that are RUNNING, oldest first, each by one step, from where the
// last call stopped. One that fails does not keep the others from their turns.
func (k *kind[T]) step(
	ctx context.Context, db *jobdb.DB, r *round, one func(bulkRef) (jobrun.Swept, error),
) (all jobrun.Swept, err error) {
	r.mu.Lock()
	after := r.last
	r.mu.Unlock()
	list, err := k.running(ctx, db, after)
	if err != nil {
		return all, postgres.Wrap("look for "+k.name+"s", err)
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

// had records whose turn it was; over: those were the last ones of the round. It reports
// whether to continue at once.
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

// running returns the next ones that are RUNNING, oldest first.
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

// bulkFound returns how many things an operation is for, if that must be known before it
// touches n more; else as many as it is certain of. rest counts those that it has not
// touched.
func bulkFound(h *bulk.Head, touched int64, n int, rest func() (int64, error)) (int64, error) {
	all := touched + int64(n)
	if !h.MustCount(touched, int64(n)) {
		return all, nil
	}
	left, err := rest()
	return max(all, touched+left), err
}

// position is how far a bulk operation has come, as the two columns of its cursor.
type position struct {
	at *time.Time // nil: it has looked at nothing yet
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
