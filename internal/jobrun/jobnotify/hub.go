// Package jobnotify wakes those that wait for job runs, on this node at once and on
// others by LISTEN and NOTIFY. Its messages are hints: every receiver also polls.
package jobnotify

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
)

// Hub wakes those that wait for job runs, on this node and, by LISTEN and NOTIFY, on
// others: claims that wait for runs, and the leader.
type Hub struct {
	db       *postgres.DB
	admitted admissions
}

// NewHub returns the hub of the nodes that use db.
func NewHub(db *postgres.DB) *Hub { return &Hub{db: db} }

// TenantQueue is a queue of a tenant.
type TenantQueue struct {
	Tenant uuid.UUID
	Queue  string
}

// admissions collects the queues with new claimable runs until other nodes are
// notified. Collected, because a NOTIFY in each transaction would serialise their
// commits: PostgreSQL holds a lock of the whole cluster from there to the commit.
type admissions struct {
	mu      sync.Mutex
	woke    func(tenant uuid.UUID, queue string) // nil: no listener on this node
	wanted  func()                               // nil: this node cannot lead
	pending map[string]struct{}                  // payloads of notifications
	signal  chan struct{}                        // nil until Run; capacity 1
}

// Admitted notifies waiting claims, here at once and on other nodes soon, that a queue
// has new claimable runs. Call it after the commit. Nothing is lost when it is not
// called or the node dies before others know: waiting claims also poll, every second or
// two.
func (h *Hub) Admitted(tenant uuid.UUID, queue string) {
	a := &h.admitted
	a.mu.Lock()
	woke := a.woke
	if a.signal != nil {
		a.pending[tenant.String()+":"+queue] = struct{}{}
		select {
		case a.signal <- struct{}{}:
		default:
		}
	}
	a.mu.Unlock()
	if woke != nil {
		woke(tenant, queue)
	}
}

// leaderPayload is the payload that wakes the leader on other nodes.
const leaderPayload = "leader"

// WantLeader wakes the leader, on this node or another, because it has something to
// decide before its next sweep: a concurrency key is free, a run waits for one, or an
// event was published. Call it after the commit. Like Admitted it is a hint.
func (h *Hub) WantLeader() {
	a := &h.admitted
	a.mu.Lock()
	wanted := a.wanted
	if a.signal != nil {
		a.pending[leaderPayload] = struct{}{}
		select {
		case a.signal <- struct{}{}:
		default:
		}
	}
	a.mu.Unlock()
	if wanted != nil {
		wanted()
	}
}

// OnLeaderWanted registers f, which must not block and is called whenever the leader is
// wanted; for nodes that may lead. Run receives the notifications of other nodes.
func (h *Hub) OnLeaderWanted(f func()) {
	a := &h.admitted
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = f
}

func (a *admissions) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]string, 0, len(a.pending))
	for p := range a.pending {
		out = append(out, p)
	}
	clear(a.pending)
	return out
}

// runsChannel is the channel of notifications between nodes; the payload is
// tenant:queue, or leaderPayload.
const runsChannel = "skald_job_runs"

// tellEvery is the shortest interval between two notifying statements.
const tellEvery = 20 * time.Millisecond

// Run calls woke whenever a queue has new claimable runs, on this node or, by LISTEN
// and NOTIFY, on others, until ctx ends; for those of other nodes one call at a time.
// It is a hint: some come twice, and some, while the connection is lost or through a
// pooler, not at all. At most one call of Run at a time for each Hub.
func (h *Hub) Run(ctx context.Context, woke func(tenant uuid.UUID, queue string)) {
	a := &h.admitted
	a.mu.Lock()
	a.woke, a.pending, a.signal = woke, map[string]struct{}{}, make(chan struct{}, 1)
	a.mu.Unlock()
	var parts sync.WaitGroup
	defer func() {
		parts.Wait()
		a.mu.Lock()
		a.woke, a.pending, a.signal = nil, nil, nil
		a.mu.Unlock()
	}()
	parts.Go(func() { h.notify(ctx, a.signal) })
	h.listen(ctx, func(payload string) {
		if payload == leaderPayload {
			a.mu.Lock()
			wanted := a.wanted
			a.mu.Unlock()
			if wanted != nil {
				wanted()
			}
			return
		}
		id, queue, _ := strings.Cut(payload, ":")
		if tenant, err := uuid.Parse(id); err == nil {
			woke(tenant, queue)
		}
	})
}

// notify sends the collected notifications. Those that cannot be sent are dropped: the
// other nodes poll.
func (h *Hub) notify(ctx context.Context, signal <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-signal:
		}
		payloads := h.admitted.take()
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		_, _ = h.db.SQL().ExecContext(bounded, `SELECT pg_notify('`+runsChannel+`', p) FROM unnest(string_to_array($1, E'\n')) AS p`, strings.Join(payloads, "\n"))
		cancel()
		pause.Reset(tellEvery)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}
