package participant

import (
	"context"
	"sync"
)

// turns serializes the calls of a step within this process.
type turns struct {
	mu   sync.Mutex
	held map[string]*turn // guarded by mu
}

type turn struct {
	users int           // guarded by turns.mu
	busy  chan struct{} // contains one element while a call is being processed
}

// wait waits for the turn of id, or until ctx ends. leave ends the turn.
func (t *turns) wait(ctx context.Context, id string) (leave func(), err error) {
	t.mu.Lock()
	own := t.held[id]
	if own == nil {
		own = &turn{busy: make(chan struct{}, 1)}
		t.held[id] = own
	}
	own.users++
	t.mu.Unlock()
	select {
	case own.busy <- struct{}{}:
		return func() { <-own.busy; t.done(id, own) }, nil
	case <-ctx.Done():
		t.done(id, own)
		return nil, ctx.Err()
	}
}

func (t *turns) done(id string, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.held, id)
	}
}
