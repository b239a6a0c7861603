package jobdb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// Definitions is jobrun.Definitions on PostgreSQL. A transaction that locks both a
// definition and its runs locks the definition first.
type Definitions struct {
	db       *DB
	settings func(context.Context) (jobrun.Settings, error)
}

// NewDefinitions returns the job definitions of db. settings returns the current settings.
func NewDefinitions(db *DB, settings func(context.Context) (jobrun.Settings, error)) *Definitions {
	return &Definitions{db, settings}
}

var (
	insertDefinition = postgres.Named(`
		INSERT INTO jobs.job_definitions AS d (`+DefinitionTable.Inserted()+`)
		VALUES (`+DefinitionTable.Values("n")+`) RETURNING `+DefinitionColumns, DefinitionTable.As("n"))
	insertSpecVersion = postgres.Named(`
		INSERT INTO jobs.job_definition_versions (`+specVersionTable.Inserted()+`)
		VALUES (`+specVersionTable.Values("v")+`)`, specVersionTable.As("v"))
)

// Create implements jobrun.Definitions.
func (st *Definitions) Create(ctx context.Context, d jobrun.Definition, by operator.Action) error {
	err := st.db.InTenant(ctx, d.TenantID, func(tx *sqlx.Tx) error {
		stored, err := DefinitionTable.One(
			tx.QueryRowContext(ctx, insertDefinition.Text, insertDefinition.Args(DefinitionTable.Row(&d))...))
		if err != nil {
			return err
		}
		if err := putSpec(ctx, tx, &d); err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by.From(nil, stored.Audited()))
	})
	return postgres.Wrap("create a job definition", definitionRefused(&d, err))
}

// putSpec stores a version of a definition's spec.
func putSpec(ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition) error {
	v := specVersion{d.ID, d.TenantID, jobrun.SpecVersion{
		Number: d.SpecVersion, Spec: d.Spec, CreatedAt: d.UpdatedAt, CreatedBy: d.UpdatedBy,
	}}
	_, err := tx.ExecContext(ctx, insertSpecVersion.Text, insertSpecVersion.Args(specVersionTable.Row(&v))...)
	return err
}

// definitionRefused returns the fault for a definition that the database has rejected.
func definitionRefused(d *jobrun.Definition, err error) error {
	switch {
	case postgres.Violates(err, "idx_job_definitions_name"):
		return d.NameTaken()
	case postgres.DataError(err):
		return fault.New(fault.Invalid, jobrun.CodeInvalid, "the database cannot store this definition").Because(err)
	}
	return err
}

// If a text is the id of one definition and the name of another, the id takes precedence.
var (
	definitionOfID = postgres.OfTenant(`SELECT `+DefinitionColumns+`
	  FROM jobs.job_definitions d
	 WHERE d.tenant_id = tenant.id AND d.id = $2`, "")
	definitionOfName = postgres.OfTenant(`SELECT `+DefinitionColumns+`
	  FROM jobs.job_definitions d
	 WHERE d.tenant_id = tenant.id AND d.name = $2 AND d.deleted_at IS NULL`, "")
)

// Definition implements jobrun.Definitions. A deleted definition can be found only by its id.
func (st *Definitions) Definition(
	ctx context.Context, tenant uuid.UUID, idOrName string,
) (d jobrun.Definition, err error) {
	query, arg := definitionOfName, any(idOrName)
	if id, err := uuid.Parse(idOrName); err == nil && len(idOrName) == 36 {
		query, arg = definitionOfID, id
	}
	err = st.db.ReadOne(ctx, tenant, query, noDefinition(idOrName), func(rows *sql.Rows) (err error) {
		d, err = DefinitionTable.One(rows)
		return err
	}, arg)
	return d, postgres.Wrap("get a job definition", err)
}

func noDefinition(idOrName string) error {
	return fault.New(fault.NotFound, jobrun.CodeNotFound, "there is no job definition %s", idOrName)
}

var readSpecVersions = `
SELECT ` + specVersionTable.Selected("v") + ` FROM jobs.job_definition_versions v
 WHERE v.tenant_id = $1 AND v.definition_id = $2 ORDER BY v.spec_version DESC LIMIT 200`

// Versions implements jobrun.Definitions.
func (st *Definitions) Versions(ctx context.Context, tenant, id uuid.UUID) (versions []jobrun.SpecVersion, err error) {
	err = st.db.ListTenant(ctx, tenant, readSpecVersions, func(rows *sql.Rows) error {
		v, err := specVersionTable.One(rows)
		versions = append(versions, v.SpecVersion)
		return err
	}, tenant, id)
	return versions, postgres.Wrap("list the versions of a job definition", err)
}

var (
	changeable       = DefinitionTable.Without("built_in", "created_at", "created_by")
	changeDefinition = postgres.Named(`
		UPDATE jobs.job_definitions d SET `+changeable.Set("n", "id", "tenant_id")+`
		 WHERE d.tenant_id = @n.tenant_id AND d.id = @n.id AND d.version = @n.version - 1 AND d.deleted_at IS NULL
		RETURNING `+DefinitionColumns, changeable.As("n"))
)

// Change implements jobrun.Definitions.
func (st *Definitions) Change(ctx context.Context, d jobrun.Definition, by operator.Action) error {
	set, err := st.settings(ctx)
	if err != nil {
		return postgres.Wrap("change a job definition", err)
	}
	followed, err := postgres.RetryCollision(func() (followed []jobrun.Run, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			followed, err = st.change(ctx, tx, &d, set, by)
			return err
		})
		return followed, err
	})
	if err != nil {
		return postgres.Wrap("change a job definition", definitionRefused(&d, err))
	}
	st.db.runsFollowed(followed)
	return nil
}

// change does the work of Change within a transaction. It returns the runs that were updated with
// the definition.
func (st *Definitions) change(
	ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition, set jobrun.Settings, by operator.Action,
) (followed []jobrun.Run, err error) {
	before, err := lockDefinition(ctx, tx, d, d.Version-1)
	if err == nil && before.Unreadable {
		err = before.Damaged()
	}
	if err != nil {
		return nil, err
	}
	// The stored form is hashed instead of the submitted one, because jsonb formats numbers
	// differently.
	after, err := DefinitionTable.One(
		tx.QueryRowContext(ctx, changeDefinition.Text, changeDefinition.Args(changeable.Row(d))...))
	if err == nil && d.SpecVersion > before.SpecVersion {
		err = putSpec(ctx, tx, d)
	}
	if err == nil && d.Reaches(&before) {
		followed, err = st.db.follow(ctx, tx, d, set, by.Actor)
	}
	if err != nil {
		return nil, err
	}
	return followed, auditdb.PutAction(ctx, tx, by.From(before.Audited(), after.Audited()))
}

// lockDefinition locks a definition and returns its stored form. Faults: NotFound if it does not
// exist or is deleted; Stale if it has another version.
func lockDefinition(ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition, version int64) (jobrun.Definition, error) {
	stored, err := DefinitionTable.One(tx.QueryRowContext(ctx, `
		SELECT `+DefinitionColumns+`
		  FROM jobs.job_definitions d
		 WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL
		 FOR UPDATE`, d.TenantID, d.ID))
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
