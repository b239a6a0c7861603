package sagadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
)

// This file moves old audit events to an archive, one seal at a time (trail.EventArchive, migration
// 0182).

var tenantsWithEvents = `WITH RECURSIVE ` + auditdb.TenantsWithEvents + `
SELECT tenant_id FROM tenants WHERE tenant_id IS NOT NULL`

const (
	archiveEvents = `SELECT $1::uuid, saga.archive_audit_events($1, now() - $2 * interval '1 ms')`
	purgeEvents   = `SELECT of_tenant, purged FROM saga.purge_audit_events(now() - $1 * interval '1 ms')`
	archivedSeals = `SELECT p.seq, p.purged_seq FROM saga.audit_progress_archive p WHERE p.tenant_id = $1`
)

// ArchiveEvents implements trail.EventArchive.
func (t *Trail) ArchiveEvents(ctx context.Context, keep trail.EventRetention) (archived, purged int64, err error) {
	took := func(what string, statement string, args ...any) (total int64, err error) {
		taken, err := postgres.RetryCollision(func() (map[uuid.UUID]int64, error) {
			return t.db.ExecByTenant(ctx, statement, args...)
		})
		for tenant, n := range taken {
			total += n
			if n > 0 {
				operator.Took(ctx, tenant, what, n)
			}
		}
		return total, err
	}
	var errs []error
	if keep.Live > 0 {
		tenants, err := t.tenants(ctx)
		errs = append(errs, err)
		for _, tenant := range tenants {
			n, err := took("events_archived", archiveEvents, tenant, keep.Live.Milliseconds())
			archived += n
			errs = append(errs, err)
		}
	}
	if keep.Archived > 0 {
		purged, err = took("events_purged", purgeEvents, keep.Archived.Milliseconds())
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return archived, purged, fmt.Errorf("archive audit events: %w", err)
	}
	return archived, purged, nil
}

// tenants returns the tenants that have live events.
func (t *Trail) tenants(ctx context.Context) (list []uuid.UUID, err error) {
	rows, err := t.db.Read.QueryContext(ctx, tenantsWithEvents)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var tenant uuid.UUID
		err := rows.Scan(&tenant)
		list = append(list, tenant)
		return err
	})
	return list, err
}

// ArchivedSeals implements trail.EventArchive.
func (t *Trail) ArchivedSeals(ctx context.Context, tenant uuid.UUID) (archived, purged int64, err error) {
	err = t.db.ListTenant(ctx, tenant, archivedSeals, func(rows *sql.Rows) error {
		return rows.Scan(&archived, &purged)
	}, tenant)
	if err != nil {
		return 0, 0, fmt.Errorf("read how far events are archived and purged: %w", err)
	}
	return archived, purged, nil
}
