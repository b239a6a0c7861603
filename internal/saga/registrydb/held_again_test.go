package registrydb_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/registrydb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A gate that is held again withdraws the grants of letters and webhooks just as it does those of
// sagas.
func TestAGateThatIsHeldAgainTakesBackTheGrantsOfAllCallers(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	ctx, st, look := t.Context(), registrydb.New(pgtest.Connect(t, dsn)), pgtest.Observer(t, dsn)
	s, err := registry.Settings{BaseURL: "http://card.example"}.Checked("card")
	if err != nil {
		t.Fatal(err)
	}
	now := pgtest.Now()
	p, _ := registry.New(uuid.New(), "card", s, "", now).Hold("ann", "", "", now).Release("ann", 10, now)
	p.Version = 1
	if err := st.Put(ctx, p, 0, registry.VerbPut); err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, look, `
		INSERT INTO saga.gate_waits (tenant_id, kind, id, participant, parked_at, granted_at)
		VALUES ($1, 'letter', $2, 'card', now(), now())`, p.TenantID, uuid.New())
	d := p.Gate.Decide(&p.Settings.Outage, registry.Seen{Let: 20, LetFailed: 20, Waiting: true}, now)
	if _, stored, err := st.Decide(ctx, &p, d, now); !stored || err != nil || d.Gate.State != registry.Held {
		t.Fatalf("%s, stored %t, %v", d.Gate.State, stored, err)
	}
	if n := pgtest.Ask[int](t, look, `SELECT count(*) FROM saga.gate_waits WHERE granted_at IS NOT NULL`); n != 0 {
		t.Error("a letter makes its call although the gate is held again")
	}
}
