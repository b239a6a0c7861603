package sagaapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/rest"
)

// await returns when the saga has ended, the wait is over, or the server begins to stop;
// the caller must then read the saga's state. ended is the engine's notification, from
// Engine.Watch. An error means that the client left or the store is unavailable.
func (s *Handlers) await(ctx context.Context, tenant, id uuid.UUID, ended <-chan struct{}, wait time.Duration) error {
	over := time.NewTimer(wait)
	defer over.Stop()
	interval := rest.FirstPoll
	poll := time.NewTimer(interval)
	defer poll.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-over.C:
			return nil
		case <-s.Stopping:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
			terminal, err := s.terminal(ctx, tenant, id)
			if err != nil || terminal {
				return err
			}
			interval = min(2*interval, rest.LastPoll)
			poll.Reset(interval)
		}
	}
}

// terminal reports whether a saga has ended; one that was archived meanwhile has.
func (s *Handlers) terminal(ctx context.Context, tenant, id uuid.UUID) (bool, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	sg, err := s.Store.Get(ctx, tenant, id)
	if fault.KindOf(err) == fault.NotFound {
		return true, nil
	}
	return err == nil && sg.State.Terminal(), err
}
