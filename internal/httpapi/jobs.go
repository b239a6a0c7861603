package httpapi

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// Jobs contains the HTTP edge's dependencies on job runs.
type Jobs struct {
	Definitions jobrun.Definitions
	Runs        jobrun.Runs
	Bulks       jobrun.BulkOperations
	Events      jobrun.Events
	Work        jobrun.Work
	Workers     jobrun.Workers
	Queues      jobrun.Queues
	Fences      jobrun.Fences
	Elections   jobrun.Elections
	Settings    jobrun.SettingsStore
	// Current returns this node's copy of the settings; it is called for every request of a
	// worker.
	Current func(context.Context) (jobrun.Settings, error)
	// Now returns the store's time, which determines when runs are due, because the clocks of nodes
	// differ. If nil, the edge's clock is used.
	Now func(context.Context) (time.Time, error)
	// Claim is the method of Work, usually batched with other claims. If nil, Work is called directly.
	Claim func(context.Context, jobrun.ClaimRequest) ([]jobrun.Offer, error)
	// Start and Finish are the methods of Work for one run, usually through a group commit. If nil,
	// each call goes to Work directly.
	Start  func(ctx context.Context, tenant uuid.UUID, f jobrun.RunFence) (jobrun.Done, error)
	Finish func(context.Context, jobrun.Result) (jobrun.Done, error)
	// Exchange is the method of Work for one worker, usually through a group commit. If nil, each
	// call goes to Work directly.
	Exchange func(context.Context, jobrun.Exchange) (jobrun.Exchanged, error)
	// Admitted registers woke, which is called as a hint whenever runs in a queue become claimable,
	// until the process ends. If nil, waiting claims poll every second or two.
	Admitted func(woke func(tenant uuid.UUID, queue string))
	// Offloaded opens the log of a run in the log store: NDJSON of jobrun.LogLine. If nil, there is
	// no log store. Fault: NotFound.
	Offloaded func(ctx context.Context, run *jobrun.Run) (io.ReadCloser, error)
	// RefuseTopic returns why events of job runs must not be published to a Kafka topic, or "" if
	// they may be. If nil, there is no Kafka.
	RefuseTopic func(topic string) string
	// ArgsAllow lists the programs of job definitions that treat their arguments as data.
	ArgsAllow []string
	// MaxWaiting limits the number of claims that wait on this node at the same time; 0 means 10,000.
	MaxWaiting int
}

func (j *Jobs) complete() {
	if j.RefuseTopic == nil {
		j.RefuseTopic = func(string) string { return "requires Kafka: kafka.brokers is not set" }
	}
	if j.Claim == nil {
		j.Claim = func(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) { return j.Work.Claim(ctx, a) }
	}
	if j.Start == nil {
		j.Start = func(ctx context.Context, tenant uuid.UUID, f jobrun.RunFence) (jobrun.Done, error) {
			return one(j.Work.Start(ctx, tenant, []jobrun.RunFence{f}))
		}
	}
	if j.Finish == nil {
		j.Finish = func(ctx context.Context, r jobrun.Result) (jobrun.Done, error) {
			return one(j.Work.Finish(ctx, []jobrun.Result{r}))
		}
	}
	if j.Exchange == nil {
		j.Exchange = func(ctx context.Context, x jobrun.Exchange) (jobrun.Exchanged, error) {
			return one(j.Work.Exchange(ctx, []jobrun.Exchange{x}))
		}
	}
	if j.MaxWaiting == 0 {
		j.MaxWaiting = 10_000
	}
}

func one[T any](done []T, err error) (first T, _ error) {
	if err == nil {
		first = done[0]
	}
	return first, err
}

// jobsOpen rejects operations on job runs if these are not configured.
func (s *server) jobsOpen(next http.Handler) http.Handler {
	if s.cfg.Jobs != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.contract.routeOf(r.Context(), r.Method).feature == jobRuns {
			s.fail(w, r, fault.New(fault.Unavailable, jobrun.CodeUnavailable, "the memory store has no job runs: use PostgreSQL"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
