// Package registrydb stores named participants and their gates in PostgreSQL.
//
// Files, each on top of those before it: tables, past, callers, gates, registrydb.
package registrydb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Get implements registry.Store.
func (st *Participants) Get(ctx context.Context, tenant uuid.UUID, name string) (registry.Participant, error) {
	var p registry.Participant
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		p, err = one(ctx, tx, tenant, name, "")
		return err
	})
	return p, postgres.Wrap("get participant", err)
}

// one reads one participant. suffix locks it or is empty.
func one(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, name, suffix string) (registry.Participant, error) {
	p, err := participantTable.One(tx.QueryRowxContext(ctx, `SELECT `+participantColumns+`
	  FROM saga.participants p WHERE p.tenant_id = $1 AND p.name = $2 `+suffix, tenant, name))
	if errors.Is(err, sql.ErrNoRows) {
		err = registry.NotFound(name)
	}
	return p, err
}

// List implements registry.Store.
func (st *Participants) List(
	ctx context.Context, tenant uuid.UUID, f registry.Filter,
) (page.Of[registry.Participant], error) {
	var total int64
	var read []registry.Participant
	w := postgres.Where{}
	w.Add("p.tenant_id = ?", tenant)
	switch prefix, is := strings.CutSuffix(f.Name, "*"); {
	case is:
		w.Add("starts_with(p.name, ?)", prefix)
	case f.Name != "":
		w.Add("p.name = ?", f.Name)
	}
	if f.State != "" {
		w.Add("p.state = ?", f.State)
	}
	count, counted := `SELECT count(*) FROM saga.participants p WHERE `+w.Text(), w.Args
	if f.After != nil {
		w.Add(`p.name COLLATE "C" > ?`, *f.After)
	}
	query := fmt.Sprintf(`SELECT %s FROM saga.participants p WHERE %s ORDER BY p.name COLLATE "C" LIMIT %d OFFSET %d`,
		participantColumns, w.Text(), f.Limit+1, f.Offset)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		if f.Total {
			if err := tx.GetContext(ctx, &total, count, counted...); err != nil {
				return err
			}
		}
		read, err = participantTable.All(tx.QueryContext(ctx, query, w.Args...))
		return err
	})
	found := page.Cut(f.Request, read)
	found.Total = total
	return found, postgres.Wrap("list participants", err)
}

var (
	insertParticipant = postgres.Named(`
INSERT INTO saga.participants (`+participantTable.Inserted()+`) SELECT `+participantTable.Values("p")+`
 WHERE (SELECT count(*) FROM saga.participants WHERE tenant_id = @p.tenant_id) < @most
ON CONFLICT (tenant_id, name) DO NOTHING`, participantTable.As("p"), postgres.Single("most"))

	updateParticipant = postgres.Named(`UPDATE saga.participants SET `+changedParticipant.Set("p", "tenant_id", "name")+`
 WHERE tenant_id = @p.tenant_id AND name = @p.name`, changedParticipant.As("p"))
)

// urlIndex ensures that a base URL belongs to only one participant.
const urlIndex = "participants_base_url"

// Put implements registry.Store.
func (st *Participants) Put(ctx context.Context, p registry.Participant, epoch int64, verb string) error {
	err := st.db.InTenant(ctx, p.TenantID, func(tx *sqlx.Tx) error {
		var before any
		if p.Version == 1 {
			switch stored, err := st.insert(ctx, tx, &p); {
			case err != nil:
				return err
			case !stored:
				return whyNotInserted(ctx, tx, &p)
			}
		} else {
			present, err := one(ctx, tx, p.TenantID, p.Name, "FOR NO KEY UPDATE")
			switch {
			case err != nil:
				return err
			case present.Version != p.Version-1, epoch != 0 && present.Epoch != epoch:
				return registry.Stale(p.Name, present.Version)
			}
			if epoch == 0 { // this changes the settings, not the gate, which may have changed in the meantime
				p.Gate, p.Epoch = present.Gate, present.Epoch
			}
			before = present.Audited()
			if _, err := tx.ExecContext(ctx, updateParticipant.Text,
				updateParticipant.Args(changedParticipant.Row(&p))...); err != nil {
				return err
			}
			if epoch != 0 && p.Gate.HeldBy != "" {
				if err := takeAllBack(ctx, tx, p.TenantID, p.Name); err != nil {
					return err
				}
			}
			if err := pass(ctx, tx, p.TenantID, p.Name, present.Gate.State, &p.Gate, p.UpdatedAt); err != nil {
				return err
			}
		}
		return auditdb.Tell(ctx, tx, st.db.NewID(), p.TenantID, p.UpdatedAt, operator.Participant, p.Name, verb,
			before, p.Audited(), detailOf(&p, verb))
	})
	if postgres.Violates(err, urlIndex) {
		return registry.Taken(p.Settings.BaseURL)
	}
	return postgres.Wrap("store participant", err)
}

// detailOf is the detail that the audit trail stores with the verb. It contains only the names of
// headers.
func detailOf(p *registry.Participant, verb string) map[string]any {
	if verb != registry.VerbPut {
		return map[string]any{"state": p.Gate.State}
	}
	names := make([]string, 0, len(p.Settings.Headers))
	for name := range p.Settings.Headers {
		names = append(names, name)
	}
	return map[string]any{
		"base_url": p.Settings.BaseURL, "timeout_ms": p.Settings.TimeoutMS, "max_in_flight": p.Settings.MaxInFlight,
		"outage": p.Settings.Outage, "headers": names,
	}
}

func (st *Participants) insert(ctx context.Context, tx *sqlx.Tx, p *registry.Participant) (stored bool, err error) {
	done, err := tx.ExecContext(ctx, insertParticipant.Text,
		insertParticipant.Args(participantTable.Row(p), postgres.Values{registry.MaxPerTenant})...)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

func whyNotInserted(ctx context.Context, tx *sqlx.Tx, p *registry.Participant) error {
	present, err := one(ctx, tx, p.TenantID, p.Name, "")
	if err == nil {
		return registry.Stale(p.Name, present.Version)
	}
	return registry.Full()
}

// freeParked makes the sagas due that wait for a participant that no longer exists.
const freeParked = `
WITH gone AS (
	DELETE FROM saga.parked WHERE tenant_id = $1 AND participant = $2 RETURNING saga_id
)
UPDATE saga.saga_states s SET next_run_at = now()
  FROM gone
 WHERE s.id = gone.saga_id AND s.tenant_id = $1 AND s.lease_owner IS NULL AND s.completed_at IS NULL
   AND s.suspended_at IS NULL AND s.next_run_at > now()`

// Delete implements registry.Store.
func (st *Participants) Delete(ctx context.Context, tenant uuid.UUID, name string, version int64) error {
	return postgres.Wrap("delete participant", st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		present, err := one(ctx, tx, tenant, name, "FOR UPDATE")
		if err != nil {
			return err
		}
		if version != 0 && version != present.Version {
			return registry.Stale(name, present.Version)
		}
		open, now := registry.Gate{State: registry.Open, Reason: "the participant was deleted"}, st.db.Clock.Now()
		if err := pass(ctx, tx, tenant, name, present.Gate.State, &open, now); err != nil {
			return err
		}
		for _, text := range []string{
			`DELETE FROM saga.participants WHERE tenant_id = $1 AND name = $2`,
			`DELETE FROM saga.participant_outages WHERE tenant_id = $1 AND participant = $2`,
			`DELETE FROM saga.participant_flights WHERE tenant_id = $1 AND participant = $2`,
			`DELETE FROM saga.participant_calls WHERE tenant_id = $1 AND participant = $2`,
			freeCallers,
			freeParked,
		} {
			if _, err := tx.ExecContext(ctx, text, tenant, name); err != nil {
				return err
			}
		}
		return auditdb.Tell(ctx, tx, st.db.NewID(), tenant, now, operator.Participant, name, "delete",
			present.Audited(), nil, nil)
	}))
}

// Changed implements registry.Rows.
func (st *Participants) Changed(
	ctx context.Context, since registry.Mark,
) (all []registry.Participant, next registry.Mark, changed bool, err error) {
	const mark = `SELECT concat_ws('/', count(*), sum(version), sum(epoch), max(created_at)) FROM saga.participants`
	if err := st.db.Read.GetContext(ctx, &next, mark); err != nil {
		return nil, since, false, fmt.Errorf("find changed participants: %w", err)
	}
	if next == since {
		return nil, since, false, nil
	}
	// Read after the mark: a change in between is read twice, but none is missed.
	all, err = participantTable.All(st.db.Read.QueryContext(ctx, `SELECT `+participantColumns+`
	  FROM saga.participants p ORDER BY p.tenant_id, p.name COLLATE "C"`))
	if err != nil {
		return nil, since, false, fmt.Errorf("read participants: %w", err)
	}
	return all, next, true, nil
}
