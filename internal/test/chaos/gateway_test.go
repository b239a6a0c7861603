package chaos

import (
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// gateway stands between the nodes and the participants and knows nothing of earlier calls. It
// refuses some calls that repeat another call, which may have been applied, like a gateway that is
// being deployed, has a changed route or has lost a credential. A refused call reaches no
// participant and so no ledger: the judge sees only whether an effect was left behind.
type gateway struct {
	mu      sync.Mutex
	dice    *rand.Rand            // guarded by mu
	seen    map[callID]bool       // guarded by mu
	refused map[ledger.Action]int // guarded by mu
}

func newGateway(dice *rand.Rand) *gateway {
	return &gateway{dice: dice, seen: map[callID]bool{}, refused: map[ledger.Action]int{}}
}

// refusals are the statuses that gateways refuse calls with.
var refusals = []int{
	http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge,
}

func (g *gateway) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := callID{r.Header.Get("X-Saga-Id"), r.Header.Get("X-Saga-Step"), ledger.Action(r.Header.Get("X-Saga-Action"))}
		if status := g.refuses(id); status != 0 {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>no</html>")) // it doesn't matter whether this arrives
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuses returns the status with which the call is refused, or 0 to forward it. A refused
// compensation leads to a dirty end, and there must not be too many of these.
func (g *gateway) refuses(id callID) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	again := g.seen[id]
	g.seen[id] = true
	share := 0.3
	if id.action == ledger.Compensate {
		share = 0.03
	}
	if !again || g.dice.Float64() >= share {
		return 0
	}
	g.refused[id.action]++
	return refusals[g.dice.IntN(len(refusals))]
}

func (g *gateway) count(a ledger.Action) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused[a]
}
