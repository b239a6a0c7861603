package auditdb

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/postgres"
)

// actorNames reads the names of the actors of deeds of tenant $1. $2 to $5 contain who did what to
// which subject, and $6 to $8 who may have started which saga. The best match for a deed comes
// first. A change of settings may change several at once and is recorded under a subject that lists
// all their names. Such changes are found by their time in the record of the deployment ($9).
const actorNames = `
	SELECT n, name FROM (
		SELECT q.n, a.name, a.off
		  FROM unnest($2::integer[], $3::text[], $4::text[], $5::timestamptz[]) AS q (n, subject, actor, at)
		 CROSS JOIN LATERAL (
			SELECT a.detail->>'actor_name' AS name, abs(extract(epoch FROM a.at - q.at)) AS off
			  FROM saga.audit_actions a
			 WHERE a.tenant_id = $1
			   AND a.subject = q.subject
			   AND a.actor = q.actor
			   AND jsonb_exists(a.detail, 'actor_name')
			 ORDER BY off
			 LIMIT 1) a
		UNION ALL
		SELECT q.n, e.event_data->>'actor_name', 0
		  FROM unnest($6::integer[], $7::uuid[], $8::text[]) AS q (n, saga, actor)
		  JOIN saga.audit_events e ON e.saga_id = q.saga
		   AND e.actor = q.actor
		 WHERE e.tenant_id = $1
		   AND e.event_type = 'saga.started'
		UNION ALL
		SELECT q.n, e.event_data->>'actor_name', 0
		  FROM unnest($6::integer[], $7::uuid[], $8::text[]) AS q (n, saga, actor)
		  JOIN saga.audit_events_archive e ON e.saga_id = q.saga
		   AND e.actor = q.actor
		 WHERE e.tenant_id = $1
		   AND e.event_type = 'saga.started'
		UNION ALL
		SELECT q.n, a.name, a.off
		  FROM unnest($2::integer[], $3::text[], $4::text[], $5::timestamptz[]) AS q (n, subject, actor, at)
		 CROSS JOIN LATERAL (
			SELECT a.detail->>'actor_name' AS name, abs(extract(epoch FROM a.at - q.at)) AS off
			  FROM saga.audit_actions a
			 WHERE a.tenant_id = $1
			   AND a.kind = 'job_settings'
			   AND a.at BETWEEN q.at - interval '1 minute' AND q.at + interval '1 minute'
			   AND a.actor = q.actor
			 ORDER BY off
			 LIMIT 1) a
		 WHERE $9) found
	 WHERE name <> ''
	 ORDER BY n, off`

// Names implements operator.Log.
func (st *Actions) Names(ctx context.Context, tenant uuid.UUID, deeds []operator.Deed) ([]string, error) {
	names := make([]string, len(deeds))
	var of, ofSagas []int32
	var subjects, actors, starters []string
	var sagas []uuid.UUID
	var at []time.Time
	for i := range deeds {
		d := &deeds[i]
		about := d.About
		if tenant == operator.Deployment {
			about = append(slices.Clone(about), "") // for any subject; see actorNames
		}
		for _, about := range about {
			of, subjects = append(of, int32(i)), append(subjects, about) //nolint:gosec // a page
			actors, at = append(actors, d.Actor), append(at, d.At)
		}
		if d.Saga != uuid.Nil {
			ofSagas, sagas = append(ofSagas, int32(i)), append(sagas, d.Saga) //nolint:gosec // a page
			starters = append(starters, d.Actor)
		}
	}
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, actorNames, tenant, pq.Array(of), pq.Array(subjects), pq.Array(actors),
			pq.Array(at), pq.Array(ofSagas), pq.Array(sagas), pq.Array(starters), tenant == operator.Deployment)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			var i int
			var name string
			if err := rows.Scan(&i, &name); err != nil {
				return err
			}
			if names[i] == "" {
				names[i] = name
			}
			return nil
		})
	})
	return names, postgres.Wrap("read the names of actors", err)
}
