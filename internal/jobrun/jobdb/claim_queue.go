package jobdb

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
	"github.com/skald-saga/skald/internal/postgres"
)

// joined identifies the claims that are combined into one statement.
type joined struct {
	at    jobqueue.TenantQueue
	start bool
}

// ClaimEach implements jobrun.Work, with one statement per queue.
func (st *Jobs) ClaimEach(ctx context.Context, asks []jobrun.ClaimRequest) ([][]jobrun.Offer, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, err
	}
	of := map[joined][]jobrun.ClaimRequest{}
	for _, a := range asks {
		if len(a.Queues) == 1 {
			k := joined{jobqueue.TenantQueue{Tenant: a.TenantID, Queue: a.Queues[0]}, a.Start}
			of[k] = append(of[k], a)
		}
	}
	got := make(map[uuid.UUID][]jobrun.Offer, len(asks)) // by worker
	for _, group := range of {
		offers, err := st.claim(ctx, group, settings)
		if err != nil {
			return nil, postgres.Wrap("claim job runs in a batch", err)
		}
		for _, o := range offers {
			got[o.WorkerID] = append(got[o.WorkerID], o)
		}
	}
	out := make([][]jobrun.Offer, len(asks))
	for i := range asks {
		out[i] = got[asks[i].WorkerID]
	}
	return out, nil
}
