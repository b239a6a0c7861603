package jobdb

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// claimrule.Pool defines which runs a claim gets. The following are the parts of the statements for
// single and combined claims.

// claimed reads the runs that the claim with a given id got and that the worker still holds, with
// the remaining time of their leases, which the worker counts from this response. It omits runs
// whose lease has expired, because another worker may get them at any moment.
var claimed = `
SELECT ` + RunColumns + `, greatest(1, extract(epoch FROM r.lease_expires_at - clock_timestamp()) * 1000000)::bigint
  FROM jobs.claims k
 CROSS JOIN LATERAL unnest(k.run_ids) AS f (id)
  JOIN jobs.job_runs r ON r.id = f.id AND r.tenant_id = k.tenant_id
 WHERE k.tenant_id = $1
   AND k.worker_id = $2
   AND k.claim_id = $3
   AND r.assigned_worker_id = $2
   AND r.phase = 'HELD'
   AND r.lease_expires_at > clock_timestamp()`

const workerState = `SELECT w.state FROM jobs.workers w WHERE w.tenant_id = $1 AND w.id = $2`

// claimTries is how many times a claim may lose a concurrency key to another claim before it omits
// runs with keys.
const claimTries = 3

// Claim implements jobrun.Work (W3). A worker with several concurrent claims may exceed its maximum
// by the number of runs that they request.
func (st *Jobs) Claim(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, err
	}
	offers, err := st.claim(ctx, []jobrun.ClaimRequest{a}, settings)
	if err == nil && len(offers) == 0 {
		offers, err = st.claimedBefore(ctx, a)
	}
	if err != nil {
		return nil, postgres.Wrap("claim job runs", err)
	}
	return offers, nil
}

// tryClaim repeats a claim that has lost a concurrency key to another claim. It returns the claim's
// runs in claim order.
func tryClaim(claim func(keyless bool) ([]jobrun.Offer, error)) (offers []jobrun.Offer, err error) {
	for try := range 2 * claimTries {
		offers, err = claim(try >= claimTries)
		if !postgres.Collided(err) && postgres.SQLState(err) != postgres.UniqueViolation {
			break
		}
	}
	slices.SortFunc(offers, func(a, b jobrun.Offer) int {
		return jobrun.CompareTurns(&a.Run, &b.Run)
	})
	return offers, err
}

// claim executes claims that one claimQuery can serve.
func (st *Jobs) claim(ctx context.Context, asks []jobrun.ClaimRequest, s jobrun.Settings) ([]jobrun.Offer, error) {
	return tryClaim(func(keyless bool) ([]jobrun.Offer, error) {
		return st.claimBy(ctx, st.db.QueryWrite, asks, s, keyless)
	})
}

func (st *Jobs) claimBy(ctx context.Context, query postgres.QueryFunc,
	asks []jobrun.ClaimRequest, s jobrun.Settings, keyless bool,
) ([]jobrun.Offer, error) {
	text, args := claimQuery(asks, s, keyless)
	rows, err := query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return st.offers(ctx, rows, false)
}

// offers reads claimed runs. For a repeated claim it returns the remaining time of their leases. A
// run whose content cannot be decrypted is not offered: its worker never learns of it, so the run
// counts as lost.
func (st *Jobs) offers(ctx context.Context, rows *sql.Rows, repeated bool) (offers []jobrun.Offer, err error) {
	var left int64 // µs
	var more []any
	if repeated {
		more = []any{&left}
	}
	err = postgres.EachRow(rows, func() error {
		r, err := st.db.ScanRun(rows, more...)
		if err != nil {
			return st.db.PassOver(ctx, err)
		}
		offers = append(offers, jobrun.Offer{
			Run:            r,
			LastCheckpoint: r.Checkpoint,
			Left:           time.Duration(left) * time.Microsecond,
		})
		return nil
	})
	return offers, err
}

// claimedBefore returns, for a claim that got nothing, the runs that an earlier call of the same
// claim got, if any. Fault: Gone.
func (st *Jobs) claimedBefore(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	rows, err := st.db.QueryWrite(ctx, workerState, a.TenantID, a.WorkerID)
	if err != nil {
		return nil, err
	}
	state := jobrun.WorkerDetached
	if err := postgres.EachRow(rows, func() error { return rows.Scan(&state) }); err != nil {
		return nil, err
	}
	if state == jobrun.WorkerDetached {
		return nil, workerGone()
	}
	if a.ClaimID == "" {
		return nil, nil
	}
	if rows, err = st.db.QueryWrite(ctx, claimed, a.TenantID, a.WorkerID, a.ClaimID); err != nil {
		return nil, err
	}
	return st.offers(ctx, rows, true)
}

// workerGone returns the fault for a worker that is detached or does not exist in its tenant.
func workerGone() error {
	return fault.New(fault.Gone, jobrun.CodeWorkerGone, "this worker is detached or unknown: stop its runs and register again")
}

// claimQuery is the statement for claims of one tenant: either one claim from any queues or several
// claims from the same queue.
func claimQuery(asks []jobrun.ClaimRequest, s jobrun.Settings, keyless bool) (query string, args []any) {
	a := &asks[0]
	lease := s.Seconds(jobrun.AssignLease)
	if a.Start {
		lease = s.Seconds(jobrun.RunLease)
	}
	bounds := postgres.Values{
		s.Int(jobrun.MaxRunsPerWorker),
		s.Seconds(jobrun.HeartbeatTTL).Microseconds(),
		lease.Microseconds(),
		keyless, a.Start,
	}
	if len(a.Queues) != 1 {
		var queues *string
		if a.Queues != nil {
			queues = new(postgres.TextArray(a.Queues))
		}
		one := postgres.Values{a.TenantID, a.WorkerID, min(a.Slots, jobrun.MaxClaim), queues, a.ClaimID}
		return claimRuns.Text, claimRuns.Args(one, bounds)
	}
	var workers, claims, slots postgres.BinaryColumn
	for i := range asks {
		workers.UUID(asks[i].WorkerID)
		claims.Text(asks[i].ClaimID)
		slots.Int(int64(min(asks[i].Slots, jobrun.MaxClaim)))
	}
	several := postgres.Values{a.TenantID, workers.Parameter(), claims.Parameter(), slots.Parameter(), a.Queues[0]}
	return claimOfQueue.Text, claimOfQueue.Args(several, bounds)
}
