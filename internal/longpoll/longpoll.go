// Package longpoll notifies requests that wait for the end of a saga, a job run or a redrive.
// Requests on the node where it ends are notified immediately, with the committed value. Requests
// on other nodes are notified by messages between nodes. These messages are hints, so a waiting
// request also polls, at longer intervals.
//
// A node sends nothing about an end for which no other node has asked.
package longpoll

import (
	"encoding/base64"
	"encoding/hex"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Kind is the kind of an object that may end.
type Kind byte

// These are the kinds.
const (
	Saga    Kind = 's'
	JobRun  Kind = 'r'
	Redrive Kind = 'd'
)

// Key identifies an object whose end can be awaited.
type Key struct {
	Kind       Kind
	Tenant, ID uuid.UUID
}

const (
	// DefaultMax is the default of Config.Max.
	DefaultMax = 10_000
	// Every is the interval at which a waiter polls and asks the other nodes again, while messages
	// reach this node.
	Every = 2 * time.Second
	// asked is how long a node remembers that another node waits. It is longer than Every, so that
	// a lost message does not end the wait.
	asked = 3 * Every
	// remembered is the number of past ends that a node keeps, for questions that arrive after the
	// end of their saga.
	remembered = 4096
)

// Config configures a Board.
type Config struct {
	// Max is the maximum number of simultaneous waiters; 0 means DefaultMax.
	Max int
	// Send queues a message to the other nodes; it must not block. Nil means that there are no
	// other nodes.
	Send func(message string)
	// Linked reports whether messages from other nodes reach this one. Nil means that there are no
	// other nodes.
	Linked func() bool
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// Count is called with the number of waiters whenever it changes. If it is nil, it is not
	// called.
	Count func(waiting int)
}

// Board records which requests of this node wait for which ends, and for which ends other nodes
// have asked. It is safe for concurrent use.
type Board struct {
	cfg  Config
	node string // distinguishes its own messages, which it receives as well

	mu      sync.Mutex
	waiting map[Key]map[*Waiter]struct{} // guarded by mu
	count   int                          // guarded by mu; number of waiters in waiting
	asked   map[Key]time.Time            // guarded by mu; questions of other nodes, with the expiry of each
	sweep   time.Time                    // guarded by mu; when expired questions are next removed
	ring    []Key                        // guarded by mu; the last ends, the oldest one at next
	next    int                          // guarded by mu
	recent  map[Key]int                  // guarded by mu; how often each end is in ring
}

// New returns an empty board.
func New(cfg Config) *Board {
	if cfg.Max == 0 {
		cfg.Max = DefaultMax
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Count == nil {
		cfg.Count = func(int) {}
	}
	id := uuid.New()
	return &Board{
		cfg: cfg, node: hex.EncodeToString(id[:4]),
		waiting: map[Key]map[*Waiter]struct{}{}, asked: map[Key]time.Time{}, recent: map[Key]int{},
	}
}

// Waiter waits for the end of one object.
type Waiter struct {
	// Done receives the committed value if the object ended on this node. It receives nil if the
	// object must be read, because it ended on another node or a moment before the wait began. The
	// object may have been restarted since then, as a repaired saga is.
	Done <-chan any

	board *Board
	key   Key
	done  chan any // capacity 1
}

// Watch begins to wait. The caller must call Stop. It returns nil if too many requests are already
// waiting. An end shortly before the call counts as well, so a request may create an object first
// and then wait for it.
func (b *Board) Watch(k Key) *Waiter {
	done := make(chan any, 1)
	w := &Waiter{Done: done, board: b, key: k, done: done}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count >= b.cfg.Max {
		return nil
	}
	if b.waiting[k] == nil {
		b.waiting[k] = map[*Waiter]struct{}{}
	}
	b.waiting[k][w] = struct{}{}
	b.count++
	b.cfg.Count(b.count)
	if b.recent[k] > 0 {
		done <- nil
	}
	return w
}

// Stop ends the wait. It may be called on nil.
func (w *Waiter) Stop() {
	if w == nil {
		return
	}
	b := w.board
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.waiting[w.key]
	if _, waits := all[w]; !waits {
		return
	}
	if delete(all, w); len(all) == 0 {
		delete(b.waiting, w.key)
	}
	b.count--
	b.cfg.Count(b.count)
}

// Ask asks the other nodes to report the end to this one.
func (w *Waiter) Ask() { w.board.send(question, w.key) }

// Linked reports whether the other nodes' answers reach this node.
func (w *Waiter) Linked() bool { return w.board.cfg.Linked == nil || w.board.cfg.Linked() }

// Ended notifies every request that waits for k, on this node and on others. Call it after the
// commit. committed is passed to requests on this node; nil means that they must read the object.
func (b *Board) Ended(k Key, committed any) {
	b.mu.Lock()
	b.remember(k)
	b.here(k, committed)
	until, wanted := b.asked[k]
	delete(b.asked, k)
	b.mu.Unlock()
	if wanted && b.cfg.Now().Before(until) {
		b.send(answer, k)
	}
}

// Committed returns the argument of Ended for a pointer that may be nil.
func Committed[T any](p *T) any {
	if p == nil {
		return nil
	}
	return p
}

// here notifies the requests on this node. The caller holds the lock.
func (b *Board) here(k Key, committed any) {
	for w := range b.waiting[k] {
		select {
		case w.done <- committed:
		default: // it has already been notified
		}
	}
}

// remember stores an end for a short time. The caller holds the lock.
func (b *Board) remember(k Key) {
	b.recent[k]++
	if len(b.ring) < remembered {
		b.ring = append(b.ring, k)
		return
	}
	old := b.ring[b.next]
	if b.recent[old]--; b.recent[old] == 0 {
		delete(b.recent, old)
	}
	b.ring[b.next] = k
	b.next = (b.next + 1) % remembered
}

// These are the possible first bytes of a message.
const (
	question = '?' // a node waits for the end of this object
	answer   = '!' // this object has ended
)

const lengthOfNode, lengthOfKey = 8, 44 // lengths within a message

func (b *Board) send(what byte, k Key) {
	if b.cfg.Send == nil {
		return
	}
	raw := make([]byte, 0, 33)
	raw = append(raw, byte(k.Kind))
	raw = append(append(raw, k.Tenant[:]...), k.ID[:]...)
	b.cfg.Send(string(what) + b.node + base64.RawURLEncoding.EncodeToString(raw))
}

// Receive handles a message that a node has sent. It ignores messages that it does not understand,
// such as those of later versions.
func (b *Board) Receive(message string) {
	if len(message) != 1+lengthOfNode+lengthOfKey || message[1:1+lengthOfNode] == b.node {
		return
	}
	raw, err := base64.RawURLEncoding.DecodeString(message[1+lengthOfNode:])
	if err != nil {
		return
	}
	k := Key{Kind: Kind(raw[0]), Tenant: uuid.UUID(raw[1:17]), ID: uuid.UUID(raw[17:])}
	switch message[0] {
	case answer:
		b.mu.Lock()
		b.here(k, nil)
		b.mu.Unlock()
	case question:
		if b.note(k) {
			b.send(answer, k)
		}
	}
}

// note records that another node waits for k. If k has just ended, note reports that.
func (b *Board) note(k Key) (ended bool) {
	now := b.cfg.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recent[k] > 0 {
		return true
	}
	if now.After(b.sweep) {
		b.sweep = now.Add(asked)
		for other, until := range b.asked {
			if !now.Before(until) {
				delete(b.asked, other)
			}
		}
	}
	if _, known := b.asked[k]; known || len(b.asked) < maxAsked {
		b.asked[k] = now.Add(asked)
	}
	return false
}

// maxAsked is the maximum number of ends for which other nodes may ask. Beyond it, they find ends
// by polling.
const maxAsked = 100_000
