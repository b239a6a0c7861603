package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/event/delivery"
	"github.com/skald-saga/skald/internal/event/publication"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/kafka"
)

// notices sends events to webhooks and, if brokers are configured, to Kafka.
type notices struct {
	hooks  delivery.Config
	sender *delivery.Sender
	topic  *publication.Config // nil: there is no topic for events
	outbox *publication.Config // events of job runs; nil: no Kafka
}

func (n *node) newNotices() (*notices, error) {
	w, k, log := n.cfg.Webhooks, n.cfg.Kafka, n.opt.Log
	secure, err := n.watchTLS("webhooks", w.TLSCertFile, w.TLSKeyFile, w.TLSCAFile)
	if err != nil {
		return nil, err
	}
	out := &notices{sender: delivery.NewSender(delivery.SenderConfig{
		Policy: n.policy, TLS: secure, Timeout: w.Timeout, Version: n.opt.Version.Version, Now: n.now, Log: log,
	})}
	out.hooks = delivery.Config{
		Queue:       n.stores.hooks,
		Trail:       n.trail,
		Send:        out.sender.Send,
		Gate:        n.gate,
		Now:         n.now,
		NewID:       newID,
		Log:         log,
		Policy:      deliveryPolicy(w),
		Concurrency: w.Concurrency, Keep: w.Keep, Lease: w.Timeout + 10*time.Second,
		Observer: n.metrics.Webhooks(),
	}
	if out.outbox, err = n.newOutbox(); err != nil || len(k.Brokers) == 0 || k.EventTopic == "" {
		return out, err
	}
	var tenants []uuid.UUID
	for _, t := range k.EventTenants {
		id, err := uuid.Parse(t)
		if err != nil {
			return nil, fmt.Errorf("kafka.event_tenants: %w", err)
		}
		tenants = append(tenants, id)
	}
	broker := kafka.Config{Connection: brokers(n.cfg), Topic: k.EventTopic}
	out.topic = &publication.Config{
		Name:  "kafka:" + k.EventTopic,
		Node:  n.name,
		Store: n.publications,
		Trail: n.trail,
		Open:  broker.Open,
		Now:   n.now,
		Log:   log,
		Lease: n.cfg.Engine.LeaseTTL, Tenants: tenants,
		Observer: n.metrics.AuditTopic(),
	}
	return out, broker.Check()
}

func deliveryPolicy(w config.Webhooks) webhook.Policy {
	p := webhook.DefaultPolicy
	p.Retry.MaxAttempts, p.DisableAfter = w.MaxAttempts, w.DisableAfter
	p.Retry.InitialIntervalMS, p.Retry.MaxIntervalMS = w.InitialInterval.Milliseconds(), w.MaxInterval.Milliseconds()
	return p
}

// run sends events until ctx ends.
func (n *notices) run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { delivery.Run(ctx, n.hooks) })
	if n.topic != nil {
		parts.Go(func() { publication.Run(ctx, *n.topic) })
	}
	if n.outbox != nil {
		parts.Go(func() { publication.Run(ctx, *n.outbox) })
	}
	parts.Wait()
	n.sender.Close()
}

// checkEndpoint returns the function for httpapi.Webhooks.CheckEndpoint or sagaapi.Sagas.CheckParticipant.
func checkEndpoint(policy *egress.Policy, allowHTTP bool) func(string) string {
	return func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return "is not a URL"
		}
		port := u.Port()
		switch {
		case u.Scheme != "https" && !allowHTTP:
			return "must begin with https://"
		case port == "" && u.Scheme == "https":
			port = "443"
		case port == "":
			port = "80"
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return "has a port above 65535"
		}
		var denied *egress.Denied
		if errors.As(policy.CheckHost(u.Hostname(), uint16(number)), &denied) {
			return "the server is not allowed to connect to it: " + denied.Reason
		}
		return ""
	}
}
