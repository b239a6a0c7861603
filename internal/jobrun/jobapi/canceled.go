package jobapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
)

// wouldCancel returns the changes that canceling would make to the first runs of a filter, and
// these runs.
func (s *Handlers) wouldCancel(ctx context.Context, tenant uuid.UUID, f jobrun.Filter, in jobrun.CancelRequested,
	now time.Time) ([]api.PlannedChange, []jobrun.Run, error) {
	found, err := s.Runs.ListRuns(ctx, tenant, f, page.ByTime{Limit: examined})
	if err != nil {
		return nil, nil, err
	}
	all := dryrun.Many{Of: string(api.PlannedChangeOfJobRun)}
	for i := range found.Items {
		r := &found.Items[i]
		if after, err := jobrun.WouldBe(r, in, now); err == nil { // the other runs would not change
			all.Add(jobrun.Differs(r, &after), 1)
		}
	}
	return httpkit.PlannedChanges(all.List()), found.Items, nil
}
