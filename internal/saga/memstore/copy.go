package memstore

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Every argument and result is copied completely, so that callers share no memory with the store,
// as with a database.

func copySaga(s *saga.Saga) saga.Saga {
	c := *s
	for _, text := range []**string{&c.Name, &c.Description, &c.BusinessKey, &c.CorrelationID, &c.TraceID, &c.SpanID,
		&c.TraceState, &c.Baggage, &c.AttentionReason} {
		*text = copied(*text)
	}
	c.Payload, c.Metadata = bytes.Clone(s.Payload), bytes.Clone(s.Metadata)
	c.LeaseOwner, c.EndCause, c.Clean = copied(s.LeaseOwner), copied(s.EndCause), copied(s.Clean)
	c.TimeoutMS, c.CompensationTimeoutMS = copied(s.TimeoutMS), copied(s.CompensationTimeoutMS)
	c.NextRunAt, c.TimeoutAt, c.CompensationTimeoutAt = copied(s.NextRunAt), copied(s.TimeoutAt),
		copied(s.CompensationTimeoutAt)
	c.TimedOutAt, c.CancelRequestedAt, c.SuspendedAt = copied(s.TimedOutAt), copied(s.CancelRequestedAt),
		copied(s.SuspendedAt)
	c.StartedAt, c.CompletedAt = copied(s.StartedAt), copied(s.CompletedAt)
	c.Error = copyError(s.Error)
	c.Result = bytes.Clone(s.Result)
	c.RetryPolicy, c.Interventions = reread(s.RetryPolicy), reread(s.Interventions)
	return c
}

// reread copies through JSON, as a database does.
func reread[T any](p *T) *T {
	if p == nil {
		return nil
	}
	b, err := json.Marshal(p)
	c := new(T)
	if err == nil {
		err = json.Unmarshal(b, c)
	}
	if err != nil {
		panic("memstore: " + err.Error()) // cannot happen: it contains only canonical JSON
	}
	return c
}

func copyLog(l *saga.StepLog) saga.StepLog {
	c := *l
	c.Outcome, c.CompletedAt, c.DurationMS = copied(l.Outcome), copied(l.CompletedAt), copied(l.DurationMS)
	c.Request, c.Response, c.Error = bytes.Clone(l.Request), bytes.Clone(l.Response), copyError(l.Error)
	c.Parts = bytes.Clone(l.Parts)
	return c
}

func copyLogs(logs []saga.StepLog) []saga.StepLog {
	c := make([]saga.StepLog, len(logs))
	for i := range logs {
		c[i] = copyLog(&logs[i])
	}
	return c
}

func copyEvent(e saga.AuditEvent) saga.AuditEvent {
	e.Data, e.Error = bytes.Clone(e.Data), copyError(e.Error)
	e.TraceID, e.SpanID = copied(e.TraceID), copied(e.SpanID)
	return e
}

func copyError(e *saga.Error) *saga.Error {
	if e == nil {
		return nil
	}
	c := *e
	c.Details, c.Cause = bytes.Clone(e.Details), copyError(e.Cause)
	return &c
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// copyParticipant returns a copy that shares nothing with p. Its times have PostgreSQL's precision.
func copyParticipant(p registry.Participant) registry.Participant {
	p.Settings.Headers = maps.Clone(p.Settings.Headers)
	g := &p.Gate
	g.Since, g.CountedFrom = *micro(&g.Since), *micro(&g.CountedFrom)
	g.NextCanary, g.WavedAt, g.GrownAt = micro(g.NextCanary), micro(g.WavedAt), micro(g.GrownAt)
	p.CreatedAt, p.UpdatedAt = *micro(&p.CreatedAt), *micro(&p.UpdatedAt)
	return p
}
