package sagadb

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// SameCall holds for a parked row p and its saga s if the saga's next call is still the one that is
// parked. A saga that has moved on no longer waits.
const SameCall = `s.state = p.state AND s.current_step = p.step AND s.step_attempt = p.attempt AND s.completed_at IS NULL`

// fewWait is the maximum number of sagas waiting for a participant that are read and sorted for a
// list. If there are more, the unfinished sagas are read in the order of the list, and each is
// looked up.
var fewWait = 10_000

// atGate compares the number of waiting sagas with fewWait.
func atGate(w *postgres.Where, than string, tenant uuid.UUID, f saga.Filter) {
	w.Add(fmt.Sprintf(`(SELECT count(*) FROM (SELECT FROM saga.parked p
	WHERE p.tenant_id = ? AND p.participant = ? AND p.granted_at IS NULL LIMIT %d) AS at_gate) %s %d`, fewWait+1, than,
		fewWait), tenant, f.WaitsFor)
}

// waiting returns a FROM item with the sagas that wait at the gate of f's participant. It is empty
// if there are more than fewWait.
func waiting(tenant uuid.UUID, f saga.Filter) (from string, w sagaWhere) {
	p := postgres.Where{}
	p.Add("p.tenant_id = ? AND p.participant = ? AND p.granted_at IS NULL AND "+SameCall, tenant, f.WaitsFor)
	atGate(&p, "<=", tenant, f)
	return "(SELECT s.* FROM saga.parked p JOIN saga.saga_states s ON s.id = p.saga_id AND s.tenant_id = p.tenant_id WHERE " +
		p.Text() + " OFFSET 0)", sagaWhere{Where: postgres.Where{Args: p.Args, Few: true}}
}

// manyWait adds the conditions that more than fewWait sagas wait at the gate of f's participant,
// and that the saga is one of them.
func (w *sagaWhere) manyWait(tenant uuid.UUID, f saga.Filter) {
	w.Add("s.completed_at IS NULL")
	atGate(&w.Where, ">", tenant, f)
	w.waits(f.WaitsFor)
}

// waits adds the condition that a saga waits at the gate of a participant. Each saga is looked up,
// because with a join the planner would read all waiting sagas.
func (w *sagaWhere) waits(participant string) {
	if participant != "" {
		w.Add("(SELECT p.participant FROM saga.parked p WHERE p.tenant_id = s.tenant_id AND p.saga_id = s.id AND p.granted_at IS NULL AND "+
			SameCall+") = ?", participant)
	}
}
