package app

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/saga"
)

// writes is the only write path to the saga tables. It combines all creates and changes of sagas
// into group commits.
type writes struct {
	creates *groupcommit.Committer[saga.NewSaga, saga.CreateResult]
	changes *groupcommit.Committer[saga.Change, committed]
	metrics *metrics.Metrics
	told    func() // called after audit events are committed
}

// committed is the result of committing one change.
type committed struct {
	refused   error
	undoUntil *time.Time // saga.Change.After.CompensationTimeoutAt as stored
}

func newWrites(store saga.Store, batch int, m *metrics.Metrics, told func()) *writes {
	return &writes{
		metrics: m, told: told,
		creates: groupcommit.New(groupcommit.Config[saga.NewSaga, saga.CreateResult]{
			Flush: store.Create, Key: func(n saga.NewSaga) any { return n.Ref() },
			MaxBatch: batch, Observe: m.Batch("create"),
		}),
		changes: groupcommit.New(groupcommit.Config[saga.Change, committed]{
			Flush: func(ctx context.Context, batch []saga.Change) ([]committed, error) {
				refusals, err := store.Commit(ctx, batch)
				if err == nil && failpoint.Hit(failpoint.CommitUnknown) != nil {
					err = failpoint.ErrInjected // the change is committed, but the caller gets an error
				}
				results := make([]committed, len(refusals))
				for i, refused := range refusals {
					results[i] = committed{refused, batch[i].After.CompensationTimeoutAt}
				}
				return results, err
			},
			Key: func(c saga.Change) any { return c.After.Ref() }, MaxBatch: batch, Observe: m.Batch("change"),
		}),
	}
}

// Create stores one saga; see saga.Store.Create.
func (w *writes) Create(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
	if err := failpoint.Hit(failpoint.CreateBeforeTx); err != nil {
		return saga.CreateResult{}, err
	}
	r, err := w.creates.Do(ctx, n)
	if err != nil {
		return r, err
	}
	if r.Created == saga.Stored {
		w.metrics.Created()
		w.metrics.EventsWritten(1)
		w.told()
	}
	return r, failpoint.Hit(failpoint.CreateAfterCommit)
}

// Commit writes one change; see saga.Store.Commit.
func (w *writes) Commit(ctx context.Context, c saga.Change) error { return w.Drive(ctx, &c) }

// Drive is Commit for the engine, which continues with the change as stored.
func (w *writes) Drive(ctx context.Context, c *saga.Change) error {
	answer, err := w.changes.Do(ctx, *c)
	switch {
	case err != nil:
		return err
	case answer.refused != nil:
		return answer.refused
	}
	c.After.CompensationTimeoutAt = answer.undoUntil
	w.metrics.EventsWritten(len(c.Audit))
	w.told()
	return nil
}

// Act is Commit for an API request that intervenes in a saga, such as cancel.
func (w *writes) Act(ctx context.Context, c saga.Change) error {
	if err := failpoint.Hit(failpoint.CancelBefore); err != nil {
		return err
	}
	if err := w.Commit(ctx, c); err != nil {
		return err
	}
	return failpoint.Hit(failpoint.CancelAfter)
}

// Close writes what is still queued.
func (w *writes) Close() {
	w.creates.Close()
	w.changes.Close()
}
