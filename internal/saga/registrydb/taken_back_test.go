package registrydb_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/registrydb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Grants that another transaction is withdrawing are not used in the meantime, and do not block the
// other grants.
func TestAGrantThatIsBeingTakenBackIsNotUsed(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	ctx, st, look := t.Context(), registrydb.New(pgtest.Connect(t, dsn)), pgtest.Observer(t, dsn)
	var grants []registry.Grant
	for range 2 {
		g := registry.Grant{
			Of: saga.Ref{Tenant: uuid.New(), ID: uuid.New()}, Participant: "card",
			Call: saga.CallID{State: saga.Running, Step: 1, Attempt: 2},
		}
		pgtest.Execute(t, look, `
			INSERT INTO saga.parked (tenant_id, saga_id, participant, state, step, attempt, parked_at, granted_at)
			VALUES ($1, $2, $3, $4, $5, $6, now(), now())`,
			g.Of.Tenant, g.Of.ID, g.Participant, g.Call.State, g.Call.Step, g.Call.Attempt)
		grants = append(grants, g)
	}
	tx, err := look.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // no effect after Commit
	if _, err := tx.ExecContext(ctx, `UPDATE saga.parked SET granted_at = NULL WHERE saga_id = $1`, grants[0].Of.ID); err != nil {
		t.Fatal(err)
	}
	taken, err := st.Take(ctx, grants)
	if err != nil || !slices.Equal(taken, []bool{false, true}) {
		t.Errorf("%v were taken, %v", taken, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if taken, err := st.Take(ctx, grants); err != nil || slices.Contains(taken, true) {
		t.Errorf("%v were taken again, %v", taken, err)
	}
}
