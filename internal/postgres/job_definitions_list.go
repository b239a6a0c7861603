package postgres

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// ListDefinitions implements jobrun.Definitions. Definitions are few: they are
// counted to the end.
func (st *JobDefinitions) ListDefinitions(ctx context.Context, tenant uuid.UUID, f jobrun.DefinitionFilter, p jobrun.Paging) (list []jobrun.Definition, page jobrun.Paged, err error) {
	w := whereDefinitions(tenant, f)
	err = st.db.inSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		if p.Total {
			if err := tx.GetContext(ctx, &page.Total, `SELECT count(*) FROM jobs.job_definitions d WHERE `+w.text(), w.args...); err != nil {
				return err
			}
		}
		l := newestFirst{definitionColumns, "jobs.job_definitions d", "d.created_at", "d.id"}
		list, page.More, err = readPage(ctx, tx, l, &w, p, func(row scanner) (jobrun.Definition, error) { return scanDefinition(row) })
		return err
	})
	return list, page, outage("list job definitions", err)
}

func whereDefinitions(tenant uuid.UUID, f jobrun.DefinitionFilter) where {
	var w where
	w.add("d.tenant_id = ? AND d.deleted_at IS NULL", tenant)
	if prefix, ok := strings.CutSuffix(f.Name, "*"); ok {
		w.add("starts_with(d.name, ?)", prefix)
	} else if f.Name != "" {
		w.add("d.name = ?", f.Name)
	}
	if f.Type != "" {
		w.add("d.type = ?", f.Type)
	}
	if f.Command != "" {
		w.add("d.command_name = ?", f.Command)
	}
	if f.Label != "" {
		w.add("d.labels @> ARRAY[?::text]", f.Label)
	}
	if f.Enabled != nil {
		w.add("d.enabled = ?", *f.Enabled)
	}
	if f.BuiltIn != nil {
		w.add("d.built_in = ?", *f.BuiltIn)
	}
	if f.Paused != nil {
		w.add("(d.paused_at IS NOT NULL AND (d.paused_until IS NULL OR d.paused_until > clock_timestamp())) = ?", *f.Paused)
	}
	return w
}
