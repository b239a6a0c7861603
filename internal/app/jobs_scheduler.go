package app

import (
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/jobrun/scheduler"
)

// leading contains the dependencies of the job run leader.
type leading struct {
	sweeps *leaderdb.Sweeps
	more   []scheduler.Sweep // sweeps in addition to the built-in ones
	wanted func(func())      // registers a function that wakes the leader
}

// newScheduler returns this node's scheduler of job runs; nil without job runs, or if the node is
// configured not to lead.
func (n *node) newScheduler() *scheduler.Scheduler {
	if n.jobStores == nil || !n.cfg.Jobs.Scheduler || !n.cfg.Has(config.RoleScheduler) {
		return nil
	}
	s := scheduler.New(scheduler.Config{
		Elections: n.jobStores.elections, Sweeps: n.jobStores.sweeps, Settings: n.jobStores.current, More: n.jobStores.more,
		ID: newID(), Node: n.name, NewID: newID, Log: n.opt.Log,
		Observer: n.metrics.Scheduler(n.now),
	})
	n.metrics.JobSweeps(s.Sweeps())
	n.jobStores.wanted(s.Wake)
	return s
}
