package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// recordTime bounds how long a node that stops still writes what a round has done.
const recordTime = 10 * time.Second

// retained makes a round of retention, and then puts on record what it has archived
// and deleted: one action for each tenant of which it took something, whoever it
// was by; nobody is Skald itself.
//
// A round is many transactions, of which a backlog may need thousands, and one action
// for each would bury what people did; so the record follows the round, also one that
// an error or the end of the node has cut short. A crash before it loses the count of
// that round. What was archived is not lost with it: it is in the archive, which says
// when it came there.
func (n *node) retained(ctx context.Context, by operator.By, subject string, do func(context.Context)) {
	counted, tally := operator.Tallied(ctx)
	do(counted)
	if n.deadLetters == nil { // in memory there is no record
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
