package jobdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// Definitions is jobrun.Definitions on PostgreSQL. Whoever locks both, locks
// the definition before its runs.
type Definitions struct{ db *DB }

// NewDefinitions returns the job definitions of db.
func NewDefinitions(db *DB) *Definitions { return &Definitions{db} }

// DefinitionColumns are the columns of jobs.job_definitions, alias d, in the
// order of ScanDefinition. type, command_name, labels and event_type are derived
// from spec and not read.
const DefinitionColumns = `d.id, d.tenant_id, d.name, d.version, d.spec_version, d.spec, d.enabled, d.paused_at, d.paused_until,
	d.pause_reason, d.built_in, d.last_materialized_at, d.next_due_at, d.created_at, d.updated_at, d.created_by, d.updated_by, d.deleted_at`

// ScanDefinition reads one row that begins with DefinitionColumns; more receives the
// columns after them.
func ScanDefinition(row postgres.Scanner, more ...any) (d jobrun.Definition, err error) {
	var spec []byte
	dest := []any{
		&d.ID, &d.TenantID, &d.Name, &d.Version, &d.SpecVersion, &spec, &d.Enabled, &d.PausedAt, &d.PausedUntil,
		&d.PauseReason, &d.BuiltIn, &d.LastMaterializedAt, &d.NextDueAt, &d.CreatedAt, &d.UpdatedAt, &d.CreatedBy,
		&d.UpdatedBy, &d.DeletedAt,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return d, err
	}
	postgres.UTC(d.PausedAt, d.PausedUntil, &d.LastMaterializedAt, d.NextDueAt, &d.CreatedAt, &d.UpdatedAt, d.DeletedAt)
	if err := json.Unmarshal(spec, &d.Spec); err != nil {
		return d, fmt.Errorf("stored spec of a job: %w", err)
	}
	return d, nil
}

// eventTypeOf is what the index of event_type holds; nil: nothing.
func eventTypeOf(s *jobrun.Spec) *string {
	if s.Event == nil {
		return nil
	}
	return &s.Event.EventType
}

// Create implements jobrun.Definitions.
func (st *Definitions) Create(ctx context.Context, d jobrun.Definition, by operator.Action) error {
	spec, err := json.Marshal(d.Spec)
	if err != nil {
		return fmt.Errorf("encode the spec of a job: %w", err)
	}
	err = st.db.InTenant(ctx, d.TenantID, func(tx *sqlx.Tx) error {
		stored, err := ScanDefinition(tx.QueryRowContext(ctx, `
			INSERT INTO jobs.job_definitions AS d (id, tenant_id, name, version, spec_version, type, command_name, spec, labels, enabled, paused_at,
			       paused_until, pause_reason, built_in, event_type, last_materialized_at, next_due_at, created_at, updated_at, created_by, updated_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8::jsonb, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
			RETURNING `+DefinitionColumns,
			d.ID, d.TenantID, d.Name, d.Version, d.SpecVersion, d.Spec.Type, d.Spec.CommandName, string(spec),
			postgres.ArrayOf(jobrun.Pairs(d.Spec.Labels)), d.Enabled, d.PausedAt,
			d.PausedUntil, d.PauseReason, d.BuiltIn, eventTypeOf(&d.Spec), d.LastMaterializedAt, d.NextDueAt, d.CreatedAt,
			d.UpdatedAt, d.CreatedBy, d.UpdatedBy))
		if err != nil {
			return err
		}
		if err := putSpec(ctx, tx, &d, string(spec)); err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by.From(nil, stored.Audited()))
	})
	return postgres.Outage("create job definition", definitionRefused(&d, err))
}

// putSpec keeps a version of what a definition says.
func putSpec(ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition, spec string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at, created_by)
		VALUES ($1, $2, $3, $4::jsonb, $5, $6)`, d.ID, d.TenantID, d.SpecVersion, spec, d.UpdatedAt, d.UpdatedBy)
	return err
}

// definitionRefused is the fault of a definition that the database does not take.
func definitionRefused(d *jobrun.Definition, err error) error {
	switch {
	case postgres.Violates(err, "idx_job_definitions_name"):
		return fault.New(fault.Conflict, jobrun.CodeNameTaken, "a job definition named %q already exists", d.Name)
	case postgres.DataError(err):
		return fault.New(fault.Invalid, jobrun.CodeInvalid, "the database cannot store this definition").Because(err)
	}
	return err
}

// Of an id and a name that is the same text, which rules out, the id counts.
var (
	definitionOfID   = postgres.OfTenant(`SELECT `+DefinitionColumns+` FROM jobs.job_definitions d WHERE d.tenant_id = tenant.id AND d.id = $2`, "")
	definitionOfName = postgres.OfTenant(`SELECT `+DefinitionColumns+` FROM jobs.job_definitions d WHERE d.tenant_id = tenant.id AND d.name = $2 AND d.deleted_at IS NULL`, "")
)

// Definition implements jobrun.Definitions. By its id also one that was deleted.
func (st *Definitions) Definition(
	ctx context.Context, tenant uuid.UUID, idOrName string,
) (d jobrun.Definition, err error) {
	query, arg := definitionOfName, any(idOrName)
	if id, err := uuid.Parse(idOrName); err == nil && len(idOrName) == 36 {
		query, arg = definitionOfID, id
	}
	err = st.db.ReadOne(ctx, tenant, query, noDefinition(idOrName), func(rows *sql.Rows) (err error) {
		d, err = ScanDefinition(rows)
		return err
	}, arg)
	return d, postgres.Outage("get job definition", err)
}

func noDefinition(idOrName string) error {
	return fault.New(fault.NotFound, jobrun.CodeNotFound, "there is no job definition %s", idOrName)
}

// Versions implements jobrun.Definitions.
func (st *Definitions) Versions(ctx context.Context, tenant, id uuid.UUID) (versions []jobrun.SpecVersion, err error) {
	err = st.db.ListTenant(ctx, tenant, `
		SELECT v.spec_version, v.spec, v.created_at, v.created_by FROM jobs.job_definition_versions v
		 WHERE v.tenant_id = $1 AND v.definition_id = $2 ORDER BY v.spec_version DESC LIMIT 200`, func(rows *sql.Rows) error {
		var v jobrun.SpecVersion
		var spec []byte
		if err := rows.Scan(&v.Number, &spec, &v.CreatedAt, &v.CreatedBy); err != nil {
			return err
		}
		postgres.UTC(&v.CreatedAt)
		if err := json.Unmarshal(spec, &v.Spec); err != nil {
			return fmt.Errorf("stored spec of a job: %w", err)
		}
		versions = append(versions, v)
		return nil
	}, tenant, id)
	return versions, postgres.Outage("list versions of a job definition", err)
}

// Change implements jobrun.Definitions.
func (st *Definitions) Change(ctx context.Context, d jobrun.Definition, by operator.Action) error {
	spec, err := json.Marshal(d.Spec)
	if err != nil {
		return fmt.Errorf("encode the spec of a job: %w", err)
	}
	err = st.db.InTenant(ctx, d.TenantID, func(tx *sqlx.Tx) error {
		before, err := lockDefinition(ctx, tx, &d, d.Version-1)
		if err != nil {
			return err
		}
		// What is stored is hashed, not what was sent: jsonb writes numbers its own way.
		after, err := ScanDefinition(tx.QueryRowContext(ctx, `
			UPDATE jobs.job_definitions d
			   SET name = $3, version = $4, spec_version = $5, type = $6, command_name = $7, spec = $8::jsonb, labels = $9, enabled = $10, paused_at = $11,
			       paused_until = $12, pause_reason = $13, event_type = $14, last_materialized_at = $15, next_due_at = $16, updated_at = $17, updated_by = $18
			 WHERE d.tenant_id = $1 AND d.id = $2 AND d.version = $4 - 1 AND d.deleted_at IS NULL
			RETURNING `+DefinitionColumns,
			d.TenantID, d.ID, d.Name, d.Version, d.SpecVersion, d.Spec.Type, d.Spec.CommandName, string(spec),
			postgres.ArrayOf(jobrun.Pairs(d.Spec.Labels)), d.Enabled, d.PausedAt,
			d.PausedUntil, d.PauseReason, eventTypeOf(&d.Spec), d.LastMaterializedAt, d.NextDueAt, d.UpdatedAt, d.UpdatedBy))
		if err == nil && d.SpecVersion > before.SpecVersion {
			err = putSpec(ctx, tx, &d, string(spec))
		}
		if err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by.From(before.Audited(), after.Audited()))
	})
	return postgres.Outage("change job definition", definitionRefused(&d, err))
}

// lockDefinition locks a definition that is to be changed and returns it as it is
// stored. Faults: NotFound, also when it is deleted; Stale unless it is at the
// version.
func lockDefinition(ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition, version int64) (jobrun.Definition, error) {
	stored, err := ScanDefinition(tx.QueryRowContext(ctx, `
		SELECT `+DefinitionColumns+` FROM jobs.job_definitions d WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL FOR UPDATE`, d.TenantID, d.ID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return stored, noDefinition(d.ID.String())
	case err != nil:
		return stored, err
	case stored.Version != version:
		return stored, fault.New(fault.Precondition, jobrun.CodeStale, "the job definition is at version %d, not %d", stored.Version, version)
	}
	return stored, nil
}
