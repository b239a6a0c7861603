// Package auditdb keeps on PostgreSQL what operators did. write.go is for the stores,
// which tell of an action in the transaction that does it; list.go and actions_chain.go
// read them. chain.go is the seals over any feed of rows, the events of sagas too.
package auditdb

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
	"github.com/skald-saga/skald/internal/postgres"
)

// actionTypes are the types of the columns of a batch of operators' actions, in
// the order of ActionColumns.Add.
var actionTypes = [...]string{
	"uuid", "uuid", "timestamptz", "text", "text", "text", "text", "text", "text", "text",
	"uuid", "text", "text", "bytea", "bytea", "text",
}

const actionNames = `id, tenant_id, at, kind, subject, verb, actor, reason, request_id, detail,
	credential_id, address, operation, before_hash, after_hash, result`

// InsertActions is the statement, without its condition on a, that stores a batch
// of operators' actions whose columns are the parameters from $first on; for the
// writers' connections. In a WITH it stores them in the transaction of what they
// tell of; the condition says which of them happened: ` WHERE a.id IN (…)`.
func InsertActions(first int) string {
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

// ActionColumns gathers a batch of actions for InsertActions.
type ActionColumns struct {
	Columns [len(actionTypes)]postgres.BinaryColumn
}

// Add adds an action to the batch.
func (c *ActionColumns) Add(a *operator.Action) {
	c.Columns[0].UUID(a.ID)
	c.Columns[1].UUID(a.TenantID)
	c.Columns[2].Time(a.At)
	c.Columns[3].Text(string(a.Kind))
	c.Columns[4].Text(a.Subject)
	c.Columns[5].Text(a.Verb)
	c.Columns[6].Text(a.Actor)
	c.Columns[7].Text(a.Reason)
	c.Columns[8].Text(a.RequestID)
	c.Columns[9].JSON(a.Detail)
	c.Columns[10].UUIDUnlessZero(a.Credential)
	c.Columns[11].Text(a.Address)
	c.Columns[12].Text(a.Operation)
	c.Columns[13].BytesOrNull(a.Before)
	c.Columns[14].BytesOrNull(a.After)
	c.Columns[15].Text(cmp.Or(a.Result, operator.Done))
}

// PutAction stores one action in the transaction of what it tells of, which is
// one in the name of its tenant, or of the engine.
func PutAction(ctx context.Context, tx *sqlx.Tx, a operator.Action) error {
	var detail *string
	if a.Detail != nil {
		detail = new(string(a.Detail))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO saga.audit_actions (`+actionNames+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		a.ID, a.TenantID, a.At, a.Kind, a.Subject, a.Verb, a.Actor, a.Reason, a.RequestID, detail,
		uuid.NullUUID{UUID: a.Credential, Valid: a.Credential != uuid.Nil}, a.Address, a.Operation, a.Before, a.After,
		cmp.Or(a.Result, operator.Done))
	return err
}

// Tell stores what whoever acts in ctx has done to a subject of the store's own.
// id is the record's. before and after are what is hashed of it; a nil detail says
// nothing more.
func Tell(ctx context.Context, tx *sqlx.Tx, id, tenant uuid.UUID, at time.Time, kind operator.Kind, subject,
	verb string, before, after any, detail map[string]any) error {
	var doc json.RawMessage
	if detail != nil {
		var err error
		if doc, err = json.Marshal(detail); err != nil {
			return err
		}
	}
	return PutAction(ctx, tx, operator.Acting(ctx).Did(id, tenant, at, kind, subject, verb, doc).From(before, after))
}
