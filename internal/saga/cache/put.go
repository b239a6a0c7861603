package cache

import (
	"context"
	"errors"
	"log/slog"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/tenant"
)

// CodeUnsupported is the code of the fault when a Put changes what only the engine may
// change.
const CodeUnsupported = "SAGA_CHANGE_UNSUPPORTED"

// add stores a new saga, unowned: the first engine that polls runs it.
func (c *Stored) add(ctx context.Context, t tenant.Tenant, s Saga) error {
	w, err := c.cfg.Workflows.Get(ctx, t.ID, s.Data.Workflow.Name, s.Data.Workflow.Version)
	if fault.KindOf(err) == fault.NotFound {
		f := fault.As(err)
		return fault.New(fault.Invalid, f.Code, "%s", f.Detail)
	}
	if err != nil {
		return err
	}
	now := c.cfg.Now()
	spec := saga.Spec{
		ID: s.TransactionID, Tenant: t, SagaType: s.SagaType, InitiatedBy: s.InitiatedBy, Payload: s.Data.Payload,
		TenantInKeys: t.ID != c.cfg.DefaultTenant,
	}
	if err := saga.CheckPayload(spec.Payload); err != nil {
		return err
	}
	if spec.ID == uuid.Nil {
		spec.ID = c.cfg.NewID()
	}
	if s.TimeoutAt != nil {
		spec.TimeoutMS = max(s.TimeoutAt.Sub(now).Milliseconds(), 1)
	}
	n := saga.NewSaga{Saga: saga.New(spec, w.Definition, w.Version, nil, now, c.cfg.Timeout), Actor: s.InitiatedBy}
	results, err := c.cfg.Sagas.Create(ctx, []saga.NewSaga{n})
	if err != nil {
		return err
	}
	switch results[0].Created {
	case saga.Stored:
		return nil
	case saga.IDTaken:
		return c.conflict(ctx, t, spec.ID, 0)
	case saga.Unstorable:
		return fault.New(fault.Invalid, saga.CodeUnstorable, "the store cannot hold this payload")
	}
	return fault.New(fault.Conflict, "WORKFLOW_DISABLED", "workflow %q takes no new sagas", w.Name)
}

// update changes a saga that is still at the version the caller has read.
func (c *Stored) update(ctx context.Context, t tenant.Tenant, s Saga) error {
	run, err := c.run(ctx, t, s.TransactionID)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return &VersionConflictError{s.TransactionID, s.Version, 0}
		}
		return err
	}
	if run.Version != s.Version {
		return &VersionConflictError{s.TransactionID, s.Version, run.Version}
	}
	event, err := c.eventOf(run, s)
	if err != nil || event == nil {
		return err
	}
	return c.move(ctx, t, run, event)
}

// eventOf returns the event that a caller's change of a saga requests; nil: no change.
func (c *Stored) eventOf(run saga.Instance, s Saga) (saga.Event, error) {
	status := Status(run.State.Lifecycle(run.Clean == nil || *run.Clean))
	switch {
	case s.Status == Compensating && status == Active:
		return saga.CompensateRequested{By: s.InitiatedBy}, nil
	case s.Status != status:
		return nil, fault.New(fault.Invalid, CodeUnsupported, "a saga that is %s cannot be put as %s", status, s.Status)
	case s.TimeoutAt != nil && (run.TimeoutAt == nil || !s.TimeoutAt.Equal(*run.TimeoutAt)):
		left := s.TimeoutAt.Sub(c.cfg.Now())
		return saga.DeadlineSet{By: s.InitiatedBy, TimeoutMS: max(left.Milliseconds(), 1)}, nil
	}
	return nil, nil
}

// Remove implements Cache.
func (c *Stored) Remove(ctx context.Context, id uuid.UUID) bool {
	t, ok := tenantOf(ctx)
	if !ok {
		return false
	}
	for {
		run, err := c.run(ctx, t, id)
		if err == nil && run.State == saga.Completed {
			return true
		}
		if err == nil {
			err = c.move(ctx, t, run, saga.CompletionForced{By: "cache", Reason: "removed"})
		}
		var conflict *VersionConflictError
		switch {
		case err == nil:
			return true
		case errors.As(err, &conflict) && ctx.Err() == nil:
			continue // it has changed: read it again
		case fault.As(err) == nil:
			c.cfg.Log.WarnContext(ctx, "cannot remove a saga", slog.Any("error", err))
		}
		return false
	}
}

// run reads a saga of the tenant in the form that the rules need.
func (c *Stored) run(ctx context.Context, t tenant.Tenant, id uuid.UUID) (saga.Instance, error) {
	loaded, err := c.cfg.Sagas.Load(ctx, []saga.Ref{{Tenant: t.ID, ID: id}})
	if err != nil {
		return saga.Instance{}, err
	}
	if len(loaded) == 0 {
		return saga.Instance{}, saga.NotFound(id)
	}
	w, err := c.cfg.Workflows.Get(ctx, t.ID, loaded[0].Saga.WorkflowName, loaded[0].Saga.WorkflowVersion)
	if err != nil {
		return saga.Instance{}, err
	}
	return saga.Rebuild(loaded[0].Saga, w.Definition, loaded[0].Logs), nil
}

// move applies an event to a run and writes the change.
func (c *Stored) move(ctx context.Context, t tenant.Tenant, run saga.Instance, e saga.Event) error {
	change, err := saga.Apply(run, e, saga.Moment{Now: c.cfg.Now(), NewID: c.cfg.NewID, Actor: "cache"})
	if err != nil {
		return err
	}
	results, err := c.cfg.Sagas.Commit(ctx, []saga.Change{change})
	if err != nil {
		return err
	}
	if fault.IsCode(results[0], saga.CodeStale) {
		return c.conflict(ctx, t, run.ID, run.Version)
	}
	return results[0]
}

// conflict returns the conflict with a saga's current version.
func (c *Stored) conflict(ctx context.Context, t tenant.Tenant, id uuid.UUID, expected int64) error {
	now, err := c.cfg.Sagas.Get(ctx, t.ID, id)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	return &VersionConflictError{id, expected, now.Version}
}
