// Package certificationdb stores certifications of participants in PostgreSQL, and assigns them to
// nodes.
//
// Files, each on top of those before it: certificationdb, queue, mail.
package certificationdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Certifications implements certification.Store and certification.Queue on PostgreSQL.
type Certifications struct{ db *postgres.DB }

// New returns the store of the certifications in a database.
func New(db *postgres.DB) *Certifications { return &Certifications{db} }

var (
	_ certification.Store = (*Certifications)(nil)
	_ certification.Queue = (*Certifications)(nil)
	_ certification.Inbox = (*Certifications)(nil)
)

var (
	fieldPayload = envelope.Field{Name: "certification.payload"}
	fieldReport  = envelope.Field{Name: "certification.report"}
	fieldMail    = envelope.Field{Name: "certification.mail"}
)

// SealedTables lists the table with sealed content.
func SealedTables() []postgres.SealedTable {
	return []postgres.SealedTable{{
		Name: "saga.certifications", Key: []string{"id"}, Place: "id", Values: []postgres.SealedValue{
			{Column: "payload", Field: fieldPayload.Name}, {Column: "report", Field: fieldReport.Name},
			{Column: "mail", Field: fieldMail.Name},
		},
	}}
}

// row is a row of saga.certifications.
type row struct {
	certification.Certification
	payload, report []byte
}

var table = postgres.NewTable(
	postgres.UUID("id", func(r *row) *uuid.UUID { return &r.ID }),
	postgres.UUID("tenant_id", func(r *row) *uuid.UUID { return &r.TenantID }),
	postgres.Int("version", func(r *row) *int64 { return &r.Version }),
	postgres.Text("state", func(r *row) *certification.State { return &r.State }),
	postgres.Text("host", func(r *row) *string { return &r.Host }),
	postgres.Text("url", func(r *row) *string { return &r.URL }),
	postgres.Text("compensation", func(r *row) *string { return &r.Compensation }),
	postgres.Text("effects", func(r *row) *string { return &r.Effects }),
	postgres.Text("step", func(r *row) *string { return &r.Step }),
	postgres.JSON("payload", func(r *row) *[]byte { return &r.payload }),
	postgres.Int("race_seconds", func(r *row) *int { return &r.RaceSeconds }),
	postgres.Int("timeout_ms", func(r *row) *int { return &r.TimeoutMS }),
	postgres.Bool("later", func(r *row) *bool { return &r.Later }),
	postgres.Int("later_ms", func(r *row) *int { return &r.LaterMS }),
	postgres.Int("attempt", func(r *row) *int { return &r.Attempt }),
	postgres.Int("played", func(r *row) *int { return &r.Played }),
	postgres.Int("planned", func(r *row) *int { return &r.Planned }),
	postgres.Text("verdict", func(r *row) *certification.Verdict { return &r.Certification.Verdict }),
	postgres.Int("findings", func(r *row) *int { return &r.Findings }),
	postgres.Int("warnings", func(r *row) *int { return &r.Warnings }),
	postgres.Int("not_tried", func(r *row) *int { return &r.NotTried }),
	postgres.Text("examiner", func(r *row) *string { return &r.Examiner }),
	postgres.Text("error", func(r *row) *string { return &r.Error }),
	postgres.JSON("report", func(r *row) *[]byte { return &r.report }),
	postgres.Text("reason", func(r *row) *string { return &r.Reason }),
	postgres.Text("actor", func(r *row) *string { return &r.Actor }),
	postgres.Text("actor_name", func(r *row) *string { return &r.ActorName }),
	postgres.Bytes("request_hash", func(r *row) *[]byte { return &r.RequestHash }),
	postgres.Time("created_at", func(r *row) *time.Time { return &r.CreatedAt }),
	postgres.TimeOrNil("started_at", func(r *row) **time.Time { return &r.StartedAt }),
	postgres.TimeOrNil("ended_at", func(r *row) **time.Time { return &r.EndedAt }),
)

// listed is the table without content, for lists.
var listed = table.Without("payload", "report")

// open converts a row. A report that cannot be read is marked. A certification whose payload cannot
// be read cannot be run.
func (st *Certifications) open(r *row) (certification.Certification, error) {
	c := r.Certification
	sealer := st.db.Keys.SealerFor(c.TenantID, c.ID)
	var err error
	if c.Payload, err = postgres.Unseal(&sealer, fieldPayload, r.payload); err != nil {
		if !errors.Is(err, envelope.ErrUnreadable) {
			return c, err
		}
		c.Unreadable = true
	}
	if c.Report, err = postgres.Unseal(&sealer, fieldReport, r.report); err != nil {
		if !errors.Is(err, envelope.ErrUnreadable) {
			return c, err
		}
		c.Unreadable = true
	}
	return c, nil
}

// sealed converts a certification to a row with sealed content.
func (st *Certifications) sealed(c *certification.Certification) (*row, error) {
	r := &row{Certification: *c}
	sealer := st.db.Keys.SealerFor(c.TenantID, c.ID)
	var err error
	if r.payload, err = postgres.Seal(&sealer, fieldPayload, c.Payload); err != nil {
		return nil, err
	}
	r.report, err = postgres.Seal(&sealer, fieldReport, c.Report)
	return r, err
}

var insert = postgres.Named(`
INSERT INTO saga.certifications (`+table.Inserted()+`)
VALUES (`+table.Values("c")+`)
    ON CONFLICT (id) DO NOTHING`,
	table.As("c"))

// Create implements certification.Store.
func (st *Certifications) Create(
	ctx context.Context, c certification.Certification, by operator.Action,
) (stored certification.Certification, created bool, err error) {
	r, err := st.sealed(&c)
	if err != nil {
		return c, false, err
	}
	err = st.db.InTenant(ctx, c.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, insert.Text, insert.Args(table.Row(r))...)
		if created, err = postgres.ChangedOne(res, "insert a certification", err); err != nil || !created {
			return err
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	if err == nil && !created {
		stored, err = st.Get(ctx, c.TenantID, c.ID)
		return stored, false, err
	}
	return c, created, postgres.Wrap("create a certification", err)
}

var get = postgres.OfTenant(`SELECT `+table.Selected("c")+` FROM saga.certifications c
  WHERE c.tenant_id = tenant.id AND c.id = $2`, "")

// Get implements certification.Store.
func (st *Certifications) Get(ctx context.Context, tenant, id uuid.UUID) (c certification.Certification, err error) {
	err = st.db.ReadOne(ctx, tenant, get, certification.NotFound(), func(rows *sql.Rows) error {
		r, err := table.One(rows)
		if err != nil {
			return err
		}
		c, err = st.open(&r)
		return err
	}, id)
	return c, postgres.Wrap("get a certification", err)
}

// List implements certification.Store.
func (st *Certifications) List(
	ctx context.Context, tenant uuid.UUID, f certification.Filter, p page.ByTime,
) (found page.Of[certification.Certification], err error) {
	var w postgres.Where
	w.Add("c.tenant_id = ?", tenant)
	if f.State != "" {
		w.Add("c.state = ?", f.State)
	}
	if len(f.Hosts) > 0 {
		w.Add("c.host = ANY (?::text[])", postgres.TextArray(f.Hosts))
	}
	if f.Latest {
		w.Add(`c.state = 'COMPLETED' AND NOT EXISTS (SELECT FROM saga.certifications n
		  WHERE n.tenant_id = c.tenant_id AND n.host = c.host AND n.later = c.later AND n.state = 'COMPLETED'
		    AND (n.verdict <> 'INCOMPLETE' OR c.verdict = 'INCOMPLETE')
		    AND (n.created_at, n.id) > (c.created_at, c.id))`)
	}
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		l := postgres.NewestFirst{
			Columns: listed.Selected("c"), From: "saga.certifications c", At: "c.created_at", ID: "c.id",
		}
		found, err = postgres.ReadFew(ctx, tx, l, &w, p,
			func(from postgres.Scanner, more ...any) (certification.Certification, error) {
				r, err := listed.One(from, more...)
				return r.Certification, err
			})
		return err
	})
	return found, postgres.Wrap("list certifications", err)
}

// Cancel implements certification.Store.
func (st *Certifications) Cancel(
	ctx context.Context, tenant, id uuid.UUID, by operator.Action,
) (c certification.Certification, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		r, err := table.One(tx.QueryRowContext(ctx, `SELECT `+table.Selected("c")+` FROM saga.certifications c
		  WHERE c.tenant_id = $1 AND c.id = $2 FOR UPDATE`, tenant, id))
		if errors.Is(err, sql.ErrNoRows) {
			return certification.NotFound()
		}
		if err != nil {
			return err
		}
		if c, err = st.open(&r); err != nil {
			return err
		}
		if err := c.Canceled(by.At); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE saga.certifications c
		  SET state = $3, version = $4, ended_at = $5, token = NULL, lease_until = NULL, mail = NULL
		  WHERE c.tenant_id = $1 AND c.id = $2`, tenant, id, c.State, c.Version, c.EndedAt); err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	return c, postgres.Wrap("cancel a certification", err)
}
