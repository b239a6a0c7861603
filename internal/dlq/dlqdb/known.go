package dlqdb

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
)

// knownTopic reads one entry from each index. Groups remain when their letters are deleted.
var knownTopic = postgres.OfTenant(`
SELECT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.tenant_id = tenant.id AND m.original_topic = $2)
    OR EXISTS (SELECT FROM dlq.dlq_messages_archive m WHERE m.tenant_id = tenant.id AND m.original_topic = $2)
    OR EXISTS (SELECT FROM dlq.dlq_groups g WHERE g.tenant_id = tenant.id AND g.topic = $2) AS letters,
       EXISTS (SELECT FROM dlq.dlq_policies p WHERE p.tenant_id = tenant.id AND p.topic = $2) AS policy`, "")

// KnownTopic implements dlq.Overview.
func (st *Letters) KnownTopic(ctx context.Context, tenant uuid.UUID, topic string) (letters, policy bool, err error) {
	err = st.db.ReadTenant(ctx, tenant, knownTopic, func(rows *sql.Rows) error { return rows.Scan(&letters, &policy) },
		topic)
	return letters, policy, postgres.Wrap("look up a topic", err)
}

var unknownLetters = postgres.OfTenant(`
SELECT k.id FROM unnest($2::uuid[]) WITH ORDINALITY AS k (id, n)
 WHERE (SELECT m.id FROM dlq.dlq_messages m WHERE m.id = k.id AND m.tenant_id = tenant.id) IS NULL ORDER BY k.n`, "")

// Unknown implements dlq.Overview.
func (st *Letters) Unknown(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	var out []uuid.UUID
	err := st.db.ReadTenant(ctx, tenant, unknownLetters, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		out = append(out, id)
		return err
	}, pq.Array(ids))
	return out, postgres.Wrap("look up dead letters", err)
}
