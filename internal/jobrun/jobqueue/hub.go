package jobqueue

import (
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Messages are what nodes send one another (postgres/notify).
type Messages interface {
	// On calls receive for each message on a channel.
	On(channel string, receive func(message string))
	// Send sends a message to every node soon, or drops it.
	Send(channel, message string)
}

// Hub wakes claims that wait for runs, and the leader: on this node at once, on others by
// messages. These are hints: every receiver also polls.
type Hub struct {
	line Messages

	mu     sync.Mutex
	woke   func(tenant uuid.UUID, queue string) // nil: no listener on this node
	wanted func()                               // nil: this node cannot lead
}

// NewHub returns the hub of the nodes between which line is.
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

// runsChannel is the channel of messages between nodes; a message is tenant:queue, or
// leaderMessage.
const runsChannel = "skald_job_runs"

// leaderMessage wakes the leader on other nodes.
const leaderMessage = "leader"

// Admitted notifies waiting claims, here at once and on other nodes soon, that a queue
// has new claimable runs. Call it after the commit. Nothing is lost when it is not
// called or the node dies before others know: waiting claims also poll, every second or
// two.
func (h *Hub) Admitted(tenant uuid.UUID, queue string) {
	h.line.Send(runsChannel, tenant.String()+":"+queue)
	if woke, _ := h.listeners(); woke != nil {
		woke(tenant, queue)
	}
}

// WantLeader wakes the leader, on this node or another, because it has something to
// decide before its next sweep: a concurrency key is free, a run waits for one, or an
// event was published. Call it after the commit. Like Admitted it is a hint.
func (h *Hub) WantLeader() {
	h.line.Send(runsChannel, leaderMessage)
	if _, wanted := h.listeners(); wanted != nil {
		wanted()
	}
}

// OnLeaderWanted registers f, which must not block and is called whenever the leader is
// wanted; for nodes that may lead.
func (h *Hub) OnLeaderWanted(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted = f
}

// OnAdmitted registers woke, which must not block and is called whenever a queue has new
// claimable runs, on this node or another.
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

// heard takes a message, which may be one of this node.
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
