package chaos

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestEveryFailpointOfJobRunsIsSurvived kills the only node at each point of a job run's life where
// something has just become durable or is about to, and restarts it. The judge of the campaigns
// must find no violation.
func TestEveryFailpointOfJobRunsIsSurvived(t *testing.T) {
	t.Parallel()
	bin := binary(t, buildFailpoints)
	eachLife(t, failpoint.Jobs, func(t *testing.T, names []failpoint.Name) { dieAtJob(t, bin, names) })
}

// dieAtJob kills a node at each of the points while jobs of several kinds run.
func dieAtJob(t *testing.T, bin string, names []failpoint.Name) {
	length := map[string]time.Duration{"": 7 * time.Second, "long": 9 * time.Second}[chaosMode(t)]
	p := jobsPlan{
		plan:    plan{lease: time.Second, nodes: 1, clients: 2, think: 200 * time.Millisecond},
		length:  length,
		workers: 2, // one of which uses exchanges
		settle:  30 * time.Second,
	}
	w := newWorld(t, p.plan, seed(t), bin)
	w.db = &database{}
	if err := w.db.use(testdb.DSN(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience.Limit+perPoint*time.Duration(len(names)))
	defer cancel()
	few := []string{"every-second", "queue", "chain", "chained", "listener", "flaky", jobBook, jobUnbook, jobBill}
	c := newCampaign(t, w, p)
	w.env = append(w.env, "SKALD_JOBS_UPKEEP_INTERVAL=1s")
	from := c.begin(ctx, func(from, to time.Time) []*job {
		return slices.DeleteFunc(campaignJobs(from, to), func(j *job) bool { return !slices.Contains(few, j.name) })
	})
	var points []string
	for _, name := range names {
		nth := 1 + w.dice("hit "+string(name)).IntN(3)
		switch name { // it may not reach these points again before the last slot is created
		case failpoint.LeaderAcquireAfter, failpoint.SchedTickBefore, failpoint.SchedTickInserted:
			nth = 1
		}
		points = append(points, fmt.Sprintf("%s=kill@%d", name, nth))
	}
	n := w.nodes[0]
	n.end(syscall.SIGKILL)
	died := n.startDoomed(t, points...)
	r, v := c.through(ctx, from, func() {
		select {
		case <-died:
		case <-time.After(patience.Limit + perPoint*time.Duration(len(points))):
			t.Fatalf("%v: the node did not die of each", points)
		}
		for _, name := range names {
			if !n.log.passed(string(name)) {
				t.Errorf("%s: the point was never reached", name)
			}
		}
	})
	c.tell(r, w.reportFindings())
	t.Logf("%v: %d runs, %d slots, %d epochs, %d violations", points, len(r.runs), v.fired, v.epochs, len(w.all()))
	if v.ends["SUCCEEDED"] < 5 || v.epochs < 2 {
		t.Errorf("the run proves nothing: %v in %d epochs", v.ends, v.epochs)
	}
}
