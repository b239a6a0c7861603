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
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
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
}

// create stores one. A second request is found before what it is for is counted again;
// created is false then.
func (k *kind[T]) create(
	ctx context.Context, db *jobdb.DB, b *T, by operator.Action, c creation[T],
) (created bool, err error) {
	h := k.head(b)
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
			c.asked(b, seen)
		}
		res, err := tx.ExecContext(ctx, c.insert.Text, c.insert.Args(c.row(b))...)
		if created, err = postgres.ChangedOne(res, "insert a "+k.name, err); err != nil || !created {
			return err
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	return created, postgres.Wrap("create "+k.name, err)
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
	b, err := k.scan(tx.QueryRowContext(ctx, `SELECT `+k.columns+` FROM `+k.table+` b WHERE b.tenant_id = $1 AND b.id = $2 FOR UPDATE`, tenant, id))
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
 WHERE b.tenant_id = $1 AND b.id = $2`, h.TenantID, h.ID, h.State, h.Version, h.EndedAt, h.HaltsAbove, h.HaltReason, h.Found)
	return err
}

// bulksAtOnce is how many backfills, and how many bulk operations, continue in one
// round.
const bulksAtOnce = 50

// bulkRef identifies a backfill or a bulk operation.
type bulkRef struct{ Tenant, ID uuid.UUID }

// step continues those that are RUNNING, oldest first, each by one step.
func (k *kind[T]) step(
	ctx context.Context, db *jobdb.DB, one func(bulkRef) (jobrun.Swept, error),
) (all jobrun.Swept, err error) {
	list, err := k.running(ctx, db)
	if err != nil {
		return all, postgres.Wrap("look for "+k.name+"s", err)
	}
	for _, m := range list {
		swept, err := postgres.RetryCollision(func() (jobrun.Swept, error) { return one(m) })
		if err != nil {
			return all, postgres.Wrap("advance a "+k.name, err)
		}
		all.Moved += swept.Moved
		all.More = all.More || swept.More
	}
	return all, nil
}

func (k *kind[T]) running(ctx context.Context, db *jobdb.DB) (list []bulkRef, err error) {
	rows, err := db.QueryRead(ctx, fmt.Sprintf(`SELECT b.tenant_id, b.id FROM %s b WHERE b.state%s ORDER BY b.created_at LIMIT $1`,
		k.table, jobdb.Is(bulk.Running)), bulksAtOnce)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var m bulkRef
		err := rows.Scan(&m.Tenant, &m.ID)
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
