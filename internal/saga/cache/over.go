package cache

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Config of a cache over stores. All fields but Log are required.
type Config struct {
	Sagas     saga.Store
	Workflows workflow.Store
	Now       func() time.Time
	NewID     func() uuid.UUID
	// Timeout is the default from which the TimeoutAt of a new saga is computed when
	// neither the caller nor the workflow specifies one; 0: none.
	Timeout time.Duration
	// DefaultTenant is the server's: its sagas' calls have idempotency keys without it.
	DefaultTenant uuid.UUID
	Log           *slog.Logger // for outages that a method cannot return; nil: not logged
}

// Stored is seed 4's PostgresStore: a cache over a store.
type Stored struct{ cfg Config }

// Over returns the cache over a store.
func Over(cfg Config) *Stored {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Stored{cfg}
}

// InMemoryCache is seed 4's default: nothing survives the process.
type InMemoryCache struct {
	Stored
	// Store is where the definitions used by Put are registered, and the store of an
	// engine that is to run the sagas.
	Store *memstore.Store
}

// NewInMemory returns an empty InMemoryCache; now is its clock, nil: time.Now.
func NewInMemory(now func() time.Time) *InMemoryCache {
	if now == nil {
		now = time.Now
	}
	clock := func() time.Time { return now().UTC().Truncate(time.Microsecond) }
	m := memstore.New(clock)
	newID := func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	return &InMemoryCache{
		Stored: *Over(Config{Sagas: m.Sagas, Workflows: m.Workflows, Now: clock, NewID: newID}),
		Store:  m,
	}
}

const pageSize = 200

// GetAll implements Cache.
func (c *Stored) GetAll(ctx context.Context) []Saga {
	t, ok := tenantOf(ctx)
	if !ok {
		return nil
	}
	var out []Saga
	f := saga.Filter{
		States: []saga.State{saga.Pending, saga.Running, saga.StepCompleted, saga.Compensating},
		ByTime: page.ByTime{Limit: pageSize},
	}
	for {
		found, err := c.cfg.Sagas.List(ctx, t.ID, f)
		if err != nil {
			c.cfg.Log.WarnContext(ctx, "cannot list sagas", slog.Any("error", err))
			return nil
		}
		for i := range found.Items {
			s, err := c.view(ctx, &found.Items[i])
			if err != nil {
				c.cfg.Log.WarnContext(ctx, "cannot read step logs", slog.Any("error", err))
				return nil
			}
			out = append(out, s)
		}
		if !found.More {
			return out
		}
		last := found.Items[len(found.Items)-1]
		f.After = new(last.Place())
	}
}

// GetById implements Cache.
func (c *Stored) GetById(ctx context.Context, id uuid.UUID) (Saga, bool) { //nolint:revive // the seed's name
	t, ok := tenantOf(ctx)
	if !ok {
		return Saga{}, false
	}
	head, err := c.cfg.Sagas.Get(ctx, t.ID, id)
	if err == nil {
		var s Saga
		if s, err = c.view(ctx, &head); err == nil {
			return s, true
		}
	}
	if fault.KindOf(err) != fault.NotFound {
		c.cfg.Log.WarnContext(ctx, "cannot read a saga", slog.Any("error", err))
	}
	return Saga{}, false
}

// view turns a saga into seed 4's row. Its logs are never older than its head.
func (c *Stored) view(ctx context.Context, s *saga.Saga) (Saga, error) {
	logs, err := c.cfg.Sagas.StepLogs(ctx, s.Tenant.ID, s.ID, saga.Logs{})
	if err != nil {
		return Saga{}, err
	}
	slices.SortStableFunc(logs, func(a, b saga.StepLog) int { return a.StartedAt.Compare(b.StartedAt) })
	out := Saga{
		TransactionID: s.ID, Tenant: s.Tenant, SagaType: s.SagaType, InitiatedBy: s.InitiatedBy,
		Status:  Status(s.State.Lifecycle(s.Clean == nil || *s.Clean)),
		Data:    Data{Workflow: Workflow{s.WorkflowName, s.WorkflowVersion}, Payload: s.Payload, CurrentStep: s.CurrentStep},
		Version: s.Version, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, TimeoutAt: s.TimeoutAt,
	}
	for i := range logs {
		l := &logs[i]
		out.Data.Steps = append(out.Data.Steps, Step{l.StepIndex, l.StepName, l.Action, l.Attempt, l.Status, l.Response})
	}
	return out, nil
}

// Put implements Cache. Faults other than the conflict: Invalid when the workflow is
// unknown or disabled, or when callers may not make the change; Conflict when the
// saga's state forbids it.
func (c *Stored) Put(ctx context.Context, s Saga) error {
	t, ok := tenantOf(ctx)
	if !ok {
		return errNoTenant
	}
	if s.Version == 0 {
		return c.add(ctx, t, s)
	}
	return c.update(ctx, t, s)
}
