package eventdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestTablesOfWebhooksAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t)).SQL()
	webhooks, deliveries := eventdb.WebhookTable.Without("secrets"), eventdb.DeliveryTable.Without("body")
	pgtest.WantColumns(t, db, "saga.webhooks", webhooks.Nullable(), "cursor_txid", "cursor_id")
	pgtest.WantColumns(t, db, "saga.webhook_deliveries", deliveries.Nullable(), "body", "lease_until")
}
