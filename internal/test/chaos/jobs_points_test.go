package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestEveryFailpointOfJobRunsIsSurvived kills the only node at each point of a job
// run's life at which something has just become true, or is about to, and has it
// go on: the same judge as after a campaign must find nothing.
func TestEveryFailpointOfJobRunsIsSurvived(t *testing.T) {
	t.Parallel()
	bin := binary(t, buildFailpoints)
	names := make(chan failpoint.Name)
	var runners sync.WaitGroup
	for range 4 { // more than t.Parallel would run at once: they mostly wait
		runners.Go(func() {
			for name := range names {
				t.Run(string(name), func(t *testing.T) { dieAtJob(t, bin, name) })
			}
		})
	}
	for _, name := range failpoint.Jobs {
		names <- name
	}
	close(names)
	runners.Wait()
}

// dieAtJob has a node die at one point, while jobs of several kinds run.
func dieAtJob(t *testing.T, bin string, name failpoint.Name) {
	length := map[string]time.Duration{"": 5 * time.Second, "long": 9 * time.Second}[chaosMode(t)]
	p := jobsPlan{
		plan:    plan{lease: time.Second, nodes: 1, clients: 2, think: 200 * time.Millisecond},
		length:  length,
		workers: 1,
		settle:  30 * time.Second,
	}
	w := newWorld(t, p.plan, seed(t), bin)
	w.db = &database{}
	if err := w.db.use(testdb.DSN(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	few := []string{"every-second", "queue", "chain", "chained", "listener", "flaky", jobBook, jobUnbook, jobBill}
	c := newCampaign(t, w, p)
	w.env = append(w.env, "SKALD_JOBS_UPKEEP_INTERVAL=1s")
	from := c.begin(ctx, func(from, to time.Time) []*job {
		return slices.DeleteFunc(campaignJobs(from, to), func(j *job) bool { return !slices.Contains(few, j.name) })
	})
	n, nth := w.nodes[0], 1+w.dice("hit "+string(name)).IntN(3)
	if slices.Contains(
		[]failpoint.Name{failpoint.LeaderAcquireAfter, failpoint.SchedTickBefore, failpoint.SchedTickInserted},
		name,
	) {
		nth = 1 // it may not come there again before the last slot is made
	}
	n.end(syscall.SIGKILL)
	died := n.startDoomed(t, fmt.Sprintf("SKALD_FAILPOINTS=%s=kill@%d", name, nth))
	r, v := c.through(ctx, from, func() {
		select {
		case <-died:
		case <-time.After(30 * time.Second):
			t.Errorf("%s@%d: the node did not die of it", name, nth)
			n.end(syscall.SIGKILL)
			<-died
		}
		if !n.log.passed(string(name)) {
			t.Errorf("%s: the point was never reached", name)
		}
	})
	c.tell(r, w.reportFindings())
	t.Logf("%s@%d: %d runs, %d slots, %d epochs, %d violations", name, nth, len(r.runs), v.fired, v.epochs, len(w.all()))
	if v.ends["SUCCEEDED"] < 5 || v.epochs < 2 {
		t.Errorf("the run proves nothing: %v in %d epochs", v.ends, v.epochs)
	}
}
