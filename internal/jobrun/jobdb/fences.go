package jobdb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/rest/page"
)

// issuedTokens is the highest fencing token issued: the epoch of the leader's row, and
// the last number of the sequence.
const issuedTokens = `
SELECT coalesce((SELECT l.epoch FROM jobs.leader l WHERE l.name = 'default'), 0),
       coalesce((SELECT s.last_value FROM pg_catalog.pg_sequences s WHERE s.schemaname = 'jobs' AND s.sequencename = 'fencing'), 0)`

// issued tells whether a token may have been given to a run: both of its numbers only
// grow, so one above the highest was never issued. A genuine token was issued before
// this reads; a leader elected meanwhile only raises the highest. It uses the engine's
// role, since a tenant's role may not read who leads.
func (st *Jobs) issued(ctx context.Context, epoch, seq int64) (bool, error) {
	var lastEpoch, lastSeq int64
	rows, err := st.db.QueryWrite(ctx, issuedTokens)
	if err == nil {
		err = postgres.EachRow(rows, func() error { return rows.Scan(&lastEpoch, &lastSeq) })
	}
	return epoch >= 1 && epoch <= lastEpoch && seq >= 1 && seq <= lastSeq, err
}

// checkFence stores a token unless it is older than the newest one.
var checkFence = postgres.Named(`
INSERT INTO jobs.fences AS f (`+keyFenceTable.Inserted()+`) VALUES (`+keyFenceTable.Values("f")+`)
ON CONFLICT (tenant_id, key) DO UPDATE
   SET epoch = EXCLUDED.epoch, seq = EXCLUDED.seq, checked_at = EXCLUDED.checked_at
 WHERE (EXCLUDED.epoch, EXCLUDED.seq) >= (f.epoch, f.seq)`, keyFenceTable.As("f"))

// CheckFence implements jobrun.Work.
func (st *Jobs) CheckFence(ctx context.Context, tenant uuid.UUID, key string, epoch, seq int64) (ok bool, err error) {
	switch issued, err := st.issued(ctx, epoch, seq); {
	case err != nil:
		return false, postgres.Wrap("check a fence", err)
	case !issued:
		return false, fault.New(fault.Invalid, jobrun.CodeFenceNotIssued, "%d.%d was not issued by this server: refuse the write", epoch, seq).
			With(fault.Field{Pointer: "/fencing_token", Code: "not_issued", Message: "was never issued to a run"})
	}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		f := jobrun.KeyFence{TenantID: tenant, Key: key, Epoch: epoch, Seq: seq}
		done, err := tx.ExecContext(ctx, checkFence.Text, checkFence.Args(keyFenceTable.Row(&f))...)
		ok, err = postgres.ChangedOne(done, "check a fence", err)
		return err
	})
	return ok, postgres.Wrap("check a fence", err)
}

// Fences is jobrun.Fences on PostgreSQL.
type Fences struct{ db *postgres.DB }

// NewFences returns the fences of db.
func NewFences(db *postgres.DB) *Fences { return &Fences{db} }

var (
	listFences = postgres.OfTenant(`SELECT `+keyFenceColumns+` FROM jobs.fences f WHERE f.tenant_id = tenant.id AND f.key > $2 ORDER BY f.key LIMIT $3`, "ORDER BY key")
	readFence  = postgres.OfTenant(`SELECT `+keyFenceColumns+` FROM jobs.fences f WHERE f.tenant_id = tenant.id AND f.key = $2`, "")
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
		f, err = keyFenceTable.One(tx.QueryRowContext(ctx, `DELETE FROM jobs.fences f WHERE f.tenant_id = $1 AND f.key = $2 RETURNING `+keyFenceColumns, tenant, key))
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
	return fault.New(fault.NotFound, jobrun.CodeFenceNotFound, "no fencing token was checked for this key")
}

var _ jobrun.Fences = (*Fences)(nil)
