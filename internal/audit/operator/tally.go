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

// SystemRetention is who archives and deletes what its configured time has passed,
// where nobody asked for it.
const SystemRetention = "system:retention"

// Tally counts what a round of retention archives and deletes of each tenant. Stores
// count into the one that is in their context, so that whoever makes the round need
// not know what they look into.
type Tally struct {
	mu    sync.Mutex
	taken map[uuid.UUID]map[string]int64
}

type tallyKey struct{}

// Tallied returns ctx for a round, and what counts in it.
func Tallied(ctx context.Context) (context.Context, *Tally) {
	t := &Tally{taken: map[uuid.UUID]map[string]int64{}}
	return context.WithValue(ctx, tallyKey{}, t), t
}

// Took counts n of what (e.g. sagas_archived) of a tenant, which is durable. Outside
// of a round it does nothing.
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

// Actions are what is put on record of the round: one for each tenant of which
// something was taken, with how many of what.
func (t *Tally) Actions(by By, subject string, at time.Time, newID func() uuid.UUID) []Action {
	t.mu.Lock()
	defer t.mu.Unlock()
	by.Actor = cmp.Or(by.Actor, SystemRetention)
	var out []Action
	for tenant, taken := range t.taken {
		detail, err := json.Marshal(taken)
		if err != nil {
			panic("operator: names and numbers are always JSON: " + err.Error())
		}
		out = append(out, by.Did(newID(), tenant, at, Retention, subject, "run", detail))
	}
	slices.SortFunc(out, func(a, b Action) int { return slices.Compare(a.TenantID[:], b.TenantID[:]) })
	return out
}
