package app

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqapi"
	"github.com/skald-saga/skald/internal/dlq/redrive"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/retry"
)

// deadLetterStores are the stores of dead letters.
type deadLetterStores struct {
	letters interface {
		dlq.Letters
		dlq.Overview
	}
	queue    dlq.Queue
	redrives dlq.Redrives
	actions  interface {
		operator.Log
		trail.Sealed
	}
}

// letters is the part of a node that runs the dead-letter queue.
type letters struct {
	redriver *redrive.Redriver
	sagas    *targets.Saga
	http     *targets.HTTP
	kafka    *targets.Kafka      // nil: no brokers
	ingest   *kafka.IngestConfig // nil: there are no dead-letter topics
	sources  *kafka.IngestConfig // reads events; nil: no such topics
	topics   kafka.Pattern
}

// webhooksAtOnce limits how many webhook letters are claimed at once, because they are reverted one
// at a time.
const webhooksAtOnce = 32

// newLetters returns the dead-letter queue, nil if the stores do not support it.
func (n *node) newLetters() (*letters, error) {
	if n.deadLetters == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	d := n.cfg.DLQ
	l := &letters{
		sagas: &targets.Saga{
			Sagas:      n.sagas,
			Letters:    n.deadLetters.letters,
			Definition: n.definitions.definition,
			Commit:     n.writes.Commit,
			Wake:       n.engine.Wake,
			Now:        n.now, NewID: newID, CompensationTimeout: n.cfg.Engine.DefaultCompensationTimeout,
			Budget: budget(n.cfg.Limits),
		},
		http: targets.NewHTTP(targets.HTTPConfig{
			Policy:      n.policy,
			TLS:         n.trusted,
			Timeout:     d.HTTPTimeout,
			Concurrency: d.HTTPConcurrency,
			Version:     n.opt.Version.Version,
			Now:         n.now,
			Log:         n.opt.Log,
		}),
	}
	var err error
	if l.topics, err = deadTopics(n.cfg); err != nil {
		return nil, err
	}
	if l.ingest, err = n.newIngest(n.deadLetters.queue); err != nil {
		return nil, err
	}
	if l.sources, err = n.newSources(n.deadLetters.queue); err != nil {
		return nil, err
	}
	if l.kafka, err = n.newKafkaDriver(); err != nil {
		return nil, err
	}
	drivers := map[dlq.TargetKind]redrive.Driver{
		dlq.ToHTTP: l.http, dlq.ToSaga: l.sagas,
		dlq.ToWebhook: &targets.Webhook{Webhooks: n.hooks, Deliveries: n.hooks, Now: n.now, NewID: newID},
	}
	if n.jobStores != nil {
		drivers[dlq.ToJobRun] = &targets.Job{Runs: n.jobStores.runs, Now: n.now}
	}
	if l.kafka != nil {
		drivers[dlq.ToKafka] = l.kafka
	}
	l.redriver = redrive.New(redrive.Config{
		Queue:     n.deadLetters.queue,
		Redrives:  n.deadLetters.redrives,
		Drivers:   drivers,
		Forbidden: l.topics.Forbidden,
		Gate:      n.gate,
		Now:       n.now,
		Log:       n.opt.Log,
		Poll:      d.PollInterval, Lease: d.Lease, Batch: d.Batch, Upkeep: n.letterUpkeep(),
		AtOnce: map[dlq.TargetKind]int{
			dlq.ToHTTP:    4 * d.HTTPConcurrency,
			dlq.ToWebhook: webhooksAtOnce,
			dlq.ToJobRun:  webhooksAtOnce,
		},
		Round: func(ctx context.Context, do func(context.Context)) {
			n.retained(ctx, operator.By{}, "dead_letters", do)
		},
		Ended: func(r dlq.Redrive) {
			n.ends.Ended(longpoll.Key{Kind: longpoll.Redrive, Tenant: r.TenantID, ID: r.ID}, nil)
		},
		Observer: n.metrics.Letters(n.now),
	})
	return l, nil
}

// letterPolicy returns the policy for topics without their own.
func letterPolicy(d config.DLQ) dlq.Policy {
	p := dlq.DefaultPolicy
	p.MaxRetries, p.AutoRetry, p.MaxGenerations, p.RetentionDays, p.ArchiveDays = d.MaxRetries, d.AutoRetry,
		d.MaxGenerations, d.RetentionDays, d.ArchiveDays
	p.Backoff = retry.Policy{
		InitialIntervalMS: d.InitialInterval.Milliseconds(),
		MaxIntervalMS:     d.MaxInterval.Milliseconds(),
		Multiplier:        float64(d.Multiplier),
		Jitter:            p.Backoff.Jitter,
	}
	return p
}

// lettersEdge returns the API's dependencies for the dead-letter queue.
func (n *node) lettersEdge() *dlqapi.DeadLetters {
	l, d := n.letters, n.cfg.DLQ
	if l == nil {
		return nil
	}
	return &dlqapi.DeadLetters{
		Letters:  n.deadLetters.letters,
		Redrives: n.deadLetters.redrives,
		Overview: n.deadLetters.letters,
		Actions:  n.deadLetters.actions,
		VerifyActions: func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error) {
			return audit.Verify(ctx, n.deadLetters.actions, tenant, from, limit)
		},
		RedriveLimits: dlq.RedriveLimits{
			DefaultRate: float64(d.RedriveRate),
			MaxRate:     float64(d.MaxRedriveRate),
			Bulk:        int64(d.BulkLimit),
		},
		WakeRedrives: l.redriver.Wake,
		PolicyOf:     n.deadLetters.queue.PolicyOf,
		Drive:        l.redriver.Now,
		MayDrive:     l.redriver.MayDrive,
		Routes:       l.redriver.Routes(),
		UndoneByHand: l.sagas.UndoneByHand,
	}
}

// run drives letters and ingests letters and events from Kafka, until ctx ends. It calls failed
// with an error that makes further ingestion impossible.
func (l *letters) run(ctx context.Context, failed func(error)) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { l.redriver.Run(ctx) })
	for _, in := range []*kafka.IngestConfig{l.ingest, l.sources} {
		if in == nil {
			continue
		}
		parts.Go(func() {
			if err := kafka.Ingest(ctx, *in); err != nil {
				failed(err)
			}
		})
	}
}

// close closes the drivers' connections. Call it after run has returned.
func (l *letters) close() {
	l.http.Close()
	if l.kafka != nil {
		l.kafka.Close()
	}
}
