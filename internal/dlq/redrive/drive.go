package redrive

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// driveOptions are a redrive's settings for driving its letters.
type driveOptions struct {
	// prepare changes what is sent for a letter. If it returns an error, the letter fails. nil
	// means no change.
	prepare    func(*dlq.Drive) error
	httpAtOnce int // maximum number of concurrent requests; 0: the driver's limit
	// after is closed when the previous batch has been sent; nil means that there is none.
	after    <-chan struct{}
	claimed  time.Time // time before the claim was sent
	redrive  uuid.UUID // the redrive that the letters belong to; zero: none
	byHand   bool      // a person is waiting for the response
	progress *progress // counts results as they arrive; nil: not counted
}

// drive sends claimed letters and returns the result to store for each, in order. ok is false if a
// failpoint has lost the outcome.
func (r *Redriver) drive(ctx context.Context, batch []dlq.Drive, as driveOptions) (ends []dlq.Finish, ok bool) {
	policies := r.policies(ctx, batch)
	held := r.hold(ctx, batch, as.claimed)
	if as.after != nil {
		<-as.after
	}
	d := &handoverBatch{r: r, batch: batch, held: held, redrive: as.redrive, byHand: as.byHand, progress: as.progress,
		passed: make([]uuid.UUID, len(batch))}
	results := r.send(ctx, d, policies, as)
	held.stop()
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
		end, err := d.Finished(result, &policies[i], dlq.Moment{Now: r.cfg.Now(), Jitter: r.cfg.Jitter()})
		if err != nil {
			r.warn(ctx, "cannot determine the outcome of a retry", err, slog.String("message_id", d.ID.String()))
		}
		ends[i] = end
	}
	d.settle(ends)
	return ends, failpoint.Hit(failpoint.LetterBeforeFinish) == nil
}

// policies returns the policy of each letter and sets the headers that it keeps. If the database
// fails, it uses the built-in policy, which allows any topic.
func (r *Redriver) policies(ctx context.Context, batch []dlq.Drive) []dlq.Policy {
	out := make([]dlq.Policy, len(batch))
	for i := range batch {
		p, err := r.cfg.Queue.PolicyOf(ctx, batch[i].TenantID, batch[i].OriginalTopic)
		if err != nil {
			r.warn(ctx, "cannot read the policy of a topic", err)
			p = dlq.DefaultPolicy
		}
		out[i] = p
		batch[i].KeepHeaders = p.KeepHeaders
	}
	return out
}

// send passes each letter to the driver for its kind of target.
func (r *Redriver) send(ctx context.Context, at *handoverBatch, policies []dlq.Policy, as driveOptions) []dlq.Result {
	batch := at.batch
	results := make([]dlq.Result, len(batch))
	byKind := map[dlq.TargetKind][]int{}
	routes := r.Routes()
	for i := range batch {
		d := &batch[i]
		if no := routes.Refuses(d, &policies[i]); no != nil {
			results[i] = r.refused(no.String())
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
		atOnce := 0 // no limit
		if limited, ok := r.cfg.Drivers[kind].(interface{ AtOnce() int }); ok {
			atOnce = limited.AtOnce()
			if as.httpAtOnce > 0 {
				atOnce = min(atOnce, as.httpAtOnce)
			}
		}
		sending.Go(func() {
			if atOnce == 0 {
				r.sendTogether(ctx, at, kind, members, results)
			} else {
				r.sendInTurn(ctx, at, kind, members, atOnce, results)
			}
		})
	}
	sending.Wait()
	return results
}

// sendTogether hands over and sends all letters at once.
func (r *Redriver) sendTogether(ctx context.Context, at *handoverBatch, kind dlq.TargetKind, members []int,
	results []dlq.Result) {
	allowed, why := at.handOver(ctx, members)
	for i, result := range r.sendTo(ctx, kind, at, allowed) {
		results[allowed[i]] = result
	}
	if len(allowed) == len(members) {
		return
	}
	for _, i := range members {
		if !slices.Contains(allowed, i) {
			results[i] = r.withdrawn(why)
		}
	}
}

// sendInTurn hands over and sends letters, at most atOnce at a time. If the node dies or the
// redrive is stopped, letters that have not been handed over are not sent. Letters that are waiting
// at the same time are handed over together.
func (r *Redriver) sendInTurn(ctx context.Context, at *handoverBatch, kind dlq.TargetKind, members []int, atOnce int,
	results []dlq.Result) {
	handovers := groupcommit.New(groupcommit.Config[int, string]{
		Key: func(i int) any { return i }, MaxBatch: len(members),
		Flush: func(_ context.Context, turns []int) ([]string, error) { return at.pass(ctx, turns), nil },
	})
	defer handovers.Close()
	next := make(chan int)
	var places sync.WaitGroup
	for range min(atOnce, len(members)) {
		places.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					results[i] = r.withdrawn("the node stopped before the letter was sent")
				} else if at.paused(i) {
					results[i] = r.withdrawn(notYet)
				} else if turn, waits := r.turn(ctx, at, i); waits != nil {
					results[i] = *waits
				} else {
					if why, err := handovers.Do(context.WithoutCancel(ctx), i); err != nil {
						results[i] = r.withdrawn(notNoted)
					} else if why != "" {
						results[i] = r.withdrawn(why)
					} else {
						results[i] = r.sendTo(ctx, kind, at, []int{i})[0]
						at.heard(i, &results[i])
					}
					turn.Left(heardOf(&results[i]))
				}
			}
		})
	}
	for _, i := range members {
		next <- i
	}
	close(next)
	places.Wait()
}

func (r *Redriver) sendTo(ctx context.Context, kind dlq.TargetKind, at *handoverBatch, members []int) []dlq.Result {
	if len(members) == 0 {
		return nil
	}
	drives := make([]dlq.Drive, len(members))
	for i, m := range members {
		drives[i] = at.batch[m]
	}
	if driver := r.cfg.Drivers[kind]; driver != nil {
		results := driver.Drive(ctx, drives)
		at.progress.add(results)
		return results
	}
	// This is reached only if a kind was claimed for which this node has no driver.
	out := make([]dlq.Result, len(members))
	for i := range out {
		out[i] = r.withdrawn(dlq.TargetNotConfigured(kind))
	}
	return out
}

// turn asks the gate of a letter's target whether the call may be made; result is not nil if it
// must not.
func (r *Redriver) turn(ctx context.Context, at *handoverBatch, i int) (t registry.Turn, result *dlq.Result) {
	d := &at.batch[i]
	if r.cfg.Gate == nil || d.To.Kind != dlq.ToHTTP {
		return t, nil
	}
	if at.byHand {
		if p := r.cfg.Gate.Held(d.TenantID, d.To.URL); p != nil {
			held := r.withdrawn(p.WaitsAt(r.cfg.Now()))
			held.Fault = fault.New(fault.Conflict, dlq.CodeTargetHeld, "%s", held.Error)
			return t, &held
		}
	}
	c := registry.Caller{TenantID: d.TenantID, Kind: registry.Letter, ID: d.ID}
	if at.redrive != uuid.Nil {
		c.Kind, c.Redrive = registry.Item, at.redrive
	}
	for until := time.Now().Add(busyFor); ; {
		t = r.cfg.Gate.Turn(ctx, c, d.To.URL)
		switch {
		case t.Waits != nil:
			waits := r.withdrawn(t.Waits.WaitsAt(r.cfg.Now()))
			if at.redrive == uuid.Nil {
				waits.RetryAfter = farLook(r.cfg.Jitter())
			}
			return t, &waits
		case t.Busy == 0:
			return t, nil
		case !time.Now().Add(t.Busy).Before(until) || !loop.Sleep(ctx, t.Busy):
			busy := r.withdrawn("the target's participant already had its maximum number of calls in flight")
			if at.redrive == uuid.Nil {
				busy.RetryAfter = t.Busy
			}
			return t, &busy
		}
	}
}

func (r *Redriver) withdrawn(why string) dlq.Result {
	now := r.cfg.Now()
	return dlq.Result{Outcome: dlq.Withdrawn, Error: why, StartedAt: now, EndedAt: now}
}

func (r *Redriver) refused(why string) dlq.Result {
	now := r.cfg.Now()
	return dlq.Result{Outcome: dlq.FailedDrive, Error: why, StartedAt: now, EndedAt: now}
}

// storeRetryWaits are the waits between attempts to store results, which cannot be obtained again.
var storeRetryWaits = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}

// store calls f until it succeeds, at most a few times. If it keeps failing, the leases expire and
// the letters are driven once more.
func (r *Redriver) store(ctx context.Context, f func(context.Context) error) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	defer cancel()
	for try := 0; ; try++ {
		err := f(call)
		if err == nil || try == len(storeRetryWaits) || call.Err() != nil {
			return err
		}
		loop.Sleep(call, loop.Jittered(storeRetryWaits[try]))
	}
}

// settled returns the results to store, which are all except those of targets that report later.
func settled(ends []dlq.Finish) []dlq.Finish {
	out := ends[:0:0]
	for i := range ends {
		if ends[i].Status != dlq.Retrying {
			out = append(out, ends[i])
		}
	}
	return out
}
