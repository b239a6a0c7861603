package registrydb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

const (
	beginOutage = `
INSERT INTO saga.participant_outages (tenant_id, participant, held_at, reason, held_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING`

	beginRelease = `
UPDATE saga.participant_outages o
   SET releasing_at = $3,
       waited = greatest(o.waited, (SELECT count(*) FROM saga.parked p
               WHERE p.tenant_id = $1 AND p.participant = $2 AND p.granted_at IS NULL)
              + (SELECT count(*) FROM saga.gate_waits w
               WHERE w.tenant_id = $1 AND w.participant = $2 AND w.granted_at IS NULL))
 WHERE o.tenant_id = $1 AND o.participant = $2 AND o.released_at IS NULL`

	endOutage = `
UPDATE saga.participant_outages o SET released_at = $3
 WHERE o.tenant_id = $1 AND o.participant = $2 AND o.released_at IS NULL
RETURNING o.held_at, o.reason, o.waited`

	// forgetOutages keeps the outages that are shown, and the one that is not over.
	forgetOutages = `
DELETE FROM saga.participant_outages o
 WHERE o.tenant_id = $1 AND o.participant = $2
   AND o.held_at < (SELECT n.held_at FROM saga.participant_outages n
                     WHERE n.tenant_id = $1 AND n.participant = $2 ORDER BY n.held_at DESC OFFSET $3 LIMIT 1)`

	readPast = `
SELECT o.held_at, o.reason, o.held_by, o.releasing_at, o.released_at, o.waited
  FROM saga.participant_outages o
 WHERE o.tenant_id = $1 AND o.participant = $2 AND o.released_at IS NOT NULL
 ORDER BY o.held_at DESC LIMIT $3`
)

// pass records, in the transaction of a gate's change, what the change begins and ends.
func pass(
	ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, name string, before registry.State, after *registry.Gate,
	now time.Time,
) error {
	w := registry.PassageOf(before, after.State)
	if w.Outage {
		if _, err := tx.ExecContext(ctx, beginOutage, tenant, name, after.Since, after.Reason, after.HeldBy); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, forgetOutages, tenant, name, registry.Shown); err != nil {
			return err
		}
	}
	if w.Release {
		if _, err := tx.ExecContext(ctx, beginRelease, tenant, name, now); err != nil {
			return err
		}
	}
	var past *registry.Past
	if w.Released {
		var over registry.Past
		err := tx.QueryRowContext(ctx, endOutage, tenant, name, now).Scan(&over.HeldAt, &over.Reason, &over.Waited)
		switch {
		case err == nil:
			past = &over
		case !errors.Is(err, sql.ErrNoRows): // none, because the outage began before outages were recorded
			return err
		}
	}
	e, ok := w.Event(tenant, name, after, past, operator.Acting(ctx), now)
	if !ok {
		return nil
	}
	return sagadb.PutEvent(ctx, tx, &e)
}

// Past implements registry.Gates.
func (st *Participants) Past(ctx context.Context, tenant uuid.UUID, name string) (all []registry.Past, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, readPast, tenant, name, registry.Shown)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			var p registry.Past
			if err := rows.Scan(&p.HeldAt, &p.Reason, &p.HeldBy, &p.ReleasingAt, &p.ReleasedAt, &p.Waited); err != nil {
				return err
			}
			p.HeldAt, p.ReleasedAt = p.HeldAt.UTC(), p.ReleasedAt.UTC()
			postgres.UTC(p.ReleasingAt)
			all = append(all, p)
			return nil
		})
	})
	return all, postgres.Wrap("read when a participant was held", err)
}

const fly = `
INSERT INTO saga.participant_flights AS f (tenant_id, participant, node, in_flight, at)
SELECT u.tenant_id, u.participant, $4, u.in_flight, now()
  FROM unnest($1::uuid[], $2::text[], $3::integer[]) AS u (tenant_id, participant, in_flight)
ON CONFLICT (tenant_id, participant, node) DO UPDATE SET in_flight = excluded.in_flight, at = excluded.at`

// Fly implements registry.Gates.
func (st *Participants) Fly(ctx context.Context, node string, flights []registry.Flight) error {
	var tenants []uuid.UUID
	var names []string
	var n []int64
	for _, f := range flights {
		tenants, names, n = append(tenants, f.TenantID), append(names, f.Participant), append(n, int64(f.InFlight))
	}
	_, err := st.db.Read.ExecContext(ctx, fly, pq.Array(tenants), pq.Array(names), pq.Array(n), node)
	return postgres.Wrap("record calls in flight", err)
}
