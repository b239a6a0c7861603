package jobdb

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobnotify"
	"github.com/skald-saga/skald/internal/postgres"
)

// claimOfQueue assigns runs of one queue to workers that are alike:
// to those with the labels and commands of the first who may have any, the
// others get nothing. The seats of all are numbered in turns, and the runs that
// come to the front are given out to them in order.
var claimOfQueue = postgres.Named(claimEpoch+`, alone AS MATERIALIZED (
	SELECT `+lockClaim("k.worker", "k.claim_id")+` FROM unnest((SELECT @workers::uuid[]), @claims::text[]) AS k (worker, claim_id)
), w AS MATERIALIZED (
	SELECT w.id, k.claim_id, w.labels, w.commands, `+roomOf("k.worker", "k.slots")+`
	  FROM unnest((SELECT @workers::uuid[]), @claims::text[], @slots::bigint[]) AS k (worker, claim_id, slots)
	 CROSS JOIN LATERAL (
		SELECT w.id, w.labels, w.commands, w.max_runs FROM jobs.workers w
		 WHERE `+mayClaim("k.worker")+`
		   AND @queue = ANY (w.queues) OFFSET 0) AS w
	 WHERE EXISTS (SELECT FROM e) AND (SELECT count(*) FROM alone) > 0 AND `+unanswered("c", "k.worker", "k.claim_id")+`
), q AS MATERIALIZED (
	SELECT @queue AS queue, w.labels, w.commands FROM w WHERE w.room > 0 LIMIT 1
), seats AS MATERIALIZED (
	SELECT array_agg(w.id ORDER BY s.n, w.id) AS workers, count(*) AS n
	  FROM q CROSS JOIN w CROSS JOIN LATERAL generate_series(1, w.room) AS s (n)
	 WHERE w.labels = q.labels AND w.commands = q.commands
), locked AS MATERIALIZED (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM q CROSS JOIN LATERAL (`+claimable+` LIMIT (SELECT s.n FROM seats s) FOR NO KEY UPDATE OF r SKIP LOCKED) AS r
), numbered AS MATERIALIZED (
	SELECT l.id, row_number() OVER (ORDER BY l.priority DESC, l.scheduled_for, l.id) AS seat FROM (`+firstOfKeys+`) AS l
	 WHERE l.concurrency_key IS NULL OR l.nth = 1
), chosen AS MATERIALIZED (
	SELECT n.id, s.workers[n.seat] AS worker FROM numbered n CROSS JOIN seats s
)`+assignChosen, postgres.Single("tenant", "workers", "claims", "slots", "queue"), claimBounds)

// ClaimEach implements jobrun.Work: one statement for the claims of each queue.
func (st *Jobs) ClaimEach(ctx context.Context, asks []jobrun.ClaimRequest) ([][]jobrun.Offer, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, err
	}
	of := map[jobnotify.TenantQueue][]jobrun.ClaimRequest{}
	for _, a := range asks {
		if len(a.Queues) == 1 && !a.Start {
			at := jobnotify.TenantQueue{Tenant: a.TenantID, Queue: a.Queues[0]}
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
			return nil, postgres.Outage("claim job runs together", err)
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
