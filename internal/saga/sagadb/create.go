package sagadb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// creating returns the statement that stores a batch, and so in one transaction. It stores each
// saga whose workflow is enabled and still current, and whose idempotency key is new. Keys and ids
// are inserted in order, so that two nodes with the same keys or ids wait for each other instead of
// deadlocking. A taken id fails the whole statement, and the caller then stores the sagas one by
// one. The id of an archived saga stays taken within its tenant: participants know it, and a second
// saga with the same id could not be archived.
//
// Few clients send a tracestate or baggage, so a batch in which no saga has either omits these
// columns.
func creating(heads *postgres.Table[sagaRow]) *postgres.Statement {
	newSagas := heads.As("c")
	return postgres.Named(`
WITH runnable AS MATERIALIZED (
	SELECT c.* FROM `+postgres.Unnest("c", newSagas)+`
	  JOIN saga.workflows w ON w.tenant_id = c.tenant_id AND w.name = c.workflow_name
	 WHERE w.enabled AND (NOT c.floating OR w.latest_version = c.workflow_version)
	   AND (SELECT a.id
	          FROM saga.saga_states_archive a
	         WHERE a.id = c.id AND a.tenant_id = c.tenant_id) IS NULL -- NOT EXISTS would be a join, of the whole archive
	   AND (c.business_key IS NULL OR (`+activeKey("c.tenant_id", "c.workflow_name", "c.business_key")+`) IS NULL)
), keys AS (
	INSERT INTO saga.idempotency_keys (saga_id, tenant_id, principal, route, key, request_hash)
	SELECT * FROM `+postgres.Unnest("k", theKeys)+`
	 WHERE ((k.id, k.tenant) IN (SELECT id, tenant_id FROM runnable)) IS TRUE
	 ORDER BY k.tenant, k.principal, k.route, k.key
	ON CONFLICT DO NOTHING
	RETURNING saga_id, tenant_id
), stored AS (
	INSERT INTO saga.saga_states (`+heads.Inserted()+`)
SELECT `+heads.Stored("")+`
  FROM runnable
 WHERE NOT keyed OR (id, tenant_id) IN (SELECT saga_id, tenant_id FROM keys)
RETURNING id, tenant_id, timeout_at
), told AS (`+insertEvents+` WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM stored)) IS TRUE
)
SELECT id, tenant_id, timeout_at FROM stored`, newSagas, theKeys, theEvents)
}

var (
	untracedTable = sagaTable.Without("tracestate", "baggage")
	createSagas   = creating(untracedTable)
	createTraced  = creating(sagaTable)
)

// newSagaColumns returns the statement for a batch and its arguments, with the sagas ordered by id.
func newSagaColumns(db *postgres.DB, batch []saga.NewSaga) (string, []any, error) {
	table, create := untracedTable, createSagas
	ordered := make([]*saga.NewSaga, len(batch))
	for i := range batch {
		ordered[i] = &batch[i]
		if batch[i].TraceState != nil || batch[i].Baggage != nil {
			table, create = sagaTable, createTraced
		}
	}
	heads, keys, events := table.Batch(len(batch)), keyTable.Batch(len(batch)), newEventBatch(len(batch))
	slices.SortFunc(ordered, func(a, b *saga.NewSaga) int { return a.Ref().Compare(b.Ref()) })
	var row sagaRow
	var key keyRow
	for _, n := range ordered {
		s := &n.Saga
		row = sagaRow{Saga: s, metadata: s.Metadata, floating: n.Floating, keyed: n.Key != nil}
		sealer := db.Keys.SealerFor(s.Tenant.ID, s.ID)
		var err error
		if row.payload, err = postgres.Seal(&sealer, fieldPayload, s.Payload); err != nil {
			return "", nil, err
		}
		if s.RetryPolicy != nil {
			if row.policy, err = json.Marshal(s.RetryPolicy); err != nil {
				return "", nil, fmt.Errorf("encode retry policy: %w", err)
			}
		}
		heads.Add(&row)
		if n.Key != nil {
			key = keyRow{s.ID, n.Key}
			keys.Add(&key)
		}
		begun := s.Begun(n.Actor, n.RequestID)
		begun.NameActor(n.ActorName)
		if err := addEvent(db, events, &begun); err != nil {
			return "", nil, err
		}
	}
	return create.Text, create.Args(heads, keys, events), nil
}

// Create implements saga.Store.
func (st *Sagas) Create(ctx context.Context, batch []saga.NewSaga) ([]saga.CreateResult, error) {
	timeouts, err := postgres.RetryCollision(func() (map[saga.Ref]*time.Time, error) { return st.insert(ctx, batch) })
	switch {
	case err == nil:
	case postgres.DataError(err) && len(batch) > 1:
		return postgres.OneByOne(batch, func(one []saga.NewSaga) ([]saga.CreateResult, error) { return st.Create(ctx, one) })
	case postgres.Violates(err, "saga_states_pkey"):
		return []saga.CreateResult{{Created: saga.IDTaken}}, nil
	case postgres.Violates(err, businessKeyIndex): // the key was stored while the statement ran, and is visible now
		r, err := st.whyNotCreated(ctx, &batch[0])
		return []saga.CreateResult{r}, err
	case postgres.DataError(err):
		return []saga.CreateResult{{Created: saga.Unstorable}}, nil
	default:
		return nil, fmt.Errorf("create sagas: %w", err)
	}
	results := make([]saga.CreateResult, len(batch))
	for i := range batch {
		timeout, isStored := timeouts[batch[i].Ref()]
		if isStored {
			s := batch[i].Saga
			s.TimeoutAt = timeout
			results[i] = saga.CreateResult{Created: saga.Stored, Saga: s}
			continue
		}
		if results[i], err = st.whyNotCreated(ctx, &batch[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (st *Sagas) insert(ctx context.Context, batch []saga.NewSaga) (map[saga.Ref]*time.Time, error) {
	create, args, err := newSagaColumns(st.db, batch)
	if err != nil {
		return nil, err
	}
	rows, err := st.db.QueryWrite(ctx, create, args...)
	if err != nil {
		return nil, err
	}
	out := make(map[saga.Ref]*time.Time, len(batch))
	err = postgres.EachRow(rows, func() error {
		var ref saga.Ref
		var timeout *time.Time
		if err := rows.Scan(&ref.ID, &ref.Tenant, &timeout); err != nil {
			return err
		}
		postgres.UTC(timeout)
		out[ref] = timeout
		return nil
	})
	return out, err
}

// whyNotCreated finds out afterwards why the statement did not create a saga.
func (st *Sagas) whyNotCreated(ctx context.Context, n *saga.NewSaga) (saga.CreateResult, error) {
	if n.Key != nil {
		state, prior, err := st.Key(ctx, *n.Key)
		switch {
		case err != nil:
			return saga.CreateResult{}, err
		case state == saga.KeySame:
			return saga.CreateResult{Created: saga.Replayed, Prior: prior}, nil
		case state == saga.KeyOther:
			return saga.CreateResult{Created: saga.KeyReused}, nil
		}
	}
	var found []struct {
		Enabled  bool `db:"enabled"`
		Archived bool `db:"archived"`
	}
	err := st.db.Read.SelectContext(ctx, &found, `
		SELECT enabled, EXISTS (SELECT 1 FROM saga.saga_states_archive WHERE id = $3 AND tenant_id = $1) AS archived
		  FROM saga.workflows WHERE tenant_id = $1 AND name = $2`, n.Tenant.ID, n.WorkflowName, n.ID)
	switch {
	case err != nil:
		return saga.CreateResult{}, fmt.Errorf("read workflow: %w", err)
	case len(found) == 0 || !found[0].Enabled:
		return saga.CreateResult{Created: saga.NotRunnable}, nil
	case found[0].Archived:
		return saga.CreateResult{Created: saga.IDTaken}, nil
	}
	if n.BusinessKey != nil {
		if r, err := st.keyActive(ctx, n); err != nil || r.Created != 0 {
			return r, err
		}
	}
	return saga.CreateResult{Created: saga.NotCurrent}, nil
}

var getKey = postgres.OfTenant(`SELECT k.request_hash, k.saga_id FROM saga.idempotency_keys k
 WHERE k.tenant_id = tenant.id AND k.principal = $2 AND k.route = $3 AND k.key = $4`, "")

// Key implements saga.Store.
func (st *Sagas) Key(ctx context.Context, k idempotency.Key) (saga.KeyState, uuid.UUID, error) {
	state, id := saga.KeyNew, uuid.Nil
	err := st.db.ReadTenant(ctx, k.TenantID, getKey, func(rows *sql.Rows) error {
		var hash []byte
		err := rows.Scan(&hash, &id)
		if state = saga.KeySame; string(hash) != string(k.Hash) {
			state = saga.KeyOther
		}
		return err
	}, k.Principal, k.Route, k.Key)
	if err != nil {
		return saga.KeyNew, uuid.Nil, fmt.Errorf("read idempotency key: %w", err)
	}
	return state, id, nil
}
