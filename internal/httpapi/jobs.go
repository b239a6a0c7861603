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

// Jobs is what the edge needs of job runs.
type Jobs struct {
	Definitions jobrun.Definitions
	Runs        jobrun.Runs
	Bulks       jobrun.BulkOperations
	Events      jobrun.Events
	Work        jobrun.Work
	Workers     jobrun.Workers
	Fences      jobrun.Fences
	Elections   jobrun.Elections
	Settings    jobrun.SettingsStore
	// Current returns the settings as this node knows them; it is asked at every
	// call of a worker.
	Current func(context.Context) (jobrun.Settings, error)
	// Now is the time by which runs are due, the store's: clocks of nodes differ.
	// Optional: the edge's.
	Now func(context.Context) (time.Time, error)
	// Claim is that of Work, usually gathered with others. Optional.
	Claim func(context.Context, jobrun.ClaimRequest) ([]jobrun.Offer, error)
	// Start and Finish are those of Work for one run, usually through a group
	// commit. Optional: each goes to Work by itself.
	Start  func(ctx context.Context, tenant uuid.UUID, f jobrun.RunFence) (jobrun.Done, error)
	Finish func(context.Context, jobrun.Result) (jobrun.Done, error)
	// Admitted has woke called whenever a queue has got runs that may be claimed,
	// until the process ends: a hint. Optional: claims that wait then look by
	// themselves every second or two.
	Admitted func(woke func(tenant uuid.UUID, queue string))
	// Offloaded opens a run's log that is in the log store: NDJSON of jobrun.LogLine. Optional:
	// there is no log store. Fault: NotFound.
	Offloaded func(ctx context.Context, run *jobrun.Run) (io.ReadCloser, error)
	// MaxWaiting bounds the claims that wait at once on this node; 0: 10,000.
	MaxWaiting int
}

func (j *Jobs) complete() {
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
	if j.MaxWaiting == 0 {
		j.MaxWaiting = 10_000
	}
}

func one(done []jobrun.Done, err error) (jobrun.Done, error) {
	if err != nil {
		return jobrun.Done{}, err
	}
	return done[0], nil
}

// jobsOpen refuses the operations of job runs where there are none.
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
