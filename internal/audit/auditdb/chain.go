package auditdb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
)

// Settled is the condition that no event can still commit before this one, because all transactions
// with a smaller id have ended (trap X8).
const Settled = `e.txid < (SELECT saga.feed_horizon())`

// tenants is a recursive query that steps through an index that begins with tenant_id, with one
// look-up for each tenant, however many rows the tenant has. Its last row is NULL.
const tenants = `tenants AS (
	(SELECT e.tenant_id FROM ROWS e ORDER BY e.tenant_id LIMIT 1)
	UNION ALL
	SELECT (SELECT e.tenant_id FROM ROWS e WHERE e.tenant_id > t.tenant_id ORDER BY e.tenant_id LIMIT 1)
	  FROM tenants t WHERE t.tenant_id IS NOT NULL
)`

// TenantsWithEvents is the query "tenants" over the live events of the trail, for a statement that
// begins with WITH RECURSIVE.
var TenantsWithEvents = strings.ReplaceAll(tenants, "ROWS", "saga.audit_events")

// Chain contains the statements that read and extend a chain of seals.
type Chain struct{ unsealed, seal, seals string }

// OfEvents is the chain of saga events, and ofActions is the chain of operators' actions.
var (
	OfEvents  = newChained("saga.audit_events", "saga.audit_seals", "id", "timestamp")
	ofActions = newChained("saga.audit_actions", "saga.audit_action_seals", "n", "at")
)

// newChained returns the chain of a table whose rows are ordered by txid and id and have a time.
func newChained(rows, seals, id, at string) Chain {
	named := strings.NewReplacer("ROWS", rows, "SEALS", seals, "PLACE", id, "WRITTEN", at)
	return Chain{named.Replace(unsealed), named.Replace(sealEvents), named.Replace(readSeals)}
}

// unsealed steps through the index of the feed from tenant to tenant, and reads for each tenant the
// first event after its last seal.
const unsealed = `
WITH RECURSIVE ` + tenants + `
SELECT t.tenant_id, greatest(0, extract(epoch FROM now() - e.written))::float8, ` + Settled + `
  FROM tenants t
  LEFT JOIN LATERAL (SELECT s.to_txid, s.to_id
                       FROM SEALS s
                      WHERE s.tenant_id = t.tenant_id
                      ORDER BY s.seq DESC
                      LIMIT 1) AS last ON true
 CROSS JOIN LATERAL (
	SELECT a.txid, CASE WHEN isfinite(a.WRITTEN) THEN a.WRITTEN ELSE now() END AS written FROM ROWS a
	 WHERE a.tenant_id = t.tenant_id AND (a.txid, a.PLACE) > (coalesce(last.to_txid, '0'), coalesce(last.to_id, 0))
	 ORDER BY a.txid, a.PLACE LIMIT 1) AS e`

// UnsealedIn is trail.Chain.Unsealed.
func (c *Chain) UnsealedIn(ctx context.Context, db *postgres.DB) ([]trail.Unsealed, error) {
	rows, err := db.Read.QueryContext(ctx, c.unsealed)
	if err != nil {
		return nil, fmt.Errorf("look for events to seal: %w", err)
	}
	var list []trail.Unsealed
	err = postgres.EachRow(rows, func() error {
		var u trail.Unsealed
		var seconds float64
		err := rows.Scan(&u.TenantID, &seconds, &u.Settled)
		u.Age = time.Duration(seconds * float64(time.Second))
		list = append(list, u)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for events to seal: %w", err)
	}
	return list, nil
}

// sealEvents computes a seal in the database, and writes it unless another node was faster, which
// the unique sequence number detects. Both seals would be correct, because nothing before a settled
// event ever changes. The hash is the one of trail.Seal.Sum.
//
// covered is sorted once. Scans of it return the rows in that order, on which the tests of the
// chain rely.
var sealEvents = fmt.Sprintf(`
WITH last AS MATERIALIZED (
	(SELECT seq, to_txid, to_id, hash FROM SEALS WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1)
	UNION ALL
	SELECT 0, '0', 0, decode(repeat('00', 32), 'hex') -- before the first seal
	LIMIT 1
), covered AS MATERIALIZED (
	SELECT e.txid, e.PLACE AS id, e.digest FROM ROWS e
	 WHERE e.tenant_id = $1 AND %s
	   AND (e.txid, e.PLACE) > ((SELECT to_txid FROM last),
	                            (SELECT to_id FROM last)) -- without coalesce, which row-level security lets no index serve
	 ORDER BY e.txid, e.PLACE LIMIT %d
), content AS MATERIALIZED (
	SELECT count(*) AS events, string_agg(xid8send(txid) || int8send(id) || digest, '') AS bytes FROM covered
), seal AS (
	SELECT l.seq + 1 AS seq, l.hash AS prev,
	       f.txid AS from_txid, f.id AS from_id, t.txid AS to_txid, t.id AS to_id, c.events, c.bytes
	  FROM last l, content c,
	       (SELECT txid, id FROM covered LIMIT 1) AS f,
	       (SELECT txid, id FROM covered OFFSET (SELECT greatest(events, 1) - 1 FROM content)) AS t
)
INSERT INTO SEALS (tenant_id, seq, from_txid, from_id, to_txid, to_id, events, prev_hash, hash)
SELECT $1, seq, from_txid, from_id, to_txid, to_id, events, prev,
       sha256(prev || uuid_send($1) || int8send(seq) || xid8send(from_txid) || int8send(from_id)
              || xid8send(to_txid) || int8send(to_id) || int8send(events) || bytes)
  FROM seal
ON CONFLICT (tenant_id, seq) DO NOTHING
RETURNING events`, Settled, trail.MaxSealed)

// SealIn is trail.Chain.Seal.
func (c *Chain) SealIn(ctx context.Context, db *postgres.DB, tenant uuid.UUID) (events int, err error) {
	err = db.ListTenant(ctx, tenant, c.seal, func(rows *sql.Rows) error { return rows.Scan(&events) }, tenant)
	if err != nil {
		return 0, fmt.Errorf("seal events: %w", err)
	}
	return events, nil
}

// sealTable is a table of seals. It is used only for reading, because sealEvents writes the seals.
var sealTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(s *trail.Seal) *uuid.UUID { return &s.TenantID }),
	postgres.Int("seq", func(s *trail.Seal) *int64 { return &s.Seq }),
	postgres.Read("from_txid", func(s *trail.Seal) any { return &s.From.TxID }),
	postgres.Int("from_id", func(s *trail.Seal) *int64 { return &s.From.ID }),
	postgres.Read("to_txid", func(s *trail.Seal) any { return &s.To.TxID }),
	postgres.Int("to_id", func(s *trail.Seal) *int64 { return &s.To.ID }),
	postgres.Int("events", func(s *trail.Seal) *int { return &s.Events }),
	postgres.Bytes("prev_hash", func(s *trail.Seal) *[]byte { return &s.Prev }),
	postgres.Bytes("hash", func(s *trail.Seal) *[]byte { return &s.Hash }),
	postgres.Time("sealed_at", func(s *trail.Seal) *time.Time { return &s.SealedAt }),
)

var readSeals = `SELECT ` + sealTable.Selected("s") + `
  FROM SEALS s
 WHERE s.tenant_id = $1 AND s.seq >= $2
 ORDER BY s.seq
 LIMIT $3`

// SealsIn is trail.Chain.Seals.
func (c *Chain) SealsIn(ctx context.Context, db *postgres.DB, tenant uuid.UUID, from int64,
	limit int) ([]trail.Seal, error) {
	var seals []trail.Seal
	err := db.ListTenant(ctx, tenant, c.seals, func(rows *sql.Rows) error {
		s, err := sealTable.One(rows)
		seals = append(seals, s)
		return err
	}, tenant, from, limit)
	if err != nil {
		return nil, fmt.Errorf("read seals: %w", err)
	}
	return seals, nil
}
