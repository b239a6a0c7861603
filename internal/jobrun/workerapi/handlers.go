// Package workerapi is the HTTP API for workers: the protocol with which they claim, hold and
// report runs (docs/workers.md), and operations on workers and fences.
package workerapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
)

// Handlers serves the worker protocol, and the operations on workers and fences. Every field is
// required.
type Handlers struct {
	*httpkit.Kit
	Work    jobrun.Work
	Workers jobrun.Workers
	Fences  jobrun.Fences
	// Current returns the settings cached by this node; it is called for every call of a
	// worker.
	Current func(context.Context) (jobrun.Settings, error)
	// Claim is Work.Claim, usually batched with other claims.
	Claim func(context.Context, jobrun.ClaimRequest) ([]jobrun.Offer, error)
	// Start and Finish are Work.Start and Work.Finish for one run, usually through a group commit.
	Start  func(ctx context.Context, tenant uuid.UUID, f jobrun.RunFence) (jobrun.Done, error)
	Finish func(context.Context, jobrun.Result) (jobrun.Done, error)
	// Exchange is Work.Exchange for one worker, usually through a group commit.
	Exchange func(context.Context, jobrun.Exchange) (jobrun.Exchanged, error)

	waits *jobqueue.Waits
}

// New returns handlers with capacity for maxWaiting waiting claims.
func New(h *Handlers, maxWaiting int) *Handlers {
	h.waits = jobqueue.New(maxWaiting, h.waitingLive)
	return h
}

// Admitted wakes claims that wait for a queue with new claimable runs.
func (s *Handlers) Admitted(tenant uuid.UUID, queue string) { s.waits.Admitted(tenant, queue) }
