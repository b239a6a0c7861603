package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

var getSaga = postgres.OfTenant(`SELECT `+sagaColumns+`
  FROM saga.saga_states s
 WHERE s.id = $2 AND s.tenant_id = tenant.id`, "")

// Get implements saga.Store.
func (st *Sagas) Get(ctx context.Context, tenant, id uuid.UUID) (saga.Saga, error) {
	var s saga.Saga
	err := st.db.ReadOne(ctx, tenant, getSaga, saga.NotFound(id), func(rows *sql.Rows) (err error) {
		s, err = scanSaga(st.db, rows)
		return shown(err)
	}, id)
	if err != nil {
		return saga.Saga{}, postgres.Wrap("get saga", err)
	}
	return s, nil
}

// The queries for the step logs of a saga: all logs in full; selected logs together with the logs
// that their requests are derived from; and logs without the columns that brief views omit.
var (
	stepLogs          = stepLogsOf(logColumns+headOfLogs, "")
	stepLogsByID      = stepLogsOf(logColumns+headOfLogs, withSources)
	stepLogsBrief     = stepLogsOf(briefLogColumns+" FROM saga.saga_step_logs l", "")
	stepLogsExplained = stepLogsOf(explainedLogColumns+" FROM saga.saga_step_logs l", "")
)

// headOfLogs follows logColumns and adds the columns of the head that requests need. Only one row
// has the payload.
const headOfLogs = `, h.workflow_name, CASE WHEN row_number() OVER () = 1 THEN h.payload END AS payload
  FROM saga.saga_step_logs l JOIN saga.saga_states h ON h.id = l.saga_id AND h.tenant_id = l.tenant_id`

func stepLogsOf(columnsFrom, which string) string {
	return postgres.OfTenant(`SELECT `+columnsFrom+`
 WHERE l.saga_id = $2 AND l.tenant_id = tenant.id`+which,
		`ORDER BY step_index, started_at, attempt`)
}

// StepLogs implements saga.Store.
func (st *Sagas) StepLogs(ctx context.Context, tenant, id uuid.UUID, want saga.Logs) ([]saga.StepLog, error) {
	logs := []saga.StepLog{}
	query, args := stepLogs, []any{id}
	switch {
	case len(want.IDs) > 0:
		query, args = stepLogsByID, append(args, pq.Array(want.IDs))
	case want.Explained:
		query = stepLogsExplained
	case want.Brief:
		query = stepLogsBrief
	}
	head := sagaRow{Saga: &saga.Saga{ID: id}}
	var more []any
	var payload []byte // in the first row
	if whole(want) {
		more = []any{&head.WorkflowName, &payload}
	}
	sealer := st.db.Keys.SealerFor(tenant, id)
	err := st.db.ReadTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		l, err := scanLog(rows, oneSealer(&sealer), more...)
		if want.Explained {
			l.LeaveContent()
		}
		logs = append(logs, l)
		if payload != nil {
			head.payload = payload
		}
		return shown(err)
	}, args...)
	if err == nil && whole(want) {
		head.Payload, err = postgres.Unseal(&sealer, fieldPayload, head.payload)
		head.ContentUnreadable, err = err != nil, shown(err)
		logs = withRequests(head.Saga, logs, want)
	}
	if err != nil {
		return nil, fmt.Errorf("read step logs: %w", err)
	}
	return logs, nil
}

// givenSagas selects the sagas of two arrays, ids and tenants, by a hashed subplan (see
// commitSagas). The ids find the rows by their index.
const givenSagas = `(SELECT m.id, m.tenant_id FROM unnest($1::uuid[], $2::uuid[]) AS m (id, tenant_id))`

var loadSagas = `SELECT ` + sagaColumns + ` FROM saga.saga_states s
 WHERE s.id = ANY ($1) AND ((s.id, s.tenant_id) IN ` + givenSagas + `) IS TRUE`

// Load implements saga.Store.
func (st *Sagas) Load(ctx context.Context, refs []saga.Ref) ([]saga.Loaded, error) {
	ids, tenants := refColumns(refs)
	rows, err := st.db.QueryRead(ctx, loadSagas, ids, tenants)
	if err != nil {
		return nil, fmt.Errorf("load sagas: %w", err)
	}
	return st.withLogs(ctx, rows)
}

var loadLogs = `
SELECT ` + logColumns + ` FROM saga.saga_step_logs l
 WHERE l.saga_id = ANY ($1) AND ((l.saga_id, l.tenant_id) IN ` + givenSagas + `) IS TRUE
 ORDER BY l.step_index, l.started_at, l.attempt`

// withLogs reads heads from rows, and then the step logs of the sagas that have any. A saga whose
// encrypted content cannot be decrypted is left out. Otherwise one row that was tampered with would
// stop the engine from driving all other sagas.
func (st *Sagas) withLogs(ctx context.Context, rows *sql.Rows) ([]saga.Loaded, error) {
	var out []saga.Loaded
	index := map[saga.Ref]int{}
	var refs []saga.Ref
	var places []envelope.Sealer
	err := postgres.EachRow(rows, func() error {
		s, err := scanSaga(st.db, rows)
		if err != nil {
			return st.db.PassOver(ctx, err)
		}
		index[s.Ref()] = len(out)
		refs = append(refs, s.Ref())
		places = append(places, st.db.Keys.SealerFor(s.Tenant.ID, s.ID))
		out = append(out, saga.Loaded{Saga: s})
		return nil
	})
	// The result is all or nothing: rows that came before an error may belong to a statement that
	// was rolled back, and a saga with only some of its logs would be wrong.
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	var closed map[saga.Ref]bool // sagas with a log that cannot be decrypted
	ids, tenants := refColumns(refs)
	logs, err := st.db.QueryRead(ctx, loadLogs, ids, tenants)
	if err == nil {
		err = postgres.EachRow(logs, func() error {
			l, of, err := scanLogOf(logs, func(of saga.Ref) *envelope.Sealer { return &places[index[of]] })
			if err != nil {
				if err = st.db.PassOver(ctx, err); err == nil {
					if closed == nil {
						closed = map[saga.Ref]bool{}
					}
					closed[of] = true
				}
				return err
			}
			i := index[of]
			out[i].Logs = append(out[i].Logs, l)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("load step logs: %w", err)
	}
	for i := range out {
		saga.MakeRequests(&out[i].Saga, out[i].Logs)
	}
	if closed != nil {
		out = slices.DeleteFunc(out, func(l saga.Loaded) bool { return closed[l.Saga.Ref()] })
	}
	return out, nil
}

// refColumns returns refs as two arrays, for use with unnest.
func refColumns(refs []saga.Ref) (ids, tenants any) {
	i, t := make([]uuid.UUID, len(refs)), make([]uuid.UUID, len(refs))
	for n, r := range refs {
		i[n], t[n] = r.ID, r.Tenant
	}
	return pq.Array(i), pq.Array(t)
}
