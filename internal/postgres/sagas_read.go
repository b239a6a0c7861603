package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
)

const getSaga = `SELECT ` + sagaColumns + ` FROM saga.saga_states s WHERE s.id = $1 AND s.tenant_id = $2`

// Get implements saga.Store.
func (st *Sagas) Get(ctx context.Context, tenant, id uuid.UUID) (saga.Saga, error) {
	rows, err := st.db.queryRead(ctx, getSaga, id, tenant)
	if err != nil {
		return saga.Saga{}, fmt.Errorf("get saga: %w", err)
	}
	s, err := saga.Saga{}, error(saga.NotFound(id))
	if e := eachRow(rows, func() error { s, err = scanSaga(rows); return err }); e != nil {
		return s, fmt.Errorf("get saga: %w", e)
	}
	return s, err
}

const stepLogs = `
SELECT ` + logColumns + ` FROM saga.saga_step_logs l
 WHERE l.saga_id = $1 AND EXISTS (SELECT 1 FROM saga.saga_states s WHERE s.id = $1 AND s.tenant_id = $2)
 ORDER BY l.step_index, l.started_at, l.attempt`

// StepLogs implements saga.Store.
func (st *Sagas) StepLogs(ctx context.Context, tenant, id uuid.UUID) ([]saga.StepLog, error) {
	rows, err := st.db.queryRead(ctx, stepLogs, id, tenant)
	if err != nil {
		return nil, fmt.Errorf("read step logs: %w", err)
	}
	logs := []saga.StepLog{}
	err = eachRow(rows, func() error {
		l, err := scanLog(rows)
		logs = append(logs, l)
		return err
	})
	return logs, err
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
