package sagaapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga"
)

// await returns when the saga has ended, the wait is over, or the server begins to stop.
// Unless it returns the saga as it ended, the caller must read it. ended is the engine's
// notification, from Engine.Watch. An error means that the client left or the store is
// unavailable.
func (s *Handlers) await(ctx context.Context, tenant, id uuid.UUID, ended <-chan *saga.Loaded,
	wait time.Duration) (*saga.Loaded, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	interval := rest.FirstPoll
	poll := time.NewTimer(interval)
	defer poll.Stop()
	for {
		select {
		case committed := <-ended:
			return committed, nil
		case <-over.C:
			return nil, nil
		case <-s.Stopping:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-poll.C:
			terminal, err := s.terminal(ctx, tenant, id)
			if err != nil || terminal {
				return nil, err
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
