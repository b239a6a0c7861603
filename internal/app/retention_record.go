package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// recordTime limits how long a stopping node takes to record the results of a round.
const recordTime = 10 * time.Second

// retained executes one round of retention with do. It then records what the round archived and
// deleted, as one action by "by" for each affected tenant; the zero By is Skald itself.
//
// A round consists of many transactions, thousands if there is a backlog, and one action for each
// would bury the actions of people. So the record is written after the round, even if an error or
// the stop of the node cut the round short. A crash before that loses the round's counts, but no
// archived data: every archived row is in the archive, with the time of archiving.
func (n *node) retained(ctx context.Context, by operator.By, subject string, do func(context.Context)) {
	counted, tally := operator.Tallied(ctx)
	do(counted)
	if n.deadLetters == nil { // the memory store does not record actions
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	for _, a := range tally.Actions(by, subject, n.now(), newID) {
		if err := n.deadLetters.actions.Record(ctx, a); err != nil {
			n.opt.Log.WarnContext(
				ctx,
				"cannot record what retention has archived",
				slog.String("tenant_id", a.TenantID.String()),
				slog.String("of", subject),
				slog.String("taken", string(a.Detail)),
				slog.Any("error", err),
			)
		}
	}
}
