package registrydb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// stillWaits is true for a parked row p and its saga s if the saga waits at the gate. A saga that
// has moved on, is being driven or is suspended is not let through.
const stillWaits = sagadb.SameCall + ` AND s.lease_owner IS NULL AND s.suspended_at IS NULL AND s.next_run_at > now()`

const ofItsSaga = `JOIN saga.saga_states s ON s.id = p.saga_id AND s.tenant_id = p.tenant_id`

// countCalls: $1 is a JSON array of sums.
const countCalls = `
INSERT INTO saga.participant_calls AS c (tenant_id, participant, bucket, node, calls, failed, let, let_failed,
                                         let_ok_at, pause, codes, latencies)
SELECT s.tenant_id, s.participant, s.bucket, $2, s.calls, s.failed, s.let, s.let_failed, s.let_ok_at, s.pause,
       coalesce(s.codes, '{}'), s.latencies
  FROM jsonb_to_recordset($1::jsonb) AS s (tenant_id uuid, participant text, bucket timestamptz, calls bigint,
       failed bigint, let bigint, let_failed bigint, let_ok_at timestamptz, pause timestamptz, codes jsonb,
       latencies bigint[])
ON CONFLICT (tenant_id, participant, bucket, node) DO UPDATE
   SET calls = c.calls + excluded.calls, failed = c.failed + excluded.failed, let = c.let + excluded.let,
       let_failed = c.let_failed + excluded.let_failed, let_ok_at = greatest(c.let_ok_at, excluded.let_ok_at),
       pause = greatest(c.pause, excluded.pause)`

// Count implements registry.Gates.
func (st *Participants) Count(ctx context.Context, node string, sums []registry.Sum) error {
	text, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	_, err = st.db.Read.ExecContext(ctx, countCalls, string(text), node)
	return postgres.Wrap("count calls of participants", err)
}

// lookAt: $1 and $2 are tenants and names, $3 and $4 are the results of Participant.Since for each
// of them.
const lookAt = `
SELECT l.*
  FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY
       AS q (tenant_id, name, in_window, in_state, place)
 CROSS JOIN LATERAL (
	SELECT coalesce(sum(c.calls) FILTER (WHERE c.bucket >= q.in_window), 0),
	       coalesce(sum(c.failed) FILTER (WHERE c.bucket >= q.in_window), 0),
	       coalesce(sum(c.let) FILTER (WHERE c.bucket >= q.in_state), 0),
	       coalesce(sum(c.let_failed) FILTER (WHERE c.bucket >= q.in_state), 0),
	       max(c.let_ok_at) FILTER (WHERE c.bucket >= q.in_state), max(c.pause) FILTER (WHERE c.bucket >= q.in_state),
	       least((SELECT p.parked_at FROM saga.parked p ` + ofItsSaga + `
	               WHERE p.tenant_id = q.tenant_id AND p.participant = q.name AND p.granted_at IS NULL
	                 AND ` + stillWaits + `
	               ORDER BY p.parked_at, p.saga_id LIMIT 1), ` + firstStands + `)
	  FROM saga.participant_calls c
	 WHERE c.tenant_id = q.tenant_id AND c.participant = q.name AND c.bucket >= least(q.in_window, q.in_state)) AS l
 ORDER BY q.place`

// Look implements registry.Gates.
func (st *Participants) Look(
	ctx context.Context, of []*registry.Participant, now time.Time,
) (all []registry.Seen, err error) {
	tenants, names := make([]uuid.UUID, len(of)), make([]string, len(of))
	windows, states := make([]time.Time, len(of)), make([]time.Time, len(of))
	for i, p := range of {
		tenants[i], names[i] = p.TenantID, p.Name
		windows[i], states[i] = p.Since(now)
	}
	rows, err := st.db.QueryRead(ctx, lookAt, pq.Array(tenants), pq.Array(names), pq.Array(windows), pq.Array(states))
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			var seen registry.Seen
			var ok, pause, waits sql.NullTime
			err := rows.Scan(&seen.Calls, &seen.Failed, &seen.Let, &seen.LetFailed, &ok, &pause, &waits)
			if ok.Valid {
				seen.LastLetOK = ok.Time.UTC()
			}
			if pause.Valid {
				seen.Pause = pause.Time.UTC()
			}
			if waits.Valid {
				seen.Waiting, seen.WaitsSince = true, waits.Time.UTC()
			}
			all = append(all, seen)
			return err
		})
	}
	return all, postgres.Wrap("read the calls of participants", err)
}

var moveGate = postgres.Named(`UPDATE saga.participants SET `+gateTable.Set("p", "tenant_id", "name", "epoch")+`,
       epoch = epoch + 1
 WHERE tenant_id = @p.tenant_id AND name = @p.name AND epoch = @p.epoch`, gateTable.As("p"))

const sameGate = `SELECT 1 FROM saga.participants WHERE tenant_id = $1 AND name = $2 AND epoch = $3 FOR SHARE`

// takeBack makes sagas wait again that were let through but have not made their call yet. When a
// gate is held, there may be many that found no free slot.
const takeBack = `
UPDATE saga.parked SET granted_at = NULL WHERE tenant_id = $1 AND participant = $2 AND granted_at IS NOT NULL`

// takeAllBack makes all callers of a participant wait again that were let through but have not made
// their call yet.
func takeAllBack(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, name string) error {
	for _, text := range []string{takeBack, takeBackCallers} {
		if _, err := tx.ExecContext(ctx, text, tenant, name); err != nil {
			return err
		}
	}
	return nil
}

// letThrough makes the first sagas of a queue due. It skips locked rows: such a saga is being
// changed, and waits for the next time.
const letThrough = `
WITH picked AS MATERIALIZED (
	SELECT p.saga_id, p.tenant_id FROM saga.parked p ` + ofItsSaga + `
	 WHERE p.tenant_id = $1 AND p.participant = $2 AND p.granted_at IS NULL AND ` + stillWaits + `
	 ORDER BY p.parked_at, p.saga_id LIMIT $3 FOR UPDATE OF s, p SKIP LOCKED
), granted AS (
	UPDATE saga.parked p SET granted_at = now() FROM picked g WHERE p.tenant_id = g.tenant_id AND p.saga_id = g.saga_id
)
UPDATE saga.saga_states s SET next_run_at = now()
  FROM picked g
 WHERE s.id = g.saga_id AND s.tenant_id = g.tenant_id`

// Decide implements registry.Gates.
func (st *Participants) Decide(
	ctx context.Context, p *registry.Participant, d registry.Decision, now time.Time,
) (granted int, stored bool, err error) {
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		if !d.Changed { // if the gate has changed since the decision, nothing is let through
			var same int
			err := tx.QueryRowContext(ctx, sameGate, p.TenantID, p.Name, p.Epoch).Scan(&same)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
		} else {
			after := *p
			after.Gate = d.Gate
			done, err := tx.ExecContext(ctx, moveGate.Text, moveGate.Args(gateTable.Row(&after))...)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n == 0 {
				return err
			}
			verb := d.Verb(p.Gate.State)
			if verb == registry.VerbHeld {
				if err := takeAllBack(ctx, tx, p.TenantID, p.Name); err != nil {
					return err
				}
			}
			if verb != "" {
				if err := auditdb.Tell(ctx, tx, st.db.NewID(), p.TenantID, now, operator.Participant, p.Name, verb,
					p.Audited(), after.Audited(), map[string]any{"reason": d.Gate.Reason}); err != nil {
					return err
				}
			}
			if err := pass(ctx, tx, p.TenantID, p.Name, p.Gate.State, &after.Gate, now); err != nil {
				return err
			}
		}
		stored = true
		if d.Grants == 0 {
			return nil
		}
		if granted, err = letCallers(ctx, tx, p, d.Grants); err != nil || granted == d.Grants {
			return err
		}
		done, err := tx.ExecContext(ctx, letThrough, p.TenantID, p.Name, d.Grants-granted)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		granted += int(n)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("update the gate of participant %s: %w", p.Name, err)
	}
	return granted, stored, nil
}

// takeGrants: $1 to $6 identify the grants. A grant whose row is locked is being withdrawn.
const takeGrants = `
WITH granted AS MATERIALIZED (
	SELECT p.tenant_id, p.saga_id, g.place
	  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int2[], $5::int4[], $6::int4[]) WITH ORDINALITY
	       AS g (tenant_id, saga_id, participant, state, step, attempt, place)
	  JOIN saga.parked p USING (tenant_id, saga_id, participant, state, step, attempt)
	 WHERE p.granted_at IS NOT NULL
	   FOR UPDATE OF p SKIP LOCKED
)
DELETE FROM saga.parked p USING granted g WHERE p.tenant_id = g.tenant_id AND p.saga_id = g.saga_id
RETURNING g.place`

// Take implements registry.Gates.
func (st *Participants) Take(ctx context.Context, grants []registry.Grant) ([]bool, error) {
	var tenants, ids []uuid.UUID
	var names []string
	var states, steps, attempts []int64
	for _, g := range grants {
		tenants, ids, names = append(tenants, g.Of.Tenant), append(ids, g.Of.ID), append(names, g.Participant)
		states, steps = append(states, int64(g.Call.State)), append(steps, int64(g.Call.Step))
		attempts = append(attempts, int64(g.Call.Attempt))
	}
	taken := make([]bool, len(grants))
	rows, err := st.db.QueryRead(ctx, takeGrants, pq.Array(tenants), pq.Array(ids), pq.Array(names), pq.Array(states),
		pq.Array(steps), pq.Array(attempts))
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			var place int
			if err := rows.Scan(&place); err != nil {
				return err
			}
			taken[place-1] = true
			return nil
		})
	}
	return taken, postgres.Wrap("take the grants of sagas", err)
}

const waitAt = `
SELECT p.participant, p.state, p.step, p.attempt, p.parked_at,
       (SELECT count(*) FROM saga.parked q
         WHERE q.tenant_id = p.tenant_id AND q.participant = p.participant AND q.granted_at IS NULL)
  FROM saga.parked p
 WHERE p.tenant_id = $1 AND p.saga_id = $2 AND p.granted_at IS NULL`

// Wait implements registry.Gates.
func (st *Participants) Wait(ctx context.Context, of saga.Ref) (*registry.Wait, error) {
	var w registry.Wait
	err := st.db.Read.QueryRowContext(ctx, waitAt, of.Tenant, of.ID).Scan(&w.Participant, &w.Call.State, &w.Call.Step,
		&w.Call.Attempt, &w.Since, &w.Waiting)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // it does not wait at a gate
	}
	if err != nil {
		return nil, fmt.Errorf("find where saga %s waits: %w", of.ID, err)
	}
	w.Since = w.Since.UTC()
	return &w, nil
}

var waitsAt = postgres.OfTenant(`SELECT p.saga_id, p.participant FROM saga.parked p `+ofItsSaga+`
 WHERE p.tenant_id = tenant.id AND p.saga_id = ANY($2) AND p.granted_at IS NULL AND `+sagadb.SameCall, "")

// Waits implements registry.Gates.
func (st *Participants) Waits(
	ctx context.Context, tenant uuid.UUID, sagas []uuid.UUID,
) (map[uuid.UUID]string, error) {
	at := map[uuid.UUID]string{}
	err := st.db.ReadTenant(ctx, tenant, waitsAt, func(rows *sql.Rows) error {
		var id uuid.UUID
		var participant string
		err := rows.Scan(&id, &participant)
		at[id] = participant
		return err
	}, pq.Array(sagas))
	return at, postgres.Wrap("find where sagas wait", err)
}

// Figures implements registry.Gates.
func (st *Participants) Figures(
	ctx context.Context, tenant uuid.UUID, name string, since time.Time,
) (registry.Figures, error) {
	f := registry.Figures{Codes: map[string]int64{}}
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &f.Waiting, `SELECT count(*) FROM saga.parked
		 WHERE tenant_id = $1 AND participant = $2 AND granted_at IS NULL`, tenant, name); err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &f.InFlight, `SELECT coalesce(sum(in_flight), 0) FROM saga.participant_flights
		 WHERE tenant_id = $1 AND participant = $2 AND at > now() - $3 * interval '1 second'`, tenant, name,
			registry.FlightKept.Seconds()); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, countCallers, tenant, name).Scan(&f.Letters, &f.Webhooks); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT calls, failed, codes, latencies FROM saga.participant_calls
		 WHERE tenant_id = $1 AND participant = $2 AND bucket >= $3`, tenant, name, since)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			var calls, failed int64
			var codes []byte
			var latencies []int64
			if err := rows.Scan(&calls, &failed, &codes, pq.Array(&latencies)); err != nil {
				return err
			}
			f.Calls, f.Failed = f.Calls+calls, f.Failed+failed
			var by map[string]int64
			if err := json.Unmarshal(codes, &by); err != nil {
				return err
			}
			for code, n := range by {
				f.Codes[code] += n
			}
			for i, n := range latencies[:min(len(latencies), len(f.Latencies))] {
				f.Latencies[i] += n
			}
			return nil
		})
	})
	return f, postgres.Wrap("count the calls of a participant", err)
}

// sweeps are executed in order. A grant is normally used within seconds, as long as a node has
// room.
var sweeps = []string{
	`UPDATE saga.parked p SET granted_at = NULL
	   FROM saga.saga_states s
	  WHERE p.granted_at < now() - interval '1 minute'
	    AND s.id = p.saga_id AND s.tenant_id = p.tenant_id AND ` + stillWaits,
	// The row is compared with the state that was read, because a saga may park with its next call
	// while this statement waits for the row lock.
	`DELETE FROM saga.parked w
	  USING (SELECT p.* FROM saga.parked p
	          WHERE (p.granted_at < now() - interval '1 minute' OR p.granted_at IS NULL)
	            AND NOT EXISTS (SELECT FROM saga.saga_states s WHERE s.id = p.saga_id AND s.tenant_id = p.tenant_id AND ` +
		sagadb.SameCall + `)) p
	  WHERE w.tenant_id = p.tenant_id AND w.saga_id = p.saga_id
	    AND (w.state, w.step, w.attempt) = (p.state, p.step, p.attempt)`,
	sweepCallers,
	`DELETE FROM saga.participant_calls WHERE bucket < now() - interval '65 minutes'`,
	`DELETE FROM saga.participant_flights WHERE at < now() - interval '1 minute'`,
}

// Sweep implements registry.Gates.
func (st *Participants) Sweep(ctx context.Context) error {
	for _, text := range sweeps {
		if _, err := st.db.Read.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("sweep the gates of participants: %w", err)
		}
	}
	return nil
}

// Nodes implements registry.Gates.
func (st *Participants) Nodes(ctx context.Context) (n int, err error) {
	err = st.db.Read.GetContext(ctx, &n, `SELECT count(*) FROM saga.engine_nodes WHERE lease_until > now()`)
	return n, postgres.Wrap("count nodes", err)
}
