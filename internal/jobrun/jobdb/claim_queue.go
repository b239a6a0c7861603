package jobdb

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
	"github.com/skald-saga/skald/internal/postgres"
)

// ClaimEach implements jobrun.Work, with one statement per queue.
func (st *Jobs) ClaimEach(ctx context.Context, asks []jobrun.ClaimRequest) ([][]jobrun.Offer, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, err
	}
	of := map[jobqueue.TenantQueue][]jobrun.ClaimRequest{}
	for _, a := range asks {
		if len(a.Queues) == 1 && !a.Start {
			at := jobqueue.TenantQueue{Tenant: a.TenantID, Queue: a.Queues[0]}
			of[at] = append(of[at], a)
		}
	}
	got := make(map[uuid.UUID][]jobrun.Offer, len(asks)) // by worker
	for _, group := range of {
		offers, err := tryClaim(func(keyless bool) ([]jobrun.Offer, error) {
			query, args := claimQuery(group, settings, keyless)
			rows, err := st.db.QueryWrite(ctx, query, args...)
			if err != nil {
				return nil, err
			}
			return st.offers(ctx, rows, false)
		})
		if err != nil {
			return nil, postgres.Wrap("claim job runs together", err)
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
