package accessdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/principal"
)

// Sessions is access.Sessions on PostgreSQL.
type Sessions struct{ db *postgres.DB }

// NewSessions returns the store of sessions in db.
func NewSessions(db *postgres.DB) *Sessions { return &Sessions{db} }

// sessionRow is a row of saga.session_secrets.
type sessionRow struct {
	access.Session
	boundTo
}

var sessionTable = postgres.NewTable(
	postgres.UUID("id", func(r *sessionRow) *uuid.UUID { return &r.ID }),
	postgres.Bytes("hash", func(r *sessionRow) *[]byte { return &r.Hash }),
	postgres.Text("subject", func(r *sessionRow) *string { return &r.Subject }),
	postgres.Text("name", func(r *sessionRow) *string { return &r.Name }),
	postgres.Text("role", func(r *sessionRow) *principal.Role { return &r.Role }),
	postgres.UUIDOrNil("key_id", func(r *sessionRow) **uuid.UUID { return &r.KeyID }),
	postgres.UUIDOrNil("bound_tenant_id", func(r *sessionRow) **uuid.UUID { return &r.bound }),
	postgres.Text("tenant_region", func(r *sessionRow) *string { return &r.tenant.Region }),
	postgres.Int("tenant_major", func(r *sessionRow) *int { return &r.tenant.Major }),
	postgres.Int("tenant_minor", func(r *sessionRow) *int { return &r.tenant.Minor }),
	postgres.Text("address", func(r *sessionRow) *string { return &r.Address }),
	postgres.Time("created_at", func(r *sessionRow) *time.Time { return &r.CreatedAt }),
	postgres.Time("expires_at", func(r *sessionRow) *time.Time { return &r.ExpiresAt }),
	postgres.Time("last_used_at", func(r *sessionRow) *time.Time { return &r.LastUsedAt }),
)

var sessionColumns = sessionTable.Selected("s")

func (r *sessionRow) session() access.Session {
	r.Tenant = r.tenantOf()
	return r.Session
}

var openSession = postgres.Named(`INSERT INTO saga.session_secrets (`+sessionTable.Inserted()+`)
	VALUES (`+sessionTable.Values("s")+`)`, sessionTable.As("s"))

// Open implements access.Sessions.
func (st *Sessions) Open(ctx context.Context, s access.Session) error {
	row := &sessionRow{Session: s, boundTo: bind(s.Tenant)}
	err := st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, openSession.Text, openSession.Args(sessionTable.Row(row))...); err != nil {
			return err
		}
		return tellSession(ctx, tx, st.db.NewID(), s.CreatedAt, "create", nil, &s)
	})
	if err != nil {
		return fmt.Errorf("open the session: %w", err)
	}
	return nil
}

// tellSession records an action on a session, as tellKey does for keys.
func tellSession(
	ctx context.Context, tx *sqlx.Tx, id uuid.UUID, at time.Time, verb string, before, after *access.Session,
) error {
	of, was, is := after, any(nil), any(nil)
	if before != nil {
		of, was = before, before.Audited()
	}
	if after != nil {
		is = after.Audited()
	}
	tenant := operator.Deployment
	if of.Tenant != nil {
		tenant = of.Tenant.ID
	}
	return auditdb.Tell(ctx, tx, id, tenant, at, operator.Session, of.ID.String(), verb, was, is,
		map[string]any{"subject": of.Subject, "role": of.Role})
}

// Find implements access.Sessions.
func (st *Sessions) Find(ctx context.Context, hash []byte) (access.Session, error) {
	return st.one(ctx, `SELECT `+sessionColumns+` FROM saga.session_secrets s WHERE s.hash = $1`, hash)
}

// Get implements access.Sessions.
func (st *Sessions) Get(
	ctx context.Context, scope *uuid.UUID, owner string, id uuid.UUID, now time.Time,
) (access.Session, error) {
	return st.one(ctx, `SELECT `+sessionColumns+` FROM saga.session_secrets s
		 WHERE s.id = $1 AND ($2::uuid IS NULL OR s.bound_tenant_id = $2::uuid) AND ($3 = '' OR s.subject = $3)
		   AND s.expires_at > $4 AND s.last_used_at > $5`, id, scope, owner, now, now.Add(-access.SessionIdle))
}

func (st *Sessions) one(ctx context.Context, query string, args ...any) (access.Session, error) {
	found, err := sessionTable.All(st.db.QueryRead(ctx, query, args...))
	switch {
	case err != nil:
		return access.Session{}, fmt.Errorf("find the session: %w", err)
	case len(found) == 0:
		return access.Session{}, access.SessionNotFound()
	}
	return found[0].session(), nil
}

// List implements access.Sessions.
func (st *Sessions) List(
	ctx context.Context, scope *uuid.UUID, f access.SessionFilter,
) (page.Of[access.Session], error) {
	var none page.Of[access.Session]
	w := postgres.Where{}
	w.Add("s.expires_at > ?", f.Now)
	w.Add("s.last_used_at > ?", f.Now.Add(-access.SessionIdle))
	if scope != nil {
		w.Add("s.bound_tenant_id = ?", *scope)
	}
	if f.Subject != "" {
		w.Add("s.subject = ?", f.Subject)
	}
	var total int64
	if f.Total {
		err := st.db.Read.GetContext(ctx, &total, `SELECT count(*) FROM saga.session_secrets s WHERE `+w.Text(), w.Args...)
		if err != nil {
			return none, fmt.Errorf("count sessions: %w", err)
		}
	}
	if f.After != nil {
		w.Add("s.id < ?", *f.After)
	}
	var read []access.Session
	rows, err := st.db.Read.QueryContext(ctx, fmt.Sprintf(
		`SELECT %s FROM saga.session_secrets s WHERE %s ORDER BY s.id DESC LIMIT %d OFFSET %d`,
		sessionColumns, w.Text(), f.Limit+1, f.Offset), w.Args...)
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			r, err := sessionTable.One(rows)
			if err == nil {
				read = append(read, r.session())
			}
			return err
		})
	}
	if err != nil {
		return none, fmt.Errorf("list sessions: %w", err)
	}
	found := page.Cut(f.Request, read)
	found.Total = total
	return found, nil
}

// End implements access.Sessions.
func (st *Sessions) End(ctx context.Context, scope *uuid.UUID, owner string, id uuid.UUID, at time.Time) error {
	found := false
	err := st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, `DELETE FROM saga.session_secrets s
			 WHERE s.id = $1 AND ($2::uuid IS NULL OR s.bound_tenant_id = $2::uuid) AND ($3 = '' OR s.subject = $3)
			RETURNING `+sessionColumns, id, scope, owner)
		if err != nil {
			return err
		}
		var ended access.Session
		err = postgres.EachRow(rows, func() error {
			r, err := sessionTable.One(rows)
			if err == nil {
				ended, found = r.session(), true
			}
			return err
		})
		if err != nil || !found {
			return err
		}
		return tellSession(ctx, tx, st.db.NewID(), at, "end", &ended, nil)
	})
	switch {
	case err != nil:
		return fmt.Errorf("end the session: %w", err)
	case !found:
		return access.SessionNotFound()
	}
	return nil
}

// useSessions locks the sessions in id order, like useKeys.
const useSessions = `
WITH used AS (
	SELECT s.id, u.at FROM saga.session_secrets s JOIN unnest($1::uuid[], $2::timestamptz[]) u (id, at) ON u.id = s.id
	 WHERE u.at > s.last_used_at
	 ORDER BY s.id FOR UPDATE OF s
)
UPDATE saga.session_secrets s SET last_used_at = used.at FROM used
 WHERE s.id = used.id`

// removeSessions skips ended sessions that another node is removing.
const removeSessions = `
DELETE FROM saga.session_secrets WHERE id IN (
	SELECT id FROM saga.session_secrets WHERE expires_at <= $1 OR last_used_at <= $2
	 ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED
)`

// Used implements access.Sessions.
func (st *Sessions) Used(ctx context.Context, at map[uuid.UUID]time.Time, now time.Time) error {
	ids, times := make([]uuid.UUID, 0, len(at)), make([]time.Time, 0, len(at))
	for id, t := range at {
		ids, times = append(ids, id), append(times, t)
	}
	if len(ids) > 0 {
		if _, err := st.db.Read.ExecContext(ctx, useSessions, pq.Array(ids), pq.Array(times)); err != nil {
			return fmt.Errorf("record the use of sessions: %w", err)
		}
	}
	_, err := st.db.Read.ExecContext(ctx, removeSessions, now, now.Add(-access.SessionIdle))
	if err != nil {
		return fmt.Errorf("remove ended sessions: %w", err)
	}
	return nil
}
