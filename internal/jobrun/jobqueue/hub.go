package jobqueue

import (
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Messages passes messages between nodes (postgres/notify).
type Messages interface {
	// On calls receive for each message on a channel.
	On(channel string, receive func(message string))
	// Send sends a message to every node soon, or drops it.
	Send(channel, message string)
}

// Hub wakes the leader and the claims that wait for runs: immediately on this node, and through
// messages on others. These are only hints, and every receiver polls as well.
type Hub struct {
	line Messages

	mu     sync.Mutex
	woke   func(tenant uuid.UUID, queue string) // nil: no listener on this node
	wanted func()                               // nil: this node cannot lead
}

// NewHub returns the hub for the nodes that line connects.
func NewHub(line Messages) *Hub {
	h := &Hub{line: line}
	line.On(runsChannel, h.heard)
	return h
}

// TenantQueue is a queue of a tenant.
type TenantQueue struct {
	Tenant uuid.UUID
	Queue  string
}

// runsChannel is the channel for messages between nodes. A message is either tenant:queue or
// leaderMessage.
const runsChannel = "skald_job_runs"

// leaderMessage wakes the leader on other nodes.
const leaderMessage = "leader"

// Admitted notifies waiting claims, immediately on this node and soon on others, that a queue has
// new claimable runs. Call it after the commit. Nothing is lost if it is not called, or if the node
// stops before other nodes are notified, because waiting claims poll every second or two.
func (h *Hub) Admitted(tenant uuid.UUID, queue string) {
	h.line.Send(runsChannel, tenant.String()+":"+queue)
	if woke, _ := h.listeners(); woke != nil {
		woke(tenant, queue)
	}
}

// WantLeader wakes the leader, on this node or another, because there is something to decide before
// its next sweep: a concurrency key has become free, a run waits for one, or an event was
// published. Call it after the commit. Like Admitted, it is only a hint.
func (h *Hub) WantLeader() {
	h.line.Send(runsChannel, leaderMessage)
	if _, wanted := h.listeners(); wanted != nil {
		wanted()
	}
}

// OnLeaderWanted registers f, which is called whenever WantLeader wakes the leader and must not
// block. It is for nodes that may lead.
func (h *Hub) OnLeaderWanted(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted = f
}

// OnAdmitted registers woke, which is called whenever a queue has new claimable runs, on this node
// or another, and must not block.
func (h *Hub) OnAdmitted(woke func(tenant uuid.UUID, queue string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.woke = woke
}

func (h *Hub) listeners() (woke func(uuid.UUID, string), wanted func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.woke, h.wanted
}

// heard handles a message, which may come from this node.
func (h *Hub) heard(message string) {
	woke, wanted := h.listeners()
	if message == leaderMessage {
		if wanted != nil {
			wanted()
		}
		return
	}
	id, queue, _ := strings.Cut(message, ":")
	if tenant, err := uuid.Parse(id); err == nil && woke != nil {
		woke(tenant, queue)
	}
}
