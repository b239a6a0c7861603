// Package auditdb stores the actions of operators in PostgreSQL. write.go is for the stores, which
// record an action in the transaction that performs it. list.go and actions_chain.go read actions.
// chain.go maintains the seals over any feed of rows, including the events of sagas.
package auditdb

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/principal"
)

// actionTable is saga.audit_actions. Result is Done if an action has none. The actor's name is part
// of the detail.
var actionTable = postgres.NewTable(
	postgres.UUID("id", func(a *operator.Action) *uuid.UUID { return &a.ID }),
	postgres.UUID("tenant_id", func(a *operator.Action) *uuid.UUID { return &a.TenantID }),
	postgres.Time("at", func(a *operator.Action) *time.Time { return &a.At }),
	postgres.Text("kind", func(a *operator.Action) *operator.Kind { return &a.Kind }),
	postgres.Text("subject", func(a *operator.Action) *string { return &a.Subject }),
	postgres.Text("verb", func(a *operator.Action) *string { return &a.Verb }),
	postgres.Text("actor", func(a *operator.Action) *string { return &a.Actor }),
	postgres.Text("reason", func(a *operator.Action) *string { return &a.Reason }),
	postgres.Text("request_id", func(a *operator.Action) *string { return &a.RequestID }),
	postgres.JSON("detail", func(a *operator.Action) *[]byte { return (*[]byte)(&a.Detail) }),
	postgres.UUIDOrZero("credential_id", func(a *operator.Action) *uuid.UUID { return &a.Credential }),
	postgres.Text("address", func(a *operator.Action) *string { return &a.Address }),
	postgres.Text("operation", func(a *operator.Action) *string { return &a.Operation }),
	postgres.Bytes("before_hash", func(a *operator.Action) *[]byte { return &a.Before }),
	postgres.Bytes("after_hash", func(a *operator.Action) *[]byte { return &a.After }),
	postgres.Text("result", func(a *operator.Action) *string { return &a.Result }),
)

var (
	putAction = postgres.Named(`INSERT INTO saga.audit_actions (`+actionTable.Inserted()+`)
		VALUES (`+actionTable.Values("a")+`)`, actionTable.As("a"))
	putActions = postgres.Named(`INSERT INTO saga.audit_actions (`+actionTable.Inserted()+`)
		SELECT `+actionTable.Stored("a")+` FROM `+postgres.Unnest("a", actionTable.As("a")), actionTable.As("a"))
)

// PutAction stores one action in the transaction of the change that it records. The transaction
// must run as the role of the action's tenant or of the engine.
func PutAction(ctx context.Context, tx *sqlx.Tx, a operator.Action) error {
	a.Detail = principal.WithName(a.Detail, a.ActorName)
	a.Result = cmp.Or(a.Result, operator.Done)
	_, err := tx.ExecContext(ctx, putAction.Text, putAction.Args(actionTable.Row(&a))...)
	return err
}

// PutActions stores actions in the transaction of the changes that they record, which must be on
// one of the writers' connections.
func PutActions(ctx context.Context, tx *sqlx.Tx, actions []operator.Action) error {
	if len(actions) == 0 {
		return nil
	}
	batch := actionTable.Batch(len(actions))
	for _, a := range actions {
		a.Result, a.Detail = cmp.Or(a.Result, operator.Done), principal.WithName(a.Detail, a.ActorName)
		batch.Add(&a)
	}
	_, err := tx.ExecContext(ctx, putActions.Text, putActions.Args(batch)...)
	return err
}

// Tell records an action of the actor in ctx on a subject of the store. id is the id of the record.
// before and after are hashed; detail may be nil.
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
