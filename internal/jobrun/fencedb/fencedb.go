// Package fencedb stores in PostgreSQL the newest fencing token that was checked for each key.
package fencedb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Fences is jobrun.Fences on PostgreSQL.
type Fences struct{ db *postgres.DB }

// New returns the fences of db.
func New(db *postgres.DB) *Fences { return &Fences{db} }

// keyFenceTable is jobs.fences.
var keyFenceTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(f *jobrun.KeyFence) *uuid.UUID { return &f.TenantID }),
	postgres.Text("key", func(f *jobrun.KeyFence) *string { return &f.Key }),
	postgres.Int("epoch", func(f *jobrun.KeyFence) *int64 { return &f.Epoch }),
	postgres.Int("seq", func(f *jobrun.KeyFence) *int64 { return &f.Seq }),
	postgres.Time("checked_at", func(f *jobrun.KeyFence) *time.Time { return &f.CheckedAt }).From("clock_timestamp()"),
)

var keyFenceColumns = keyFenceTable.Selected("f")

// givenToken reports whether a run of the tenant holds a token or, if the run is named, has ever
// had it. Without a name, it checks only runs that workers hold.
const givenToken = `
SELECT EXISTS (SELECT FROM jobs.job_runs r
                WHERE r.tenant_id = $1
                  AND r.phase IN ('HELD', 'ORPHANED')
                  AND r.leader_epoch = $2
                  AND r.fencing_seq = $3)
    OR EXISTS (SELECT FROM jobs.job_runs r
                WHERE r.tenant_id = $1 AND r.id = $4 AND r.leader_epoch = $2 AND r.fencing_seq = $3)
    OR EXISTS (SELECT FROM jobs.job_run_attempts a
                WHERE a.tenant_id = $1 AND a.run_id = $4 AND a.leader_epoch = $2 AND a.fencing_seq = $3)`

// checkFence stores a token unless it is older than the newest one.
var checkFence = postgres.Named(`
INSERT INTO jobs.fences AS f (`+keyFenceTable.Inserted()+`) VALUES (`+keyFenceTable.Values("f")+`)
ON CONFLICT (tenant_id, key) DO UPDATE
   SET epoch = EXCLUDED.epoch, seq = EXCLUDED.seq, checked_at = EXCLUDED.checked_at
 WHERE (EXCLUDED.epoch, EXCLUDED.seq) >= (f.epoch, f.seq)`, keyFenceTable.As("f"))

// CheckFence implements jobrun.Fences. It looks up the run of a token only if the token would
// replace the newest one, because an older token is refused in any case.
func (st *Fences) CheckFence(
	ctx context.Context, tenant uuid.UUID, key string, token jobrun.ShownToken,
) (ok bool, err error) {
	f := jobrun.KeyFence{TenantID: tenant, Key: key, Epoch: token.Epoch, Seq: token.Seq}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		newest, err := keyFenceTable.One(tx.QueryRowContext(ctx,
			`SELECT `+keyFenceColumns+` FROM jobs.fences f WHERE f.tenant_id = $1 AND f.key = $2`, tenant, key))
		first := errors.Is(err, sql.ErrNoRows) // any token is newer than none
		switch {
		case first:
		case err != nil:
			return err
		case f.Epoch < newest.Epoch || f.Epoch == newest.Epoch && f.Seq < newest.Seq:
			return nil
		}
		if first || f.Epoch != newest.Epoch || f.Seq != newest.Seq {
			var given bool
			row := tx.QueryRowContext(ctx, givenToken, tenant, token.Epoch, token.Seq, token.Run)
			if err := row.Scan(&given); err != nil {
				return err
			}
			if !given {
				return notIssued(&f)
			}
		}
		done, err := tx.ExecContext(ctx, checkFence.Text, checkFence.Args(keyFenceTable.Row(&f))...)
		ok, err = postgres.ChangedOne(done, "check a fence", err)
		return err
	})
	return ok, postgres.Wrap("check a fence", err)
}

func notIssued(f *jobrun.KeyFence) error {
	return fault.New(fault.Invalid, jobrun.CodeFenceNotIssued,
		"no run of this tenant holds the token %s: reject the write; if its run has ended, send run_id as well", f.FencingToken()).
		With(fault.Field{Pointer: "/fencing_token", Code: "not_issued", Message: "is not the token of any run of this tenant"})
}

var (
	listFences = postgres.OfTenant(`SELECT `+keyFenceColumns+`
	  FROM jobs.fences f
	 WHERE f.tenant_id = tenant.id AND f.key > $2
	 ORDER BY f.key
	 LIMIT $3`, "ORDER BY key")
	readFence = postgres.OfTenant(`SELECT `+keyFenceColumns+`
	  FROM jobs.fences f
	 WHERE f.tenant_id = tenant.id AND f.key = $2`, "")
)

// ListFences implements jobrun.Fences.
func (st *Fences) ListFences(
	ctx context.Context, tenant uuid.UUID, p page.Request[string],
) (page.Of[jobrun.KeyFence], error) {
	var list []jobrun.KeyFence
	err := st.db.ReadTenant(ctx, tenant, listFences, func(rows *sql.Rows) error {
		f, err := keyFenceTable.One(rows)
		list = append(list, f)
		return err
	}, p.Start(), p.Limit+1)
	return page.Cut(p, list), postgres.Wrap("list fences", err)
}

// Fence implements jobrun.Fences.
func (st *Fences) Fence(ctx context.Context, tenant uuid.UUID, key string) (f jobrun.KeyFence, err error) {
	err = st.db.ReadOne(ctx, tenant, readFence, noFence(), func(rows *sql.Rows) (err error) {
		f, err = keyFenceTable.One(rows)
		return err
	}, key)
	return f, postgres.Wrap("read a fence", err)
}

// ResetFence implements jobrun.Fences.
func (st *Fences) ResetFence(
	ctx context.Context, tenant uuid.UUID, key string, did func(jobrun.KeyFence) operator.Action,
) (f jobrun.KeyFence, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		f, err = keyFenceTable.One(tx.QueryRowContext(ctx, `DELETE FROM jobs.fences f
		 WHERE f.tenant_id = $1 AND f.key = $2
		 RETURNING `+keyFenceColumns, tenant, key))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noFence()
		case err != nil:
			return err
		}
		return auditdb.PutAction(ctx, tx, did(f))
	})
	return f, postgres.Wrap("reset a fence", err)
}

func noFence() error {
	return fault.New(fault.NotFound, jobrun.CodeFenceNotFound, "no fencing token has been checked for this key")
}

var _ jobrun.Fences = (*Fences)(nil)
