package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// jobsPlan is the plan of a campaign of job runs.
type jobsPlan struct {
	plan
	jobFaults
	length  time.Duration // of the schedules, and of the faults during them
	workers int
	settle  time.Duration // how long everything may take to end after that
}

var jobsPlans = map[string]jobsPlan{
	"": {
		plan{lease: 2 * time.Second, nodes: 2, clients: 4, think: 700 * time.Millisecond},
		jobFaults{
			points:      1,
			kills:       2,
			stops:       2,
			leaderKills: 2,
			leaderHold:  2,
			nodeKills:   1,
			terms:       1,
			crashes:     1,
			cuts:        2,
			drains:      1,
			detaches:    1,
			deposals:    1,
			pauses:      1,
		},
		62 * time.Second, 4, 40 * time.Second,
	},
	"long": {
		plan{lease: 2 * time.Second, nodes: 3, clients: 5, think: 700 * time.Millisecond},
		jobFaults{
			points:      10,
			kills:       75,
			stops:       25,
			leaderKills: 30,
			leaderHold:  20,
			nodeKills:   20,
			terms:       6,
			crashes:     6,
			cuts:        25,
			drains:      15,
			detaches:    10,
			deposals:    8,
			pauses:      8,
		},
		14 * time.Minute, 5, 60 * time.Second,
	},
}

// campaign is a campaign in progress.
type campaign struct {
	*world
	p jobsPlan
	h *fleet
	a *asker
}

// TestJobRunsSurvive shows that every run has one result and every slot one run, whichever process
// is killed or stopped: workers, the leader, nodes or the database. The nodes' clocks differ by up
// to 100 seconds.
func TestJobRunsSurvive(t *testing.T) {
	t.Parallel()
	p := jobsPlans[chaosMode(t)]
	began := time.Now()
	w := newWorld(t, p.plan, seed(t), binary(t, buildPlain))
	ctx, cancel := context.WithTimeout(t.Context(), p.length+p.settle+5*time.Minute)
	defer cancel()
	db, err := ownDatabase(ctx, w.dir)
	w.db = db
	if err != nil {
		t.Fatal(err)
	}
	c := newCampaign(t, w, p)
	from := c.begin(ctx, campaignJobs)
	r, v := c.through(ctx, from, func() {
		pause(ctx, time.Until(from))
		(&jobNemesis{nemesis: nemesis{w: w, dice: w.dice("nemesis")}, h: c.h, a: c.a}).run(
			ctx,
			p.jobFaults,
			p.length-3*time.Second,
		)
	})
	t.Log(c.summary(r, v, time.Since(began)))
	c.tell(r, w.reportFindings())
	for _, missing := range c.unmet(v) {
		t.Errorf("the run proves nothing: %s", missing)
	}
}

// through lets operators make requests while jobFaults injects faults, until the schedules that
// began at from are over, and then judges the result.
func (c *campaign) through(ctx context.Context, from time.Time, jobFaults func()) (*jobRecord, *jobsVerdict) {
	more, enough := context.WithCancel(ctx)
	defer enough()
	asked := make(chan struct{})
	go func() { c.a.ask(ctx, more, c.p.clients, c.p.think); close(asked) }()
	jobFaults()
	pause(ctx, time.Until(from.Add(c.p.length)))
	enough()
	if err := c.heal(ctx); err != nil {
		c.t.Error(err)
	}
	<-asked
	r := c.end(ctx)
	v := judgeJobs(r)
	c.addAll(v.violations)
	c.complain()
	return r, v
}

// clocks are the offsets of the nodes' clocks. A node with an offset of more than a minute is not
// ready.
var clocks = []string{"0s", "50s", "-50s"}

// newCampaign gives each node a clock of its own.
func newCampaign(t *testing.T, w *world, p jobsPlan) *campaign {
	t.Helper()
	w.env = []string{
		"SKALD_ENV=test", "SKALD_DLQ_AUTO_RETRY=false", "SKALD_LOG_OFFLOAD_URL=file://" + filepath.Join(w.dir, "logs"),
		"SKALD_JOBS_UPKEEP_INTERVAL=5s",
	}
	for i, n := range w.nodes {
		n.env = []string{"SKALD_TEST_CLOCK_OFFSET=" + clocks[i%len(clocks)]}
	}
	h, err := newFleet(w, p.workers, 8, time.Duration(jobSettings["continuation_confirm_seconds"]*float64(time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	return &campaign{world: w, p: p, h: h, a: &asker{w: w, dealt: map[string]int{}}}
}

// begin starts the nodes, the recording triggers and the workers, and creates the definitions,
// whose schedules begin at the time that it returns.
func (c *campaign) begin(ctx context.Context, jobs func(from, to time.Time) []*job) (from time.Time) {
	c.t.Helper()
	if err := c.nodes[0].start(); err != nil { // the first node creates the tables
		c.t.Fatal(err)
	}
	if err := c.nodes[0].awaitReady(ctx); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.db.sql().ExecContext(ctx, historySchema); err != nil {
		c.t.Fatal(err)
	}
	if err := c.heal(ctx); err != nil {
		c.t.Fatal(err)
	}
	from = time.Now().UTC().Truncate(time.Second).Add(7 * time.Second)
	c.a.jobs = jobs(from, from.Add(c.p.length))
	if err := c.a.define(ctx); err != nil {
		c.t.Fatal(err)
	}
	if !time.Now().Before(from) {
		c.t.Fatal("the definitions came too late: the machine is too slow for this")
	}
	c.t.Cleanup(func() { c.h.end() })
	if err := c.h.start(); err != nil {
		c.t.Fatal(err)
	}
	return from
}

// end waits until everything has ended, stops the workers and reads the result.
func (c *campaign) end(ctx context.Context) *jobRecord {
	c.t.Helper()
	calm, cancel := context.WithTimeout(ctx, c.p.settle)
	defer cancel()
	for {
		var left int
		err := c.db.sql().QueryRowContext(calm, `
			SELECT (SELECT count(*) FROM jobs.job_runs WHERE finished_at IS NULL AND definition_name NOT LIKE 'system.%') + (SELECT count(*) FROM jobs.events WHERE processed_at IS NULL)
			     + (SELECT count(*) FROM saga.saga_states WHERE completed_at IS NULL)`).Scan(&left)
		if err == nil && left == 0 || !pause(calm, 100*time.Millisecond) {
			break // the judge will report those that haven't ended
		}
	}
	pause(ctx, time.Second) // until the last reports have arrived
	r := &jobRecord{held: c.log.stops, jobs: c.a.jobs, asked: c.a.wishes, lives: c.h.end(), logs: map[string]string{}}
	var err error
	if r.journal, err = readJournals(c.h.dir); err != nil {
		c.t.Fatal(err)
	}
	if err := r.read(ctx, c.db.sql()); err != nil {
		c.t.Fatal(err)
	}
	for id := range r.logged() {
		if err := c.readLog(ctx, r, id); err != nil {
			c.t.Fatal(err)
		}
	}
	return r
}

// logged returns the runs for which a worker knows that a log exists.
func (r *jobRecord) logged() map[string]bool {
	runs := map[string]bool{}
	for i := range r.journal {
		if r.journal[i].Kind == didLog {
			runs[r.journal[i].Run] = true
		}
	}
	return runs
}

func (c *campaign) readLog(ctx context.Context, r *jobRecord, run string) error {
	answer, err := c.ask(ctx, "/api/v1/job-runs/"+run+"/logs")
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK {
		c.add("J9", run, "", "its log is answered with %d: %s", answer.status, answer.body)
		return nil
	}
	for line := range strings.Lines(string(answer.body)) {
		var l struct {
			Attempt, Seq int
			Chunk        string
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return fmt.Errorf("read the log of %s: %w", run, err)
		}
		r.logs[fmt.Sprintf("%s/%d/%d", run, l.Attempt, l.Seq)] = l.Chunk
	}
	return nil
}

// complain adds the forbidden lines from the nodes' logs as violations.
func (c *campaign) complain() {
	for _, n := range c.nodes {
		for _, line := range n.log.complaints() {
			c.add("node", "", "", "%s: %s", n.name, line)
		}
	}
}

// summary describes the campaign in a few lines.
func (c *campaign) summary(r *jobRecord, v *jobsVerdict, took time.Duration) string {
	var at []string
	c.h.mu.Lock()
	for _, d := range slices.Sorted(maps.Keys(c.h.done)) {
		at = append(at, fmt.Sprintf("%s=%d", strings.ReplaceAll(d, " ", "_"), c.h.done[d]))
	}
	c.h.mu.Unlock()
	var dealt []string
	for _, d := range slices.Sorted(maps.Keys(c.a.dealt)) {
		dealt = append(dealt, fmt.Sprintf("%s=%d", strings.ReplaceAll(d, " ", "_"), c.a.dealt[d]))
	}
	var ends []string
	for _, s := range slices.Sorted(maps.Keys(v.ends)) {
		ends = append(ends, fmt.Sprintf("%s=%d", s, v.ends[s]))
	}
	return fmt.Sprintf(
		"job runs: seed=%d kills=%d pauses=%d terms=%d pg_crashes=%d pg_cuts=%d in %s\n"+
			"workers at: %s\noperators and leaders: %s epochs=%d rounds=%d\nruns=%d %s slots=%d attempts_ended=%d wishes=%d\n"+
			"in_doubt=%d confirmed=%d orphaned=%d lost=%d zombies_refused=%d real_overlaps_excused=%d worst_wait=%d rounds log_chunks=%d offloaded=%d letters=%d sagas=%d\nviolations=%d",
		c.seed,
		c.tally.kills.Load(),
		c.tally.stops.Load(),
		c.tally.terms.Load(),
		c.tally.crashes.Load(),
		c.tally.cuts.Load(),
		took.Round(time.Second),
		strings.Join(
			at,
			" ",
		),
		strings.Join(dealt, " "),
		v.epochs,
		v.rounds,
		len(r.runs),
		strings.Join(ends, " "),
		v.fired,
		len(r.attempts),
		len(r.asked),
		v.doubted,
		v.confirmed,
		v.orphaned,
		v.lost,
		v.refused,
		v.overlaps,
		v.worstWait,
		v.chunks,
		v.offloaded,
		len(r.letters),
		len(r.sagas),
		len(c.all()),
	)
}

// unmet returns the conditions that the campaign should have produced but didn't: without them it
// proves nothing.
func (c *campaign) unmet(v *jobsVerdict) []string {
	var missing []string
	need := func(what string, got, want int) {
		if got < want {
			missing = append(missing, fmt.Sprintf("%s: %d, want at least %d", what, got, want))
		}
	}
	m := c.p.jobFaults
	for _, point := range workerPoints {
		need("kills of workers "+point, c.h.count(point+" "+toKill), (m.points+1)/2)
		need("pauses of workers "+point, c.h.count(point+" "+toPause), (m.points+1)/2)
	}
	need("kills of the leader", c.a.dealt["leader kill"], m.leaderKills/2)
	need("pauses of the leader", c.a.dealt["leader hold"], m.leaderHold/2)
	need("crashes of the database", int(c.tally.crashes.Load()), m.crashes)
	need("epochs", v.epochs, m.leaderKills)
	need("runs in doubt", v.doubted, m.points)
	need("orphaned runs", v.orphaned, m.points*4)
	need("zombies refused", v.refused, m.points)
	for _, s := range terminalStates {
		need("runs that ended "+s, v.ends[s], 1)
	}
	return missing
}
