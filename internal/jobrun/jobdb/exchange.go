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

// exchanges are exchanges of different workers, of one tenant, whose claims one claimQuery serves.
type exchanges struct {
	all     []*jobrun.Exchange
	results []jobrun.Result // of all
	of      []int           // whose each result is
	done    []jobrun.Done
	settled []bool // which results are answered in done
	claimed []bool // whose claims are made
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

// alike groups the places of exchanges that can be made together. One whose claim is not from a single
// queue is alone.
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

// exchange stores the results, and then claims and starts runs. Results with consequences take a
// transaction each, and so free their workers' slots and their keys before the claim. Plain successes
// and the claims are one transaction; a worker of which a result was not among them claims after it is
// settled.
func (st *Jobs) exchange(ctx context.Context, x *exchanges, s jobrun.Settings) ([]jobrun.Offer, error) {
	plain := successes(x.results)
	for _, i := range plain {
		x.settled[i] = true // below
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
	default: // nothing was written; one by one, to find the row that cannot be stored
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

// settle ends runs one by one whose results are not settled.
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

// ready returns the claims of workers whose results are all settled, and notes that they are made.
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

// unclaimed returns the claims that are not made.
func (x *exchanges) unclaimed() (asks []jobrun.ClaimRequest) {
	for n, made := range x.claimed {
		if !made {
			asks = append(asks, x.all[n].Claim)
		}
	}
	return asks
}
