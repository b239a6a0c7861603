package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/ops/overview"
)

// stillness is how long a loop that runs every few seconds may take to finish a round.
const stillness = time.Minute

// addWatchdog adds the watchdog, once all loops are known.
func (n *node) addWatchdog(context.Context) error {
	n.watch()
	return nil
}

// watch registers the loops that this node runs. Sagas make no progress without the vital loops:
// while a vital loop is late, the node is not ready, and new sagas go to other nodes. The other
// loops are not urgent, or run on every node.
func (n *node) watch() {
	n.loops = loop.NewWatchdog(time.Now)
	n.metrics.Watch(n.loops.Done, func() []string {
		var names []string
		for _, l := range n.loops.Late() {
			names = append(names, l.Name)
		}
		return names
	})
	several := func(every time.Duration) time.Duration { return max(stillness, 10*every) }
	if n.cfg.Has(config.RoleEngine) {
		n.loops.Watch("intake", stillness, true)
		n.loops.Watch("reaper", several(n.cfg.Engine.ReaperInterval), true)
	}
	n.loops.Watch("seal", several(n.cfg.Audit.SealInterval), false)
	n.loops.Watch("webhooks", stillness, false)
	if every := n.cfg.Retention.Interval; every > 0 {
		n.loops.Watch("retention", 3*every+10*stillness, false)
	}
	if n.deadLetters != nil {
		n.loops.Watch("seal_actions", several(n.cfg.Audit.SealInterval), false)
	}
	if n.letters != nil {
		n.loops.Watch("dlq_automatic", several(n.cfg.DLQ.PollInterval), false)
		n.loops.Watch("dlq_bulk", 10*stillness, false) // a round may send a whole batch
		n.loops.Watch("dlq_reclaim", several(n.cfg.DLQ.Lease), false)
		if n.letterUpkeep() >= 0 {
			n.loops.Watch("dlq_upkeep", 40*stillness, false)
		}
	}
	if n.letters != nil && n.letters.sources != nil {
		n.loops.Watch("kafka_sources", stillness, false)
	}
	if n.jobStores != nil && n.cfg.Has(config.RoleEngine) {
		n.loops.Watch("certifications", 10*stillness, false)
	}
	if n.jobs != nil {
		n.loops.Watch("job_logs", max(10*stillness, 10*n.cfg.Jobs.UpkeepInterval), false)
	}
	for _, r := range n.loops.Rounds() {
		n.metrics.Expect(r.Name)
	}
	if n.cfg.Has(config.RoleEngine) {
		n.metrics.Expect("lease")
	}
}

// rounds returns the state of this node's loops, for operators.
func (n *node) rounds() (all []overview.Loop) {
	for _, r := range n.loops.Rounds() {
		all = append(all, overview.Loop{
			Name: r.Name, LastRound: r.LastSuccessAt.UTC(), Limit: r.Limit, Late: r.Late, Vital: r.Vital,
		})
	}
	return all
}

// late returns the watchdog's report on this node and whether a vital loop is late.
func (n *node) late() (warnings []string, vital error) {
	late := n.loops.Late()
	for _, l := range late {
		text := fmt.Sprintf("the loop %s has not finished a round in %s", l.Name, l.Since.Round(time.Second))
		warnings = append(warnings, text)
	}
	if i := slices.IndexFunc(late, func(l loop.Late) bool { return l.Vital }); i >= 0 {
		n.opt.Log.Error("not ready: a loop makes no progress; if that persists, restart this node",
			slog.String("loop", late[i].Name), slog.Duration("since", late[i].Since))
		return warnings, fmt.Errorf("%s", warnings[i])
	}
	return warnings, nil
}
