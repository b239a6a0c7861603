package jobdb

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
	"github.com/skald-saga/skald/internal/postgres"
)

// exchanges are exchanges of different workers of one tenant whose claims one claimQuery serves.
type exchanges struct {
	all     []*jobrun.Exchange
	results []jobrun.Result // of all exchanges
	of      []int           // of[i] is the exchange of results[i]
	done    []jobrun.Done
	settled []bool // which results have their answer in done
	claimed []bool // which exchanges have made their claims
}

// Exchange implements jobrun.Work.
func (st *Jobs) Exchange(ctx context.Context, all []jobrun.Exchange) ([]jobrun.Exchanged, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]jobrun.Exchanged, len(all))
	for _, places := range alike(all) {
		x := newExchanges(all, places)
		offers, err := st.exchange(ctx, x, settings)
		if err != nil {
			return nil, fmt.Errorf("exchange job runs: %w", err)
		}
		mine := make(map[uuid.UUID]int, len(places))
		for _, i := range places {
			mine[all[i].Claim.WorkerID] = i
		}
		for _, o := range offers {
			to := &out[mine[o.WorkerID]]
			to.Offers = append(to.Offers, o)
		}
		for n, of := range x.of {
			to := &out[places[of]]
			to.Done = append(to.Done, x.done[n])
		}
	}
	return out, nil
}

// alike groups the indexes of exchanges that can be executed together. An exchange whose claim is
// not for a single queue forms its own group.
func alike(all []jobrun.Exchange) (groups [][]int) {
	of := map[jobqueue.TenantQueue]int{}
	for i := range all {
		a := &all[i].Claim
		if len(a.Queues) != 1 {
			groups = append(groups, []int{i})
			continue
		}
		at := jobqueue.TenantQueue{Tenant: a.TenantID, Queue: a.Queues[0]}
		n, known := of[at]
		if !known {
			n = len(groups)
			of[at], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}

func newExchanges(all []jobrun.Exchange, places []int) *exchanges {
	x := &exchanges{claimed: make([]bool, len(places))}
	for n, i := range places {
		x.all = append(x.all, &all[i])
		for _, r := range all[i].Results {
			x.results, x.of = append(x.results, r), append(x.of, n)
		}
	}
	x.done, x.settled = make([]jobrun.Done, len(x.results)), make([]bool, len(x.results))
	return x
}

// exchange stores the results, and then claims and starts runs. Each result with consequences takes
// its own transaction, which frees the worker's slot and the concurrency key before the claim.
// Plain successes and the claims share one transaction. A worker with a result that is not among
// them claims after that result is settled.
func (st *Jobs) exchange(ctx context.Context, x *exchanges, s jobrun.Settings) ([]jobrun.Offer, error) {
	plain := successes(x.results)
	for _, i := range plain {
		x.settled[i] = true // settled below
	}
	if err := st.settle(ctx, x); err != nil {
		return nil, err
	}
	freed := false
	offers, err := tryClaim(func(keyless bool) (offers []jobrun.Offer, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			query := st.db.QueryFuncIn(tx)
			if freed, err = st.succeed(ctx, query, x.results, plain, x.done, x.settled); err != nil {
				return err
			}
			if asks := x.ready(); len(asks) > 0 {
				offers, err = st.claimBy(ctx, query, asks, s, keyless)
			}
			return err
		})
		return offers, err
	})
	switch {
	case err == nil:
		st.ended(x.results, plain, x.settled, freed)
	case !postgres.DataError(err):
		return nil, err
	default: // nothing was written; store them one by one to find the row that cannot be stored
		for _, i := range plain {
			x.settled[i] = false
		}
		clear(x.claimed)
		offers = nil
	}
	if err := st.settle(ctx, x); err != nil {
		return nil, err
	}
	rest := x.unclaimed()
	if len(rest) == 0 {
		return offers, nil
	}
	more, err := st.claim(ctx, rest, s)
	return append(offers, more...), err
}

// settle ends the runs whose results are not settled yet, one by one.
func (st *Jobs) settle(ctx context.Context, x *exchanges) (err error) {
	for i := range x.results {
		if x.settled[i] {
			continue
		}
		if x.done[i], err = st.finishOne(ctx, &x.results[i]); err != nil {
			return err
		}
		x.settled[i] = true
	}
	return nil
}

// ready returns the claims of workers whose results are all settled, and marks these claims as
// made.
func (x *exchanges) ready() (asks []jobrun.ClaimRequest) {
	for n := range x.claimed {
		x.claimed[n] = true
	}
	for i, settled := range x.settled {
		if !settled {
			x.claimed[x.of[i]] = false
		}
	}
	for n, now := range x.claimed {
		if now {
			asks = append(asks, x.all[n].Claim)
		}
	}
	return asks
}

// unclaimed returns the claims that have not been made.
func (x *exchanges) unclaimed() (asks []jobrun.ClaimRequest) {
	for n, made := range x.claimed {
		if !made {
			asks = append(asks, x.all[n].Claim)
		}
	}
	return asks
}
