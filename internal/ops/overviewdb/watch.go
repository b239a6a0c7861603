package overviewdb

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/postgres"
)

// presentStates reads the states of resources by their keys.
var presentStates = postgres.Named(`
SELECT 'saga', s.id::text, s.version, s.state::text, s.updated_at
  FROM saga.saga_states s WHERE s.tenant_id = @tenant AND s.id = ANY (@sagas::uuid[])
UNION ALL
SELECT 'run', r.id::text, r.version, r.state, r.updated_at
  FROM jobs.job_runs r
 WHERE r.tenant_id = @tenant AND r.id = ANY (@runs::uuid[])
UNION ALL
SELECT 'letter', m.id::text, m.version, m.status, m.updated_at
  FROM dlq.dlq_messages m WHERE m.tenant_id = @tenant AND m.id = ANY (@letters::uuid[])
UNION ALL
SELECT 'redrive', d.id::text, d.version, d.state, greatest(d.updated_at, d.progress_at)
  FROM dlq.dlq_redrives d WHERE d.tenant_id = @tenant AND d.id = ANY (@redrives::uuid[])
UNION ALL
SELECT 'group', g.fingerprint, g.version, g.state, greatest(g.updated_at, g.last_seen)
  FROM dlq.dlq_groups g WHERE g.tenant_id = @tenant AND g.fingerprint = ANY (@groups::text[])`,
	postgres.Single("tenant", "sagas", "runs", "letters", "redrives", "groups"))

// States implements overview.Store.
func (st *Store) States(ctx context.Context, tenant uuid.UUID, w *overview.Watched) (out []overview.State, err error) {
	ids := func(of []uuid.UUID) any {
		texts := make([]string, len(of))
		for i, id := range of {
			texts[i] = id.String()
		}
		return postgres.ArrayOf(texts)
	}
	args := presentStates.Args(postgres.Values{tenant, ids(w.Sagas), ids(w.Runs), ids(w.Letters), ids(w.Redrives),
		postgres.ArrayOf(w.Groups)})
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, presentStates.Text, args...)
		return each(rows, err, func(row *sql.Rows) error {
			var s overview.State
			if err := row.Scan(&s.Kind, &s.ID, &s.Version, &s.State, &s.Updated); err != nil {
				return err
			}
			s.Updated = s.Updated.UTC()
			if s.Kind == overview.WatchSaga {
				n, err := strconv.Atoi(s.State) // it is a number there
				if err != nil {
					return err
				}
				if s.State, err = stateName(n); err != nil {
					return err
				}
			}
			out = append(out, s)
			return nil
		})
	})
	return out, postgres.Wrap("read states", err)
}
