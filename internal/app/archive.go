package app

import (
	"context"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/saga"
)

// archive counts archived rows, regardless of whether the loop or a request archived them.
type archive struct {
	saga.Archive
	metrics *metrics.Metrics
}

func (a archive) ArchiveExpired(ctx context.Context, e saga.Expiry, limit int) (int, error) {
	n, err := a.Archive.ArchiveExpired(ctx, e, limit)
	a.metrics.Archived(n)
	return n, err
}

// retention returns the retention of workflows that do not set one.
func (n *node) retention() saga.Retention {
	return saga.Retention{Completed: n.cfg.Retention.Completed, Failed: n.cfg.Retention.Failed}
}

// events returns the archive for old audit events; nil means that they stay in the store.
func (n *node) events() trail.EventArchive {
	to, _ := n.trail.(trail.EventArchive)
	return to
}

func (n *node) eventRetention() trail.EventRetention {
	return trail.EventRetention{Live: n.cfg.Retention.Events, Archived: n.cfg.Retention.EventsArchive}
}
