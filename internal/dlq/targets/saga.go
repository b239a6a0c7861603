// Package targets carries dead letters to their targets. Each file is the driver for one kind of
// target (dlq.TargetKind, redrive.Driver). A new kind requires a new file here, an entry in app,
// and a member in the contract.
package targets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Saga carries dead letters back to the sagas that are waiting for them. It is a redrive.Driver:
// the saga compensates again, and its own transitions eventually report the result for the letter.
// All fields are required.
type Saga struct {
	Sagas      saga.Store
	Letters    Letters
	Definition func(ctx context.Context, tenant uuid.UUID, name string, version int) (*workflow.Definition, error)
	Commit     func(context.Context, saga.Change) error // commits one change, like engine.Config.Commit
	Wake       func(saga.Ref)                           // wakes the engine for a saga that is due
	Now        func() time.Time
	NewID      func() uuid.UUID
	// CompensationTimeout and Budget have the same meaning as in engine.Config.
	CompensationTimeout time.Duration
	Budget              saga.Budget
}

// Letters is the part of dlq.Letters that resolves a letter.
type Letters interface {
	Get(ctx context.Context, tenant, id uuid.UUID) (dlq.Letter, error)
	Change(ctx context.Context, l dlq.Letter, by operator.Action) error
}

const (
	sagasAtOnce = 64 // maximum number of letters in a batch; their commits are grouped
	sagaTries   = 20 // maximum number of attempts for a saga that keeps changing
)

// Drive implements redrive.Driver.
func (d *Saga) Drive(ctx context.Context, batch []dlq.Drive) []dlq.Result {
	results := make([]dlq.Result, len(batch))
	var busy sync.WaitGroup
	places := make(chan struct{}, sagasAtOnce)
	for i := range batch {
		places <- struct{}{}
		busy.Go(func() {
			results[i] = d.drive(ctx, &batch[i])
			<-places
		})
	}
	busy.Wait()
	return results
}

func (d *Saga) drive(ctx context.Context, l *dlq.Drive) dlq.Result {
	r := dlq.Result{StartedAt: d.Now(), Accepted: true, Outcome: dlq.Uncertain}
	by := operator.By{Actor: l.Actor, ActorName: l.ActorName}
	err := d.apply(ctx, &l.Letter, by, nil, func(run *saga.Instance) (saga.Event, error) {
		step := run.Letters()[l.ID]
		if run.State == saga.Compensating && (step == run.CurrentStep || run.Interventions.Left[step].Again) {
			return nil, errUnderWay // another request was faster
		}
		return saga.ResumeRequested{By: l.Actor, Reason: fmt.Sprintf("retry of dead letter %s", l.ID), Step: &step}, nil
	})
	if errors.Is(err, errUnderWay) {
		err = nil
	}
	r.EndedAt = d.Now()
	switch f := fault.As(err); {
	case err == nil:
	case fault.IsCode(err, saga.CodeDefinitionUnreadable), fault.IsCode(err, saga.CodeContentUnreadable):
		r.Accepted, r.Outcome, r.Error = false, dlq.Withdrawn, f.Detail
	case errors.Is(err, errNotRead), fault.IsCode(err, dlq.CodeStale):
		r.Accepted, r.Outcome, r.Error = false, dlq.Withdrawn, "the saga cannot be reached; try again"
	case f != nil:
		r.Accepted, r.Outcome, r.Error = false, dlq.FailedDrive, f.Detail
	default:
		// It is unknown whether the saga compensates again. If it does not, the lease of the letter
		// expires, and the retry counts as lost.
		r.Error = "the commit that continues the saga has an unknown outcome"
	}
	return r
}

// UndoneByHand records that a letter's step was compensated outside of Skald. If a saga is waiting
// for the letter, it continues, and its transition resolves the letter; otherwise only the letter
// is resolved. It returns the resulting letter. Faults: Conflict if the letter is being retried or
// its saga is archived; NotFound; dlq.CodeStale if the letter keeps changing.
func (d *Saga) UndoneByHand(ctx context.Context, l dlq.Letter, by operator.By) (dlq.Letter, error) {
	action := by.Did(d.NewID(), l.TenantID, d.Now(), operator.DeadLetter, l.ID.String(), dlq.VerbResolve, nil)
	err := d.apply(ctx, &l, by, &action, func(run *saga.Instance) (saga.Event, error) {
		if run.State != saga.Failed {
			return nil, l.Conflict("resolved manually while its saga is compensating again")
		}
		return saga.StepOrdered{Step: run.Letters()[l.ID],
			Order: saga.Order{Verb: saga.UndoneStep, By: by.Actor, Reason: by.Reason}}, nil
	})
	if fault.IsCode(err, codeNotWaiting) {
		c, err := dlq.Apply(l, dlq.ResolveRequested{}, dlq.Moment{Now: d.Now()})
		if err != nil {
			return l, err
		}
		return c.After, d.Letters.Change(ctx, c.After, action)
	}
	if err != nil {
		return l, err
	}
	return d.Letters.Get(ctx, l.TenantID, l.ID)
}

// codeNotWaiting is the code of the fault for a letter that no saga is waiting for.
const codeNotWaiting = "DLQ_NO_SAGA_WAITS"

var (
	errUnderWay = errors.New("the saga is already compensating again")
	errNotRead  = errors.New("the saga cannot be read")
)

// apply applies event to the saga of a letter, and stores the result unless event returns an error.
// action is stored with it, unless nil. Faults: Conflict, possibly with codeNotWaiting;
// dlq.CodeStale. After errNotRead, nothing was written; after an error that is not a fault, the
// outcome is unknown.
func (d *Saga) apply(ctx context.Context, l *dlq.Letter, by operator.By, action *operator.Action,
	event func(*saga.Instance) (saga.Event, error)) error {
	for range sagaTries {
		run, err := d.waiting(ctx, l)
		if err != nil {
			return err
		}
		e, err := event(&run)
		if err != nil {
			return err
		}
		change, err := saga.Apply(run, e, saga.Moment{
			Now: d.Now(), NewID: d.NewID, CompensationTimeout: d.CompensationTimeout, Budget: d.Budget,
			Actor: by.Actor, ActorName: by.ActorName, RequestID: by.RequestID,
		})
		if err != nil {
			return err
		}
		change.Letter.Action = action
		switch err := d.Commit(ctx, change); {
		case err == nil:
			d.Wake(run.Ref())
			return nil
		case !fault.IsCode(err, saga.CodeStale):
			return err
		}
	}
	return fault.New(fault.Precondition, dlq.CodeStale, "saga %s keeps changing: try again", l.Link.SagaID)
}

// waiting reads the saga that is waiting for l, or is already compensating again.
func (d *Saga) waiting(ctx context.Context, l *dlq.Letter) (saga.Instance, error) {
	loaded, err := d.Sagas.Load(ctx, []saga.Ref{{Tenant: l.TenantID, ID: l.Link.SagaID}})
	if err != nil {
		return saga.Instance{}, errors.Join(errNotRead, err)
	}
	if len(loaded) == 0 {
		if s, err := d.Sagas.Get(ctx, l.TenantID, l.Link.SagaID); err == nil && s.ContentUnreadable {
			return saga.Instance{}, (&saga.Instance{Saga: s}).Unreadable()
		}
		return saga.Instance{}, fault.New(fault.Conflict, dlq.CodeConflict, "saga %s is in the archive: restore it first", l.Link.SagaID)
	}
	s := &loaded[0].Saga
	if _, waits := s.Letters()[l.ID]; !waits {
		return saga.Instance{}, fault.New(fault.Conflict, codeNotWaiting, "saga %s is %s and is not waiting for this dead letter", s.ID, s.State)
	}
	def, err := d.Definition(ctx, s.Tenant.ID, s.WorkflowName, s.WorkflowVersion)
	run, err := saga.Restored(*s, def, err, loaded[0].Logs)
	if err != nil {
		return saga.Instance{}, errors.Join(errNotRead, err)
	}
	return run, nil
}
