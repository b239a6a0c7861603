package app

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// joinSteps makes sagas wait for job runs. The transaction that ends a run advances its saga;
// afterwards joinSteps notifies this node's engine and the clients that wait for the saga.
func (n *node) joinSteps() {
	if n.jobStores == nil {
		return
	}
	n.jobStores.joinSteps(sagadb.JobSteps{
		Settings: n.jobStores.current, CompensationTimeout: n.cfg.Engine.DefaultCompensationTimeout,
		Budget: budget(n.cfg.Limits),
		Moved: func(s saga.Saga) {
			n.engine.Moved(s)
			n.tail.Wake()
		},
		Acted: func(s saga.Saga) {
			n.engine.Moved(s)
			n.engine.Wake(s.Ref())
			n.tail.Wake()
		},
	})
}

// checkJobRuns returns engine.Config.CheckJobRun, nil without job runs.
func (n *node) checkJobRuns() func(context.Context, saga.JobCall) (*saga.Outcome, error) {
	if n.jobStores == nil {
		return nil
	}
	return func(ctx context.Context, c saga.JobCall) (*saga.Outcome, error) {
		return n.jobStores.checkJobRun(ctx, c, n.cancelRun)
	}
}

// cancelRun cancels a run on behalf of the saga that waits for it.
func (n *node) cancelRun(ctx context.Context, tenant, run uuid.UUID, reason string) error {
	by := operator.By{Actor: "skald", Reason: reason}
	_, err := n.jobStores.runs.Cancel(
		ctx,
		tenant,
		run,
		false,
		by.Did(newID(), tenant, n.now(), operator.JobRun, run.String(), "cancel", nil),
	)
	return err
}

// budget returns the size limits of a saga and of its requests.
func budget(l config.Limits) saga.Budget {
	return saga.Budget{Saga: l.MaxSagaBytes, Request: l.MaxRequestBytes}
}

// sagaBulks returns nil if no leader would execute bulk operations.
func (n *node) sagaBulks() sagabulk.Store {
	if n.jobStores == nil {
		return nil
	}
	return n.jobStores.sagaBulks
}
