package app

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/certification/player"
)

// certifications returns nil if there is no database in which nodes find them.
func (n *node) certifications() certification.Store {
	if n.jobStores == nil {
		return nil
	}
	return n.jobStores.certified
}

// dialFor limits one connection of an examination.
const dialFor = 10 * time.Second

// addExaminer adds what examines participants: it reaches them as the calls of steps do.
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
