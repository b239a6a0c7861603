package eventdb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestNoticesAreFoundByIndex checks that the queries that the loops of webhooks and publications
// repeat continuously are index look-ups, however many rows have accumulated.
func TestNoticesAreFoundByIndex(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	fill := pgtest.Observer(t, dsn)
	for _, s := range []string{
		`INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest)
		 SELECT gen_random_uuid(), ('00000000-0000-4000-8000-' || lpad((i % 50)::text, 12, '0'))::uuid, 'saga.started', '' FROM generate_series(1, 60000) AS i`,
		`INSERT INTO saga.webhooks (tenant_id, id, url, enabled, created_at, updated_at, version, cursor_txid, cursor_id)
		 SELECT ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid,
		        'https://h/', true, now(), now(), 1, '0', 0 FROM generate_series(0, 49) AS i`,
		`INSERT INTO saga.webhook_deliveries (tenant_id, webhook_id, id, event_id, event_type, body, status, due_at, created_at, ended_at)
		 SELECT ('00000000-0000-4000-8000-' || lpad((i % 50)::text, 12, '0'))::uuid, ('00000000-0000-7000-8000-' || lpad((i % 50)::text, 12, '0'))::uuid,
		        gen_random_uuid(), i, 'saga.started', '{}', CASE WHEN i / 50 % 20 = 0 THEN 'pending' WHEN i / 50 % 20 = 1 THEN 'failed' ELSE 'delivered' END,
		        now() + (i % 100 - 50) * interval '1 s', now(), CASE WHEN i / 50 % 20 > 0 THEN now() END FROM generate_series(1, 60000) AS i`,
		`VACUUM (ANALYZE) saga.audit_events, saga.webhooks, saga.webhook_deliveries`,
	} {
		if _, err := fill.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	tenant, hook := uuid.MustParse("00000000-0000-4000-8000-000000000007"), uuid.MustParse("00000000-0000-7000-8000-000000000007")
	now := time.Now()
	for _, tt := range []pgtest.Purpose{
		{Name: "which webhooks have work", Query: eventdb.ReadyWebhooks, Args: []any{now, 1000}, Indexes: []string{"idx_event_feed", "idx_webhook_deliveries_due"}},
		{Name: "how far webhooks are behind", Query: eventdb.WebhookBacklog, Indexes: []string{"idx_event_feed"}},
		{Name: "a claim", Query: eventdb.ClaimDeliveries, Args: []any{tenant, hook, 1, now, 1_000_000, 8}, Indexes: []string{"idx_webhook_deliveries_due", "webhook_deliveries_pkey"}},
		{Name: "what failed since", Query: eventdb.RedeliverFailed, Args: []any{tenant, hook, now, now, 1000}, Indexes: []string{"idx_webhook_deliveries_failed"}},
		{Name: "which tenants have unpublished events", Query: eventdb.Unpublished, Args: []any{"kafka"}, Indexes: []string{"idx_event_feed"}},
	} {
		t.Run(tt.Name, func(t *testing.T) {
			p := pgtest.Explain(t, fill, tt.Query, tt.Args...)
			pgtest.WantIndexes(t, p, tt.Indexes...)
			p.Each(func(n pgtest.Plan) {
				if n.Relation == "webhook_deliveries" &&
					!slices.Contains([]string{"Index Scan", "Index Only Scan", "Bitmap Heap Scan", "ModifyTable"}, n.Type) {
					t.Errorf("%s on webhook_deliveries:\n%s", n.Type, p)
				}
			})
			begun := time.Now()
			rows, err := fill.QueryContext(t.Context(), tt.Query, tt.Args...)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			found := 0
			for rows.Next() {
				found++
			}
			if err := rows.Err(); err != nil || found == 0 && tt.Name != "what failed since" {
				t.Fatalf("%d rows, %v", found, err)
			}
			t.Logf("took %s", time.Since(begun))
		})
	}
}
