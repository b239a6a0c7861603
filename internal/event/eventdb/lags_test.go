package eventdb_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// While a transaction is open, the feed holds events back, and webhooks and publications fall
// behind. Their lags report that, and nothing is sent.
func TestLagsCountWhatTheFeedHoldsBack(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, pgtest.PlainLogin(t, dsn))
	hooks, publications := eventdb.NewWebhooks(db, nil), eventdb.NewPublications(db)
	url := "https://example.com/events"
	hook, err := webhook.New(pgtest.Big, pgtest.NewID(), webhook.Settings{URL: &url}, []byte("k"), "op", pgtest.Now())
	if err == nil {
		err = hooks.Create(t.Context(), hook, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	happened := pgtest.Now().Add(-time.Hour)
	lags := func(what string, waits, held bool) {
		t.Helper()
		pending, since, err := hooks.Backlog(t.Context())
		if err != nil || pending != 0 || waits != since.Equal(happened) {
			t.Errorf("%s: %d deliveries are pending, the webhook has been waiting since %v (%v)", what, pending, since, err)
		}
		left, err := publications.Unpublished(t.Context(), "kafka")
		if err != nil || len(left) != 1 || left[0].Held != held || !left[0].Since.Equal(happened) {
			t.Errorf("%s: unpublished %+v (%v)", what, left, err)
		}
		ready, err := hooks.Ready(t.Context(), pgtest.Now())
		if err != nil || (len(ready) > 0) != (waits && !held) {
			t.Errorf("%s: webhooks with work %+v (%v)", what, ready, err)
		}
	}
	open, err := pgtest.Observer(t, dsn).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Rollback() }()
	if _, err := open.ExecContext(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, db.SQL(), `INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest, timestamp)
		VALUES (gen_random_uuid(), $1, 'saga.started', '', $2)`, pgtest.Big, happened)
	lags("an open transaction holds it back", true, true)
	if err := open.Rollback(); err != nil {
		t.Fatal(err)
	}
	pgtest.Settle(t, db.SQL())
	lags("it has not been read yet", true, false)
	off := hook
	off.Version, off.Enabled, off.DisabledAt, off.DisabledReason = 2, false, new(pgtest.Now()), "off"
	if err := hooks.Replace(t.Context(), off, false); err != nil {
		t.Fatal(err)
	}
	lags("the webhook is disabled", false, false)
}
