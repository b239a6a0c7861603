package sagadb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Workflows implements workflow.Store on PostgreSQL.
type Workflows struct{ db *postgres.DB }

// NewWorkflows returns the definition store of db.
func NewWorkflows(db *postgres.DB) *Workflows { return &Workflows{db} }

// workflowRow is a row of workflowTable.
type workflowRow struct {
	workflow.Registered
	kept keptDefinition
}

// keptDefinition is a stored definition. It is nil if the definition is damaged, for example by a
// bad restore. One such row must not prevent the rest of a list from being read.
type keptDefinition struct{ def *workflow.Definition }

// UnmarshalJSON implements json.Unmarshaler.
func (k *keptDefinition) UnmarshalJSON(b []byte) error {
	k.def = workflow.Stored(b)
	return nil
}

// workflowTable is a version, from saga.workflow_definitions as d, joined with the head of its
// name, from saga.workflows as w.
var workflowTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(r *workflowRow) *uuid.UUID { return &r.TenantID }),
	postgres.Text("name", func(r *workflowRow) *string { return &r.Name }),
	postgres.Int("version", func(r *workflowRow) *int { return &r.Version }),
	postgres.Doc("definition", func(r *workflowRow) *keptDefinition { return &r.kept }),
	postgres.Time("created_at", func(r *workflowRow) *time.Time { return &r.CreatedAt }),
	postgres.Bool("inline", func(r *workflowRow) *bool { return &r.Inline }).ReadFrom("w.inline"),
	postgres.Int("latest_version", func(r *workflowRow) *int { return &r.Latest }).ReadFrom("w.latest_version"),
	postgres.Bool("enabled", func(r *workflowRow) *bool { return &r.Enabled }).ReadFrom("w.enabled"),
	postgres.Int("revision", func(r *workflowRow) *int64 { return &r.Revision }).ReadFrom("w.revision"),
	postgres.Time("updated_at", func(r *workflowRow) *time.Time { return &r.UpdatedAt }).ReadFrom("w.updated_at"),
)

var workflowColumns = workflowTable.Selected("d")

const fromWorkflows = `
  FROM saga.workflows w
  JOIN saga.workflow_definitions d ON d.tenant_id = w.tenant_id AND d.name = w.name`

func scanWorkflow(row postgres.Scanner) (workflow.Registered, error) {
	read, err := workflowTable.One(row)
	if err != nil {
		return workflow.Registered{}, err
	}
	r := read.Registered
	if r.Definition = read.kept.def; r.Definition == nil {
		r.Definition, r.Unreadable = &workflow.Definition{Name: r.Name}, true
	}
	r.Definition.Output, err = postgres.Canonical(r.Definition.Output)
	return r, err
}

// Register implements workflow.Store. It locks the head row first, so that versions are numbered
// without gaps even if several clients register at the same time.
func (st *Workflows) Register(ctx context.Context, tenant uuid.UUID, d *workflow.Definition, inline bool,
	now time.Time) (workflow.Registered, bool, error) {
	def, err := json.Marshal(d)
	if err != nil {
		return workflow.Registered{}, false, fmt.Errorf("encode definition: %w", err)
	}
	ver, created, err := st.register(ctx, tenant, d, string(def), inline, now)
	if err != nil {
		return workflow.Registered{}, false, fmt.Errorf("register workflow: %w", err)
	}
	r, err := st.Get(ctx, tenant, d.Name, ver)
	return r, created, err
}

func (st *Workflows) register(ctx context.Context, tenant uuid.UUID, d *workflow.Definition, def string, inline bool,
	now time.Time) (ver int, created bool, err error) {
	var kept workflow.Retention // the head has the value of the latest version (migration 0013)
	if d.Retention != nil {
		kept = *d.Retention
	}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		// The head of a new name starts at version 1 before that version exists, but both become
		// visible together.
		fresh, err := tx.ExecContext(ctx, `
			INSERT INTO saga.workflows (tenant_id, name, latest_version, inline, created_at, updated_at, completed_retention_ms,
			                            failed_retention_ms)
			VALUES ($1, $2, 1, $3, $4, $4, nullif($5::bigint, 0), nullif($6::bigint, 0)) ON CONFLICT DO NOTHING`,
			tenant, d.Name, inline, now, kept.CompletedMS, kept.FailedMS)
		if err != nil {
			return err
		}
		var latest int
		if err := tx.GetContext(ctx, &latest, `SELECT latest_version
		  FROM saga.workflows
		 WHERE tenant_id = $1 AND name = $2
		 FOR UPDATE`, tenant, d.Name); err != nil {
			return err
		}
		if n, err := fresh.RowsAffected(); err != nil || n == 1 {
			latest = 0
		}
		var same []int
		if err := tx.SelectContext(ctx, &same, `
			SELECT version
			  FROM saga.workflow_definitions
			 WHERE tenant_id = $1 AND name = $2 AND content_hash = $3`, tenant, d.Name, d.Hash()); err != nil {
			return err
		}
		if len(same) == 1 {
			ver = same[0]
			return st.mend(ctx, tx, tenant, d.Name, ver, d.Hash(), def, now)
		}
		before, err := auditedWorkflow(ctx, tx, tenant, d.Name)
		if err != nil {
			return err
		}
		ver, created = latest+1, true
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO saga.workflow_definitions (tenant_id, name, version, content_hash, definition, created_at)
			VALUES ($1, $2, $3, $4, $5, $6)`, tenant, d.Name, ver, d.Hash(), def, now); err != nil {
			return err
		}
		if ver > 1 {
			if _, err := tx.ExecContext(ctx, `
				UPDATE saga.workflows
				   SET latest_version = $3, revision = revision + 1, updated_at = $4,
				       completed_retention_ms = nullif($5::bigint, 0), failed_retention_ms = nullif($6::bigint, 0)
				 WHERE tenant_id = $1 AND name = $2`, tenant, d.Name, ver, now, kept.CompletedMS, kept.FailedMS); err != nil {
				return err
			}
		}
		if inline {
			return nil // it belongs to one saga, whose events record it
		}
		return recordWorkflow(ctx, tx, st.db.NewID(), tenant, d.Name, "register", before, now, map[string]any{"version": ver})
	})
	return ver, created, err
}

// mend stores the definition of a version again if the stored one is damaged. The caller has locked
// the head, and the content of def matches the version's hash. Rows are immutable, so mend replaces
// the row by a new one with the same values.
func (st *Workflows) mend(
	ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, name string, ver int, hash []byte, def string, now time.Time,
) error {
	stored, err := scanWorkflow(tx.QueryRowContext(ctx, `SELECT `+workflowColumns+fromWorkflows+`
		WHERE w.tenant_id = $1 AND w.name = $2 AND d.version = $3`, tenant, name, ver))
	if err != nil || !stored.Unreadable {
		return err
	}
	before, err := auditedWorkflow(ctx, tx, tenant, name)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		DELETE FROM saga.workflow_definitions
		 WHERE tenant_id = $1 AND name = $2 AND version = $3`, tenant, name, ver); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO saga.workflow_definitions (tenant_id, name, version, content_hash, definition, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)`, tenant, name, ver, hash, def, stored.CreatedAt); err != nil {
		return err
	}
	return recordWorkflow(ctx, tx, st.db.NewID(), tenant, name, "mend", before, now, map[string]any{"version": ver})
}

// auditedWorkflow returns the content of a workflow that is hashed for the audit, or nil if the
// workflow does not exist yet.
func auditedWorkflow(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, name string) (any, error) {
	r, err := scanWorkflow(tx.QueryRowContext(ctx, `SELECT `+workflowColumns+fromWorkflows+`
		WHERE w.tenant_id = $1 AND w.name = $2 AND d.version = w.latest_version`, tenant, name))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return map[string]any{"name": r.Name, "version": r.Version, "enabled": r.Enabled, "definition": r.Definition}, nil
}

// recordWorkflow records an action on a workflow whose head is locked.
func recordWorkflow(ctx context.Context, tx *sqlx.Tx, id, tenant uuid.UUID, name, verb string, before any,
	now time.Time, detail map[string]any) error {
	after, err := auditedWorkflow(ctx, tx, tenant, name)
	if err != nil {
		return err
	}
	return auditdb.Tell(ctx, tx, id, tenant, now, operator.Workflow, name, verb, before, after, detail)
}

var getWorkflow = postgres.OfTenant(`SELECT `+workflowColumns+fromWorkflows+`
 WHERE w.tenant_id = tenant.id
   AND w.name = $2
   AND d.version = CASE WHEN $3::int = 0 THEN w.latest_version ELSE $3::int END`, "")

// Get implements workflow.Store.
func (st *Workflows) Get(ctx context.Context, tenant uuid.UUID, name string, ver int) (workflow.Registered, error) {
	var r workflow.Registered
	err := st.db.ReadOne(ctx, tenant, getWorkflow, workflow.NotFound(name, ver), func(rows *sql.Rows) (err error) {
		r, err = scanWorkflow(rows)
		return err
	}, name, ver)
	if err != nil {
		return workflow.Registered{}, postgres.Wrap("get workflow", err)
	}
	if r.Unreadable {
		return r, workflow.Unreadable(name, r.Version)
	}
	return r, nil
}

// List implements workflow.Store.
func (st *Workflows) List(ctx context.Context, tenant uuid.UUID,
	f workflow.Filter) (page.Of[workflow.Registered], error) {
	w := postgres.Where{}
	w.Add("w.tenant_id = ?", tenant)
	w.Add("NOT w.inline AND d.version = w.latest_version")
	if f.Enabled != nil {
		w.Add("w.enabled = ?", *f.Enabled)
	}
	if prefix, is := strings.CutSuffix(f.Name, "*"); is {
		w.Add("(w.name = ? OR starts_with(w.name, ?))", f.Name, prefix)
	} else if f.Name != "" {
		w.Add("w.name = ?", f.Name)
	}
	return pageOfWorkflows(ctx, st, tenant, w, f.Request, "w.name > ?", "w.name")
}

// Versions implements workflow.Store.
func (st *Workflows) Versions(ctx context.Context, tenant uuid.UUID, name string,
	p page.Request[int]) (page.Of[workflow.Registered], error) {
	w := postgres.Where{}
	w.Add("w.tenant_id = ?", tenant)
	w.Add("w.name = ?", name)
	found, err := pageOfWorkflows(ctx, st, tenant, w, p, "d.version < ?", "d.version DESC")
	if err == nil && len(found.Items) == 0 {
		_, err = st.Get(ctx, tenant, name, 0) // an unknown name is an error, an empty page is not
	}
	return found, err
}

// pageOfWorkflows reads the page of w's workflows that p requests.
func pageOfWorkflows[C any](ctx context.Context, st *Workflows, tenant uuid.UUID, w postgres.Where, p page.Request[C],
	after, order string) (page.Of[workflow.Registered], error) {
	var total int64
	var read []workflow.Registered
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if p.Total {
			if err := tx.GetContext(ctx, &total, `SELECT count(*)`+fromWorkflows+` WHERE `+w.Text(), w.Args...); err != nil {
				return fmt.Errorf("count: %w", err)
			}
		}
		if p.After != nil {
			w.Add(after, *p.After)
		}
		rows, err := tx.QueryContext(ctx, fmt.Sprintf(`SELECT %s%s WHERE %s ORDER BY %s LIMIT %d OFFSET %d`,
			workflowColumns, fromWorkflows, w.Text(), order, p.Limit+1, p.Offset), w.Args...)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			r, err := scanWorkflow(rows)
			read = append(read, r)
			return err
		})
	})
	if err != nil {
		return page.Of[workflow.Registered]{}, fmt.Errorf("list workflows: %w", err)
	}
	found := page.Cut(p, read)
	found.Total = total
	return found, nil
}

// setEnabled changes the head and returns the changed row in one statement, because a separate read
// afterwards could return another client's change (invariant I12).
var setEnabled = `
WITH w AS (
	UPDATE saga.workflows
	   SET enabled = $3, revision = revision + (enabled <> $3)::int,
	       updated_at = CASE WHEN enabled <> $3 THEN $5 ELSE updated_at END
	 WHERE tenant_id = $1 AND name = $2 AND ($4::bigint = 0 OR revision = $4::bigint)
	RETURNING *
)
SELECT ` + workflowColumns + ` FROM w
  JOIN saga.workflow_definitions d ON d.tenant_id = w.tenant_id AND d.name = w.name AND d.version = w.latest_version`

// SetEnabled implements workflow.Store.
func (st *Workflows) SetEnabled(ctx context.Context, tenant uuid.UUID, name string, enabled bool, revision int64,
	now time.Time) (workflow.Registered, error) {
	var changed []workflow.Registered
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		var was []bool
		if err := tx.SelectContext(ctx, &was, `SELECT enabled
		  FROM saga.workflows
		 WHERE tenant_id = $1 AND name = $2
		 FOR NO KEY UPDATE`, tenant, name); err != nil {
			return err
		}
		before, err := auditedWorkflow(ctx, tx, tenant, name)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, setEnabled, tenant, name, enabled, revision, now)
		if err != nil {
			return err
		}
		if err := postgres.EachRow(rows, func() error {
			r, err := scanWorkflow(rows)
			changed = append(changed, r)
			return err
		}); err != nil || len(changed) == 0 || was[0] == enabled {
			return err
		}
		verb := "disable"
		if enabled {
			verb = "enable"
		}
		return recordWorkflow(ctx, tx, st.db.NewID(), tenant, name, verb, before, now, nil)
	})
	switch {
	case err != nil:
		return workflow.Registered{}, fmt.Errorf("enable workflow: %w", err)
	case len(changed) > 0:
		return changed[0], nil
	}
	r, err := st.Get(ctx, tenant, name, 0)
	if err == nil {
		err = fault.New(fault.Precondition, workflow.CodeStale, "workflow %q is at revision %d", name, r.Revision)
	}
	return r, err
}
