package app

import (
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/jobrun/scheduler"
)

// leading holds what the leader of the job runs uses.
type leading struct {
	sweeps *leaderdb.Sweeps
	more   []scheduler.Sweep // what the leader does in addition to the built-in sweeps
	wanted func(func())      // registers a function that wakes the leader
}

// newScheduler returns this node's scheduler of job runs; nil where there are no job
// runs, or the node is configured not to lead them.
func (n *node) newScheduler() *scheduler.Scheduler {
	if n.jobStores == nil || !n.cfg.Jobs.Scheduler || !n.cfg.Has(config.RoleScheduler) {
		return nil
	}
	m := n.metrics
	s := scheduler.New(scheduler.Config{
		Elections: n.jobStores.elections, Sweeps: n.jobStores.sweeps, Settings: n.jobStores.current, More: n.jobStores.more,
		ID: newID(), Node: n.name, NewID: newID, Log: n.opt.Log,
		Observer: scheduler.Observer{
			Leads: m.JobLeads, Swept: func(sweep string, moved int, took time.Duration, err error) {
				m.JobSwept(sweep, moved, took, err == nil)
			},
			Round:   func() { m.Loop("job_scheduler") },
			Backlog: func(b jobrun.Backlog) { m.JobBacklog(b, n.now()) },
		},
	})
	n.jobStores.wanted(s.Wake)
	return s
}
