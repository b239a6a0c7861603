package certificationdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// mail is the mail of the certification that the node with the given token is running.
const mail = `SELECT c.mail FROM saga.certifications c
  WHERE c.tenant_id = $1 AND c.id = $2 AND c.token = $3 AND c.state = 'RUNNING'`

// Report implements certification.Inbox.
func (st *Certifications) Report(
	ctx context.Context, c certification.Callback, report json.RawMessage,
) (first json.RawMessage, repeated bool, err error) {
	err = st.db.InTenant(ctx, c.Tenant, func(tx *sqlx.Tx) error {
		all, err := st.mailOf(tx.QueryRowContext(ctx, mail+" FOR UPDATE", c.Tenant, c.ID, c.Token), c.Tenant, c.ID)
		if err != nil || report == nil {
			return err
		}
		var changed bool
		if first, changed = all.Put(c, report); !changed {
			repeated = true
			return nil
		}
		doc, err := json.Marshal(all)
		if err != nil {
			return err
		}
		sealer := st.db.Keys.SealerFor(c.Tenant, c.ID)
		sealed, err := postgres.Seal(&sealer, fieldMail, doc)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE saga.certifications c SET mail = $3
		  WHERE c.tenant_id = $1 AND c.id = $2`, c.Tenant, c.ID, jsonOrNil(sealed))
		return err
	})
	return first, repeated, postgres.Wrap("store the report of a tested participant", err)
}

// Reports implements certification.Inbox.
func (st *Certifications) Reports(
	ctx context.Context, c *certification.Certification, token uuid.UUID,
) (all certification.Mail, err error) {
	err = st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		all, err = st.mailOf(tx.QueryRowContext(ctx, mail, c.TenantID, c.ID, token), c.TenantID, c.ID)
		return err
	})
	return all, postgres.Wrap("read the reports of a tested participant", err)
}

func (st *Certifications) mailOf(found *sql.Row, tenant, id uuid.UUID) (certification.Mail, error) {
	var sealed []byte
	if err := found.Scan(&sealed); errors.Is(err, sql.ErrNoRows) {
		return nil, certification.NotFound()
	} else if err != nil {
		return nil, err
	}
	sealer := st.db.Keys.SealerFor(tenant, id)
	doc, err := postgres.Unseal(&sealer, fieldMail, sealed)
	if err != nil {
		return nil, err
	}
	all := certification.Mail{}
	if doc == nil {
		return all, nil
	}
	return all, json.Unmarshal(doc, &all)
}
