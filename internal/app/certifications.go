package app

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/certification/player"
)

// certifications returns the store of certifications, nil without a database in which nodes can find them.
func (n *node) certifications() certification.Store {
	if n.jobStores == nil {
		return nil
	}
	return n.jobStores.certified
}

// dialFor limits how long a certification waits for one connection.
const dialFor = 10 * time.Second

// addExaminer adds the certification of participants, which reaches them in the same way as the
// calls of steps.
func (n *node) addExaminer(context.Context) error {
	cfg := player.RunnerConfig{Now: n.now, NewID: newID, Log: n.opt.Log, Reach: func() player.Config {
		to := player.Config{Dial: n.policy.DialContext(dialFor), Version: n.opt.Version.Version}
		if n.trusted != nil {
			to.TLS = n.trusted()
		}
		if n.signing != nil {
			to.Keys = n.signing()
		}
		return to
	}}
	cfg.Callback = n.callbacks.examination
	cfg.Round = func() { n.metrics.Loop("certifications") }
	if n.jobStores != nil {
		cfg.Queue, cfg.Inbox = n.jobStores.certified, n.jobStores.certified
	}
	n.examiner = player.NewRunner(cfg)
	return nil
}
