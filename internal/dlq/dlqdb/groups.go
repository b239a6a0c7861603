package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// The limits for counting open letters of a single group, and of each group in a list.
const (
	maxOpen       = 10_000
	maxOpenListed = 1_000
)

// openLetter is the condition that letter m still needs attention. It repeats the predicate of the
// partial indexes, so that no row needs to be read.
var openLetter = `(m.status` + postgres.Among(dlq.OpenStatuses) + ` AND (m.resolution IS NULL OR ` + notDiscarded + `))`

// OpenLetter exports openLetter for statements that count letters among other things.
var OpenLetter = openLetter

// groupTable describes dlq.dlq_groups.
var groupTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(g *dlq.Group) *uuid.UUID { return &g.TenantID }),
	postgres.Text("fingerprint", func(g *dlq.Group) *string { return &g.Fingerprint }),
	postgres.Int("version", func(g *dlq.Group) *int64 { return &g.Version }),
	postgres.Text("state", func(g *dlq.Group) *dlq.GroupState { return &g.State }),
	postgres.Text("topic", func(g *dlq.Group) *string { return &g.Topic }),
	postgres.Text("error_type", func(g *dlq.Group) *string { return &g.ErrorType }),
	postgres.Text("message", func(g *dlq.Group) *string { return &g.Message }),
	postgres.Int("received", func(g *dlq.Group) *int64 { return &g.Received }),
	postgres.Time("first_seen", func(g *dlq.Group) *time.Time { return &g.FirstSeen }),
	postgres.Time("last_seen", func(g *dlq.Group) *time.Time { return &g.LastSeen }),
	postgres.UUID("sample_id", func(g *dlq.Group) *uuid.UUID { return &g.Sample }),
	postgres.Text("assignee", func(g *dlq.Group) *string { return &g.Assignee }),
	postgres.Text("note", func(g *dlq.Group) *string { return &g.Note }),
	postgres.Time("updated_at", func(g *dlq.Group) *time.Time { return &g.UpdatedAt }),
)

var groupColumns = groupTable.Selected("g")

// selectGroups reads the groups that meet a condition and counts their open letters up to open;
// tail contains the order and the bounds of the page.
func selectGroups(condition, tail string, open int) string {
	return `
SELECT ` + groupColumns + `, o.open
  FROM (SELECT ` + groupColumns + ` FROM dlq.dlq_groups g WHERE ` + condition + tail + `) AS g
 CROSS JOIN LATERAL (SELECT count(*) AS open FROM (
	SELECT m.id
	  FROM dlq.dlq_messages m
	 WHERE m.tenant_id = g.tenant_id AND m.fingerprint = g.fingerprint AND ` + openLetter +
		fmt.Sprint(" LIMIT ", open+1) + `) AS few) AS o
 ORDER BY g.last_seen DESC, g.fingerprint DESC`
}

func scanGroup(rows *sql.Rows, open int64) (g dlq.Group, err error) {
	err = groupTable.Scan(rows, &g, &g.Open)
	if g.OpenCapped = g.Open > open; g.OpenCapped {
		g.Open = open
	}
	return g, err
}

// Groups implements dlq.Overview.
func (st *Letters) Groups(ctx context.Context, tenant uuid.UUID, f dlq.GroupFilter,
	p page.Request[page.TimeKey]) (page.Of[dlq.Group], error) {
	var total int64
	var read []dlq.Group
	w := postgres.Where{}
	w.Add("g.tenant_id = ?", tenant)
	if f.Topic != "" {
		w.Add("g.topic = ?", f.Topic)
	}
	if f.ErrorType != "" {
		w.Add("g.error_type = ?", f.ErrorType)
	}
	if f.States != nil {
		w.Add("g.state = ANY(?)", postgres.ArrayOf(texts(f.States)))
	}
	count, counted := `SELECT count(*) FROM dlq.dlq_groups g WHERE `+w.Text(), w.Args
	if p.After != nil {
		w.Add("(g.last_seen, g.fingerprint) < (?, ?)", p.After.At, p.After.Key)
	}
	query := selectGroups(w.Text(), fmt.Sprintf(" ORDER BY g.last_seen DESC, g.fingerprint DESC LIMIT %d OFFSET %d", p.Limit+1, p.Offset), maxOpenListed)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if p.Total {
			if err := tx.GetContext(ctx, &total, count, counted...); err != nil {
				return err
			}
		}
		var err error
		read, err = queryGroups(ctx, tx, maxOpenListed, query, w.Args...)
		return err
	})
	found := page.Cut(p, read)
	found.Total = total
	return found, postgres.Wrap("list groups of dead letters", err)
}

func queryGroups(ctx context.Context, tx *sqlx.Tx, open int64, query string, args ...any) ([]dlq.Group, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var out []dlq.Group
	err = postgres.EachRow(rows, func() error {
		g, err := scanGroup(rows, open)
		out = append(out, g)
		return err
	})
	return out, err
}

// Group implements dlq.Overview.
func (st *Letters) Group(ctx context.Context, tenant uuid.UUID, fingerprint string) (dlq.Group, error) {
	var found []dlq.Group
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		found, err = queryGroups(ctx, tx, maxOpen,
			selectGroups(`g.tenant_id = $1 AND g.fingerprint = $2`, "", maxOpen), tenant, fingerprint)
		return err
	})
	switch {
	case err != nil:
		return dlq.Group{}, postgres.Wrap("get a group of dead letters", err)
	case found == nil:
		return dlq.Group{}, noGroup(fingerprint)
	}
	return found[0], nil
}

func noGroup(fingerprint string) error {
	return fault.New(fault.NotFound, dlq.CodeGroupNotFound, "there is no group of dead letters with the fingerprint %s", fingerprint)
}

// changedGroup contains the columns of a group that operators may change.
var changedGroup = groupTable.Only("tenant_id", "fingerprint", "version", "state", "assignee", "note", "updated_at")

var changeGroup = postgres.Named(`UPDATE dlq.dlq_groups SET `+changedGroup.Set("g", "tenant_id", "fingerprint")+`
 WHERE tenant_id = @g.tenant_id AND fingerprint = @g.fingerprint`, changedGroup.As("g"))

// ChangeGroup implements dlq.Overview.
func (st *Letters) ChangeGroup(ctx context.Context, g dlq.Group, by operator.Action) error {
	return postgres.Wrap("change a group of dead letters", st.db.InTenant(ctx, g.TenantID, func(tx *sqlx.Tx) error {
		before := dlq.Group{Fingerprint: g.Fingerprint}
		err := tx.QueryRowContext(ctx, `
			SELECT g.version, g.state, g.assignee, g.note
			  FROM dlq.dlq_groups g
			 WHERE g.tenant_id = $1 AND g.fingerprint = $2
			 FOR NO KEY UPDATE`,
			g.TenantID, g.Fingerprint).Scan(&before.Version, &before.State, &before.Assignee, &before.Note)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noGroup(g.Fingerprint)
		case err != nil:
			return err
		case before.Version != g.Version-1:
			return fault.New(fault.Precondition, dlq.CodeStale, "the group of dead letters is at version %d", before.Version)
		}
		if _, err := tx.ExecContext(ctx, changeGroup.Text, changeGroup.Args(changedGroup.Row(&g))...); err != nil {
			return err
		}
		return auditdb.PutAction(ctx, tx, by.From(before.Audited(), g.Audited()))
	}))
}
