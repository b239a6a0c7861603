package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
)

var getSaga = ofTenant(`SELECT `+sagaColumns+` FROM saga.saga_states s WHERE s.id = $2 AND s.tenant_id = tenant.id`, "")

// Get implements saga.Store.
func (st *Sagas) Get(ctx context.Context, tenant, id uuid.UUID) (saga.Saga, error) {
	s, found := saga.Saga{}, false
	err := st.db.readTenant(ctx, tenant, getSaga, func(rows *sql.Rows) (err error) {
		s, err = scanSaga(rows)
		found = true
		return err
	}, id)
	switch {
	case err != nil:
		return saga.Saga{}, fmt.Errorf("get saga: %w", err)
	case !found:
		return saga.Saga{}, saga.NotFound(id)
	}
	return s, nil
}

var stepLogs = ofTenant(`SELECT `+logColumns+` FROM saga.saga_step_logs l
 WHERE l.saga_id = $2 AND EXISTS (SELECT 1 FROM saga.saga_states s WHERE s.id = $2 AND s.tenant_id = tenant.id)`,
	`ORDER BY step_index, started_at, attempt`)

// StepLogs implements saga.Store.
func (st *Sagas) StepLogs(ctx context.Context, tenant, id uuid.UUID) ([]saga.StepLog, error) {
	logs := []saga.StepLog{}
	err := st.db.readTenant(ctx, tenant, stepLogs, func(rows *sql.Rows) error {
		l, err := scanLog(rows)
		logs = append(logs, l)
		return err
	}, id)
	if err != nil {
		return nil, fmt.Errorf("read step logs: %w", err)
	}
	return logs, nil
}

const loadSagas = `SELECT ` + sagaColumns + ` FROM saga.saga_states s WHERE s.id = ANY ($1)`

// Load implements saga.Store.
func (st *Sagas) Load(ctx context.Context, ids []uuid.UUID) ([]saga.Loaded, error) {
	rows, err := st.db.queryRead(ctx, loadSagas, pq.Array(ids))
	if err != nil {
		return nil, fmt.Errorf("load sagas: %w", err)
	}
	return st.withLogs(ctx, rows)
}

const loadLogs = `
SELECT ` + logColumns + ` FROM saga.saga_step_logs l WHERE l.saga_id = ANY ($1)
 ORDER BY l.step_index, l.started_at, l.attempt`

// withLogs reads heads from rows and then the step logs of those that have any.
func (st *Sagas) withLogs(ctx context.Context, rows *sql.Rows) ([]saga.Loaded, error) {
	var out []saga.Loaded
	at := map[uuid.UUID]int{}
	var ids []uuid.UUID
	err := eachRow(rows, func() error {
		s, err := scanSaga(rows)
		at[s.ID] = len(out)
		ids = append(ids, s.ID)
		out = append(out, saga.Loaded{Saga: s})
		return err
	})
	// Rows that came before an error may be of a statement that was rolled back,
	// and a saga with a part of its logs is another saga: all or nothing.
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	logs, err := st.db.queryRead(ctx, loadLogs, pq.Array(ids))
	if err == nil {
		err = eachRow(logs, func() error {
			l, err := scanLog(logs)
			i := at[l.SagaID]
			out[i].Logs = append(out[i].Logs, l)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("load step logs: %w", err)
	}
	return out, nil
}

// eachRow calls f for every row and closes rows.
func eachRow(rows *sql.Rows, f func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}
