package redrive

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
)

// how is what a redrive says of the way its letters are driven.
type how struct {
	// prepare changes what is sent of a letter; its error fails it. nil: nothing.
	prepare    func(*dlq.Drive) error
	httpAtOnce int // requests at once; 0: as many as the driver makes
	// after is closed when those are sent that go before; nil: there are none.
	after <-chan struct{}
}

// drive sends claimed letters and returns what is to be stored of each, in
// order. ok is false when a failpoint has lost the outcome.
func (r *Redriver) drive(ctx context.Context, batch []dlq.Drive, as how) (ends []dlq.Finish, ok bool) {
	policies := r.policies(ctx, batch)
	release := r.hold(ctx, batch)
	if as.after != nil {
		<-as.after
	}
	results := r.send(ctx, batch, policies, as)
	release()
	if failpoint.Hit(failpoint.LetterAfterDrive) != nil {
		return nil, false
	}
	ends = make([]dlq.Finish, len(batch))
	for i := range batch {
		d, result := &batch[i], results[i]
		result.Error = dlq.Storable(result.Error, dlq.MaxError)
		outcome := result.Outcome
		if result.Accepted {
			outcome = Accepted
		}
		r.cfg.Observer.Drove(d.To.Kind, outcome)
		ends[i] = d.Finished(result, &policies[i], dlq.Moment{Now: r.cfg.Now(), Jitter: r.cfg.Jitter()})
	}
	return ends, failpoint.Hit(failpoint.LetterBeforeFinish) == nil
}

// policies returns the policy of each letter: without the database the built-in
// one, which lets records go to any topic.
func (r *Redriver) policies(ctx context.Context, batch []dlq.Drive) []dlq.Policy {
	out := make([]dlq.Policy, len(batch))
	for i := range batch {
		p, err := r.cfg.Queue.PolicyOf(ctx, batch[i].TenantID, batch[i].OriginalTopic)
		if err != nil {
			r.warn(ctx, "cannot read the policy of a topic", err)
			p = dlq.DefaultPolicy
		}
		out[i] = p
	}
	return out
}

// send hands each letter to the driver of its kind.
func (r *Redriver) send(ctx context.Context, batch []dlq.Drive, policies []dlq.Policy, as how) []dlq.Result {
	results := make([]dlq.Result, len(batch))
	byKind := map[dlq.TargetKind][]int{}
	for i := range batch {
		d := &batch[i]
		// Of a redrive of several topics nobody could say before.
		if d.RedriveID != uuid.Nil && !policies[i].AllowsDrive(&d.Letter, &d.To) {
			results[i] = r.refused("the policy of its topic does not allow the target")
			continue
		}
		if d.To.Kind == dlq.ToKafka && r.cfg.Forbidden(d.To.Topic) {
			results[i] = r.refused(fmt.Sprintf("nothing is driven to the topic %q: what is written there comes back as a dead letter", d.To.Topic))
			continue
		}
		if d.Revision == 0 && slices.Contains(d.Labels, dlq.LabelTruncated) {
			results[i] = r.refused("only a part of its payload is kept: retry it with the whole payload")
			continue
		}
		if as.prepare != nil {
			if err := as.prepare(d); err != nil {
				results[i] = r.refused(err.Error())
				continue
			}
		}
		byKind[d.To.Kind] = append(byKind[d.To.Kind], i)
	}
	var sending sync.WaitGroup
	for kind, members := range byKind {
		atOnce := len(members)
		if kind == dlq.ToHTTP && as.httpAtOnce > 0 {
			atOnce = as.httpAtOnce
		}
		sending.Go(func() {
			for some := range slices.Chunk(members, atOnce) {
				for i, result := range r.sendTo(ctx, kind, batch, some) {
					results[some[i]] = result
				}
			}
		})
	}
	sending.Wait()
	return results
}

func (r *Redriver) sendTo(ctx context.Context, kind dlq.TargetKind, batch []dlq.Drive, members []int) []dlq.Result {
	drives := make([]dlq.Drive, len(members))
	for i, m := range members {
		drives[i] = batch[m]
	}
	if driver := r.cfg.Drivers[kind]; driver != nil {
		return driver.Drive(ctx, drives)
	}
	// Only after a claim of a kind that nobody asked for.
	out := make([]dlq.Result, len(members))
	for i := range out {
		now := r.cfg.Now()
		out[i] = dlq.Result{Outcome: dlq.Withdrawn, Error: "there is no way to targets of kind " + string(kind), StartedAt: now, EndedAt: now}
	}
	return out
}

func (r *Redriver) refused(why string) dlq.Result {
	now := r.cfg.Now()
	return dlq.Result{Outcome: dlq.FailedDrive, Error: why, StartedAt: now, EndedAt: now}
}

// hold prolongs the leases of a batch until release is called, which waits for
// it to have stopped.
func (r *Redriver) hold(ctx context.Context, batch []dlq.Drive) (release func()) {
	tokens := make([]uuid.UUID, len(batch))
	for i := range batch {
		tokens[i] = batch[i].Token
	}
	holding, stop := context.WithCancel(ctx)
	var holder sync.WaitGroup
	holder.Go(func() {
		t := time.NewTicker(max(r.cfg.Lease/3, time.Second))
		defer t.Stop()
		for {
			select {
			case <-holding.Done():
				return
			case <-t.C:
			}
			held, err := r.cfg.Queue.Extend(holding, tokens, r.cfg.Lease)
			if err != nil {
				r.warn(holding, "cannot prolong the leases of dead letters", err)
			} else if len(held) < len(tokens) {
				r.cfg.Log.InfoContext(ctx, "dead letters lost while they were driven", slog.Int("count", len(tokens)-len(held)))
				tokens = held
			}
		}
	})
	return func() { stop(); holder.Wait() }
}

// storeAgain are the waits between tries to store what cannot be found out again.
var storeAgain = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}

// store calls f until it works, a few times. When it does not, the leases end
// and the letters are driven once more.
func (r *Redriver) store(ctx context.Context, f func(context.Context) error) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	defer cancel()
	for try := 0; ; try++ {
		err := f(call)
		if err == nil || try == len(storeAgain) || call.Err() != nil {
			return err
		}
		pause(call, nil, storeAgain[try])
	}
}

// settled is what there is to store: not of letters whose target tells later.
func settled(ends []dlq.Finish) []dlq.Finish {
	out := ends[:0:0]
	for i := range ends {
		if ends[i].Status != dlq.Retrying {
			out = append(out, ends[i])
		}
	}
	return out
}
