package sagaapi

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/waiting"
)

// watch begins to wait for the end of a saga; nil: too many requests wait already.
func (s *Handlers) watch(ref saga.Ref) *waiting.Waiter {
	return s.Ends.Watch(waiting.Key{Kind: waiting.Saga, Tenant: ref.Tenant, ID: ref.ID})
}

// await returns when the saga has ended, the wait is over, or the server begins to stop: the saga
// as it ended, nil if it has not or must be read separately, perhaps from the archive. fresh: it
// was created after w began to wait. An error means that the client left or the store is
// unavailable.
func (s *Handlers) await(ctx context.Context, w *waiting.Waiter, ref saga.Ref, wait time.Duration,
	fresh bool) (*saga.Loaded, error) {
	var read *saga.Loaded
	over := func(ctx context.Context) (bool, error) {
		ctx, cancel := s.Bounded(ctx)
		defer cancel()
		found, err := s.Load(ctx, ref)
		if err != nil || found == nil {
			return err == nil, err
		}
		if found.Saga.State.Terminal() {
			read = found
		}
		return read != nil, nil
	}
	committed, err := s.Await(ctx, w, wait, fresh, func() bool { return s.Engine.Drives(ref) }, over)
	if ended, ok := committed.(*saga.Loaded); ok {
		return ended, err
	}
	return read, err
}
