package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/ops/metrics"
)

func TestReadinessReportsALoopThatHasStopped(t *testing.T) {
	t.Parallel()
	n := &node{cfg: config.Default(config.Test), opt: Options{Log: slog.New(slog.DiscardHandler)}}
	n.metrics = metrics.New(func() (int, int) { return 0, 0 })
	n.watch()
	if warnings, err := n.late(); warnings != nil || err != nil {
		t.Fatalf("at the start: %q, %v", warnings, err)
	}
	now := time.Now()
	n.loops = loop.NewWatchdog(func() time.Time { return now })
	n.loops.Watch("seal", time.Minute, false)
	n.loops.Watch("reaper", time.Hour, true)
	now = now.Add(2 * time.Minute)
	warnings, err := n.late()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "seal") || err != nil {
		t.Errorf("a loop that may be late: %q, %v", warnings, err)
	}
	now = now.Add(time.Hour)
	if warnings, err = n.late(); len(warnings) != 2 || err == nil || !strings.Contains(err.Error(), "reaper") {
		t.Errorf("a loop that the node cannot do without: %q, %v", warnings, err)
	}
}
