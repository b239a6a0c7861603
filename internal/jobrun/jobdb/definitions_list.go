package jobdb

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// ListDefinitions implements jobrun.Definitions. The total is always exact, because there are few
// definitions.
func (st *Definitions) ListDefinitions(
	ctx context.Context, tenant uuid.UUID, f jobrun.DefinitionFilter, p page.ByTime,
) (found page.Of[jobrun.Definition], err error) {
	w := whereDefinitions(tenant, f)
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		l := postgres.NewestFirst{Columns: DefinitionColumns, From: "jobs.job_definitions d", At: "d.created_at", ID: "d.id"}
		l.Ascending = f.Ascending
		if f.ByName { // in the order of idx_job_definitions_name
			l.Key, l.AfterKey = "d.name", f.AfterName
		}
		found, err = postgres.ReadFew(ctx, tx, l, &w, p, DefinitionTable.One)
		return err
	})
	return found, postgres.Wrap("list job definitions", err)
}

func whereDefinitions(tenant uuid.UUID, f jobrun.DefinitionFilter) postgres.Where {
	var w postgres.Where
	w.Add("d.tenant_id = ? AND d.deleted_at IS NULL", tenant)
	if prefix, ok := strings.CutSuffix(f.Name, "*"); ok {
		w.Add("starts_with(d.name, ?)", prefix)
	} else if f.Name != "" {
		w.Add("d.name = ?", f.Name)
	}
	if f.Type != "" {
		w.Add("d.type = ?", f.Type)
	}
	if f.Command != "" {
		w.Add("d.command_name = ?", f.Command)
	}
	if f.Label != "" {
		w.Add("d.labels @> ARRAY[?::text]", f.Label)
	}
	if f.Enabled != nil {
		w.Add("d.enabled = ?", *f.Enabled)
	}
	if f.BuiltIn != nil {
		w.Add("d.built_in = ?", *f.BuiltIn)
	}
	if f.Paused != nil {
		w.Add("(d.paused_at IS NOT NULL AND (d.paused_until IS NULL OR d.paused_until > clock_timestamp())) = ?", *f.Paused)
	}
	return w
}
