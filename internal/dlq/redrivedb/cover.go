package redrivedb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// selection is a query that returns at, id and seq of a redrive's letters.
type selection struct {
	query string
	args  []any
}

// arg adds an argument and returns its placeholder.
func (s *selection) arg(v any) string {
	s.args = append(s.args, v)
	return fmt.Sprintf("$%d", len(s.args))
}

const selectedColumns = "m.created_at AS at, m.id, m.seq"

// selected returns the letters that a redrive covers after a cursor, at most limit of them, oldest
// first; 0 means all.
func selected(r *dlq.Redrive, after *page.TimeID, limit int64) selection {
	var s selection
	order := " ORDER BY m.created_at, m.id"
	if limit > 0 {
		order += fmt.Sprint(" LIMIT ", limit)
	}
	if r.Filter == nil {
		s.args = []any{r.TenantID, pq.Array(r.IDs)}
		s.query = "SELECT " + selectedColumns + " FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.id = ANY ($2::uuid[])"
		if r.Snapshot != "" {
			s.query += " AND " + dlqdb.Covered(s.arg(string(r.Snapshot)))
		}
		s.query += order
		return s
	}
	f := *r.Filter
	if before := r.CoveredBefore(); f.CreatedTo.IsZero() || before.Before(f.CreatedTo) {
		f.CreatedTo = before
	}
	parts, args := dlqdb.LiveLetters.SelectLetters(r.TenantID,
		dlq.Query{Filter: f, Oldest: true, ByTime: page.ByTime{After: after, Snapshot: r.Snapshot}},
		selectedColumns, order)
	s.args = args
	s.query = "SELECT p.at, p.id, p.seq FROM (" + strings.Join(parts, " UNION ALL ") + ") AS p ORDER BY p.at, p.id"
	if limit > 0 {
		s.query += fmt.Sprint(" LIMIT ", limit)
	}
	return s
}

// asIfRequested returns a redrive that is not stored yet as if it had been requested at that time,
// so that a single query can count its letters.
func asIfRequested(r dlq.Redrive, at time.Time) dlq.Redrive {
	r.CreatedAt, r.Snapshot = at.Add(bulk.Slack), ""
	return r
}

// look counts the letters of a redrive that is being requested. It uses a single statement, so that
// the count and the snapshot agree.
func look(ctx context.Context, tx *sqlx.Tx, r *dlq.Redrive) (seen bulk.Seen, err error) {
	if err := tx.GetContext(ctx, &seen.At, `SELECT clock_timestamp()`); err != nil {
		return seen, err
	}
	now := asIfRequested(*r, seen.At)
	s := selected(&now, nil, r.Max)
	seen.At, seen.Snapshot, seen.Count, err = postgres.Look(ctx, tx, `SELECT count(*) FROM (`+s.query+`) AS p`, s.args...)
	return seen, err
}
