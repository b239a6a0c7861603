package dlqapi_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqapi"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/redrive"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// newQueueEdge starts an edge with a dead-letter queue on PostgreSQL and running loops.
// Letters are driven over HTTP, none automatically, and there is no Kafka.
func newQueueEdge(t *testing.T, change ...func(*httpapi.Config)) *apitest.Edge {
	t.Helper()
	policy := dlq.DefaultPolicy
	policy.AutoRetry = false
	return newQueueEdgeOf(t, policy, change...)
}

// newQueueEdgeOf is newQueueEdge with another policy.
func newQueueEdgeOf(t *testing.T, policy dlq.Policy, change ...func(*httpapi.Config)) *apitest.Edge {
	t.Helper()
	db, web := openQueue(t)
	store, loops := dlqdb.NewLetters(db, policy), dlqdb.NewQueue(db, policy)
	bulk := redrivedb.NewRedrives(db, loops)
	driver := redrive.New(redrive.Config{
		Queue: loops, Redrives: bulk, Forbidden: isDLQTopic, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Poll: 100 * time.Millisecond,
		Drivers: map[dlq.TargetKind]redrive.Driver{dlq.ToHTTP: web},
	})
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		driver.Run(running)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return apitest.NewEdge(t, append([]func(*httpapi.Config){func(c *httpapi.Config) {
		c.Now, c.Limits.MaxWait = time.Now, time.Minute
		c.DeadLetters = &dlqapi.DeadLetters{
			Letters: store, Redrives: bulk, Overview: store, Actions: auditdb.NewActions(db),
			VerifyActions: apitest.Verified(auditdb.NewActions(db)),
			RedriveLimits: dlq.RedriveLimits{DefaultRate: 50, MaxRate: 5000, Bulk: 1000}, WakeRedrives: driver.Wake,
			Drive: driver.Now, MayDrive: driver.MayDrive, Routes: driver.Routes(), PolicyOf: loops.PolicyOf,
			UndoneByHand: func(_ context.Context, l dlq.Letter, _ operator.By) (dlq.Letter, error) { return l, nil },
		}
	}}, change...)...)
}
