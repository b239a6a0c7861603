package admission

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/saga"
)

// End returns when the saga has ended, the wait is over, or the server begins to stop. It returns
// the saga at its end, or nil if it has not ended or must be read separately, perhaps from the
// archive. waited is false if too many requests are already waiting. An error means that the client
// disconnected or the store is unavailable.
func (s *Service) End(
	ctx context.Context, ref saga.Ref, wait time.Duration,
) (ended *saga.Loaded, waited bool, err error) {
	w := s.watch(ref)
	defer w.Stop()
	if w == nil {
		return nil, false, nil
	}
	ended, err = s.await(ctx, w, ref, wait, false)
	return ended, true, err
}

// watch starts waiting for the end of a saga. It returns nil if too many requests are already
// waiting.
func (s *Service) watch(ref saga.Ref) *longpoll.Waiter {
	return s.Ends.Watch(longpoll.Key{Kind: longpoll.Saga, Tenant: ref.Tenant, ID: ref.ID})
}

// await is End with a waiter. fresh means that the saga was created after w began to wait.
func (s *Service) await(ctx context.Context, w *longpoll.Waiter, ref saga.Ref, wait time.Duration,
	fresh bool) (*saga.Loaded, error) {
	var read *saga.Loaded
	over := func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, s.Timeout)
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
	committed, err := w.Await(ctx, longpoll.Wait{
		For: wait, Stopping: s.Stopping, Fresh: fresh, Here: func() bool { return s.Engine.Drives(ref) },
	}, over)
	if ended, ok := committed.(*saga.Loaded); ok {
		return ended, err
	}
	return read, err
}
