package sagapages

import (
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// story is the data of a rail.
type story struct {
	saga       *client.Saga
	explain    *client.SagaExplanation
	steps      []client.StepView
	logs       []client.StepLog
	definition *client.WorkflowDefinition // nil: it is not known what the steps call
	now        time.Time
	query      url.Values // query of the page
}

// turned reports whether the saga compensates or has compensated.
func (s *story) turned() bool {
	if s.saga.Lifecycle == client.SagaLifecycleCompensating || s.saga.State == client.SagaStateFailed {
		return true
	}
	return s.saga.CompletedAt != nil && s.saga.State != client.SagaStateCompleted
}

// endOf returns the time when an attempt ended, or the current time.
func (s *story) endOf(l *client.StepLog) time.Time {
	if l.CompletedAt != nil {
		return *l.CompletedAt
	}
	return s.now
}

// deadline returns the deadline of the saga's current phase.
func (s *story) deadline() *time.Time {
	if s.explain != nil && s.explain.Deadline != nil {
		return s.explain.Deadline
	}
	return s.saga.TimeoutAt
}

// with returns the URL of the page with one parameter changed; an empty value removes it.
func with(q url.Values, name, value string) string {
	to := url.Values{}
	for n, v := range q {
		if n != name && n != "accepted" {
			to[n] = v
		}
	}
	if value != "" {
		to.Set(name, value)
	}
	return "?" + to.Encode()
}
