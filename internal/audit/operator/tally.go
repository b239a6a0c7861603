package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// SystemRetention is the actor when retention archives and deletes without an operator's request.
const SystemRetention = "system:retention"

// Tally counts, for each tenant, the objects that a round of retention archives and deletes. Stores
// add to the Tally in their context, so that the caller of a round does not depend on what they
// delete.
type Tally struct {
	mu    sync.Mutex
	taken map[uuid.UUID]map[string]int64
}

type tallyKey struct{}

// Tallied returns ctx for a round, with its counter.
func Tallied(ctx context.Context) (context.Context, *Tally) {
	t := &Tally{taken: map[uuid.UUID]map[string]int64{}}
	return context.WithValue(ctx, tallyKey{}, t), t
}

// Took counts n objects of a tenant whose deletion or archiving is durable; what is, for example,
// sagas_archived. Outside of a round it does nothing.
func Took(ctx context.Context, tenant uuid.UUID, what string, n int64) {
	t, _ := ctx.Value(tallyKey{}).(*Tally)
	if t == nil || n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[tenant] == nil {
		t.taken[tenant] = map[string]int64{}
	}
	t.taken[tenant][what] += n
}

// Actions returns the audit records of the round: one for each tenant with a count above zero.
func (t *Tally) Actions(by By, subject string, at time.Time, newID func() uuid.UUID) []Action {
	t.mu.Lock()
	defer t.mu.Unlock()
	by.Actor = cmp.Or(by.Actor, SystemRetention)
	var out []Action
	for tenant, taken := range t.taken {
		detail, err := json.Marshal(taken)
		if err != nil {
			panic("operator: encode the counts as JSON: " + err.Error())
		}
		out = append(out, by.Did(newID(), tenant, at, Retention, subject, "run", detail))
	}
	slices.SortFunc(out, func(a, b Action) int { return slices.Compare(a.TenantID[:], b.TenantID[:]) })
	return out
}
