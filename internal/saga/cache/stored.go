package cache

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

// Stored is seed 4's PostgresStore, a cache on top of stores. Timeout is the default for new sagas;
// 0 means none.
type Stored struct {
	Sagas     saga.Store
	Workflows workflow.Store
	Now       func() time.Time
	Timeout   time.Duration
	Log       *slog.Logger
}

// GetAll implements Cache.
func (c *Stored) GetAll(ctx context.Context) (all []Saga) {
	f := saga.Filter{ByTime: page.ByTime{Limit: 200},
		States: []saga.State{saga.Pending, saga.Running, saga.StepCompleted, saga.Compensating}}
	t, err := tenantOf(ctx)
	for more := err == nil; more; {
		found, err := c.Sagas.List(ctx, t.ID, f)
		for i := 0; err == nil && i < len(found.Items); i++ {
			var s Saga
			s, err = c.view(ctx, &found.Items[i])
			all, f.After = append(all, s), new(found.Items[i].Place())
		}
		if err != nil {
			c.Log.WarnContext(ctx, "cannot list sagas", slog.Any("error", err))
			return nil
		}
		more = found.More
	}
	return all
}

// tenantOf returns the tenant of a call. Without a tenant there are no sagas.
func tenantOf(ctx context.Context) (t tenant.Tenant, err error) {
	t, ok := ctx.Value(tenantKey{}).(tenant.Tenant)
	if !ok {
		err = errors.New("the context has no tenant: see WithTenant")
	}
	return t, err
}

// GetById implements Cache.
func (c *Stored) GetById(ctx context.Context, id uuid.UUID) (s Saga, found bool) { //nolint:revive // the seed's name
	t, err := tenantOf(ctx)
	var head saga.Saga
	if err == nil {
		head, err = c.Sagas.Get(ctx, t.ID, id)
	}
	if err == nil {
		s, err = c.view(ctx, &head)
	}
	if err != nil && fault.KindOf(err) != fault.NotFound {
		c.Log.WarnContext(ctx, "cannot read a saga", slog.Any("error", err))
	}
	return s, err == nil
}

// view converts a saga to seed 4's row. Its logs are never older than its head.
func (c *Stored) view(ctx context.Context, s *saga.Saga) (Saga, error) {
	logs, err := c.Sagas.StepLogs(ctx, s.Tenant.ID, s.ID, saga.Logs{})
	slices.SortStableFunc(logs, func(a, b saga.StepLog) int { return a.StartedAt.Compare(b.StartedAt) })
	return Saga{
		TransactionID: s.ID, Tenant: s.Tenant, SagaType: s.SagaType, InitiatedBy: s.InitiatedBy, Status: statusOf(s),
		Data:    Data{Workflow{s.WorkflowName, s.WorkflowVersion}, s.Payload, s.CurrentStep, logs},
		Version: s.Version, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, TimeoutAt: s.TimeoutAt,
	}, err
}

func statusOf(s *saga.Saga) Status { return Status(s.State.Lifecycle(s.Clean == nil || *s.Clean)) }

// Put implements Cache.
func (c *Stored) Put(ctx context.Context, s Saga) error {
	if s.Version == 0 {
		if taken, err := c.add(ctx, &s); !taken {
			return err
		}
	}
	err := c.change(ctx, s.TransactionID, func(run saga.Instance) (saga.Event, error) {
		switch status := statusOf(&run.Saga); {
		case run.Version != s.Version:
			return nil, &VersionConflictError{run.ID, s.Version, run.Version}
		case s.Status == Compensating && status == Active:
			return saga.CompensateRequested{By: s.InitiatedBy}, nil
		case s.Status != status:
			return nil, fault.New(fault.Invalid, "SAGA_CHANGE_UNSUPPORTED", "Put cannot change a saga from %s to %s", status, s.Status)
		case s.TimeoutAt != nil && (run.TimeoutAt == nil || !s.TimeoutAt.Equal(*run.TimeoutAt)):
			return saga.DeadlineSet{By: s.InitiatedBy, TimeoutMS: c.left(&s)}, nil
		}
		return nil, nil
	})
	if fault.KindOf(err) == fault.NotFound {
		return &VersionConflictError{s.TransactionID, s.Version, 0}
	}
	return err
}

// left returns the time in milliseconds until the saga's deadline, or 0 if it has none.
func (c *Stored) left(s *Saga) int64 {
	if s.TimeoutAt == nil {
		return 0
	}
	return max(s.TimeoutAt.Sub(c.Now()).Milliseconds(), 1)
}

// add stores a new, unowned saga. The first engine that polls runs it.
func (c *Stored) add(ctx context.Context, s *Saga) (taken bool, err error) {
	t, err := tenantOf(ctx)
	if err != nil {
		return false, err
	}
	w, err := c.Workflows.Get(ctx, t.ID, s.Data.Workflow.Name, s.Data.Workflow.Version)
	if f := fault.As(err); f != nil && f.Kind == fault.NotFound {
		return false, fault.New(fault.Invalid, f.Code, "%s", f.Detail)
	}
	if err = cmp.Or(err, saga.CheckPayload(s.Data.Payload)); err != nil {
		return false, err
	}
	if s.TransactionID == uuid.Nil {
		s.TransactionID = newID()
	}
	spec := saga.Spec{ID: s.TransactionID, Tenant: t, SagaType: s.SagaType, InitiatedBy: s.InitiatedBy,
		Payload: s.Data.Payload, TenantInKeys: true, TimeoutMS: c.left(s)}
	fresh := saga.New(spec, w.Definition, w.Version, nil, c.Now(), c.Timeout)
	results, err := c.Sagas.Create(ctx, []saga.NewSaga{{Saga: fresh, Actor: s.InitiatedBy}})
	switch {
	case err != nil:
		return false, err
	case results[0].Created == saga.Unstorable:
		return false, fault.New(fault.Invalid, saga.CodeUnstorable, "the store cannot hold this payload")
	case results[0].Created == saga.NotRunnable:
		return false, fault.New(fault.Conflict, "WORKFLOW_DISABLED", "workflow %q accepts no new sagas", w.Name)
	}
	return results[0].Created == saga.IDTaken, nil
}

// Remove implements Cache.
func (c *Stored) Remove(ctx context.Context, id uuid.UUID) bool {
	err := c.change(ctx, id, func(run saga.Instance) (saga.Event, error) {
		if run.State == saga.Completed {
			return nil, nil
		}
		return saga.CompletionForced{By: "cache", Reason: "removed"}, nil
	})
	if err != nil && fault.As(err) == nil {
		c.Log.WarnContext(ctx, "cannot remove a saga", slog.Any("error", err))
	}
	return err == nil
}

// change writes the event that decide chooses, if any, and calls decide again if the saga has
// changed in the meantime.
func (c *Stored) change(ctx context.Context, id uuid.UUID, decide func(saga.Instance) (saga.Event, error)) error {
	t, err := tenantOf(ctx)
	for err == nil {
		var loaded []saga.Loaded
		loaded, err = c.Sagas.Load(ctx, []saga.Ref{{Tenant: t.ID, ID: id}})
		if err != nil || len(loaded) == 0 {
			return cmp.Or(err, error(saga.NotFound(id)))
		}
		s := loaded[0].Saga
		w, err := c.Workflows.Get(ctx, t.ID, s.WorkflowName, s.WorkflowVersion)
		if err != nil {
			return err
		}
		run := saga.Rebuild(s, w.Definition, loaded[0].Logs)
		event, err := decide(run)
		if err != nil || event == nil {
			return err
		}
		change, err := saga.Apply(run, event, saga.Moment{Now: c.Now(), NewID: newID, Actor: "cache"})
		if err != nil {
			return err
		}
		results, err := c.Sagas.Commit(ctx, []saga.Change{change})
		if err != nil || !fault.IsCode(results[0], saga.CodeStale) {
			return cmp.Or(err, results[0])
		}
	}
	return err
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
