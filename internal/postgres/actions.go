package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// actionTypes are the types of the columns of a batch of operators' actions, in
// the order of actionColumns.add.
var actionTypes = [...]string{
	"uuid", "uuid", "timestamptz", "text", "text", "text", "text", "text", "text", "text",
	"uuid", "text", "text", "bytea", "bytea", "text",
}

const actionNames = `id, tenant_id, at, kind, subject, verb, actor, reason, request_id, detail,
	credential_id, address, operation, before_hash, after_hash, result`

// insertActions is the statement, without its condition on a, that stores a batch
// of operators' actions whose columns are the parameters from $first on; for the
// writers' connections. In a WITH it stores them in the transaction of what they
// tell of; the condition says which of them happened: ` WHERE a.id IN (…)`.
func insertActions(first int) string {
	list := make([]string, len(actionTypes))
	for i, t := range actionTypes {
		list[i] = fmt.Sprintf("$%d::%s[]", first+i, t)
	}
	return `
	INSERT INTO saga.audit_actions (` + actionNames + `)
	SELECT a.id, a.tenant_id, a.at, a.kind, a.subject, a.verb, a.actor, a.reason, a.request_id, a.detail::jsonb,
	       a.credential_id, a.address, a.operation, a.before_hash, a.after_hash, a.result
	  FROM unnest(` + strings.Join(list, ", ") + `) AS a (` + actionNames + `)`
}

// actionColumns gathers a batch of actions for insertActions.
type actionColumns struct {
	columns [len(actionTypes)]column
}

func (c *actionColumns) add(a *operator.Action) {
	c.columns[0].uuid(a.ID)
	c.columns[1].uuid(a.TenantID)
	c.columns[2].time(a.At)
	c.columns[3].text(string(a.Kind))
	c.columns[4].text(a.Subject)
	c.columns[5].text(a.Verb)
	c.columns[6].text(a.Actor)
	c.columns[7].text(a.Reason)
	c.columns[8].text(a.RequestID)
	c.columns[9].json(a.Detail)
	c.columns[10].uuidUnlessZero(a.Credential)
	c.columns[11].text(a.Address)
	c.columns[12].text(a.Operation)
	c.columns[13].bytesOrNull(a.Before)
	c.columns[14].bytesOrNull(a.After)
	c.columns[15].text(cmp.Or(a.Result, operator.Done))
}

// putAction stores one action in the transaction of what it tells of, which is
// one in the name of its tenant, or of the engine.
func putAction(ctx context.Context, tx *sqlx.Tx, a operator.Action) error {
	var detail *string
	if a.Detail != nil {
		detail = new(string(a.Detail))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO saga.audit_actions (`+actionNames+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		a.ID, a.TenantID, a.At, a.Kind, a.Subject, a.Verb, a.Actor, a.Reason, a.RequestID, detail,
		uuid.NullUUID{UUID: a.Credential, Valid: a.Credential != uuid.Nil}, a.Address, a.Operation, a.Before, a.After, cmp.Or(a.Result, operator.Done))
	return err
}

// tell stores what whoever acts in ctx has done to a subject of the store's own.
// before and after are what is hashed of it; a nil detail says nothing more.
func tell(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, at time.Time, kind operator.Kind, subject, verb string, before, after any, detail map[string]any) error {
	var doc json.RawMessage
	if detail != nil {
		var err error
		if doc, err = json.Marshal(detail); err != nil {
			return err
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	return putAction(ctx, tx, operator.Acting(ctx).Did(id, tenant, at, kind, subject, verb, doc).From(before, after))
}
