package saga

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/retry"
)

// A compensation that gives up leaves a dead letter, which changes only together with the saga.
// This file contains the rules for that; the store writes both or neither
// (requirements/one-product.md, point 2).

// dirtyEnd ends the saga in FAILED: effects may remain, and an operator must act.
func (d *decision) dirtyEnd(e *Error, reason string) {
	if reason == ReasonForced {
		d.tellLetter(dlq.RetryStopped)
	} else {
		d.gaveUpUndo(e)
	}
	e.follows(d.s.Error)
	d.s.Error = e
	d.s.NeedsAttention = true
	d.s.AttentionReason = &reason
	d.end(Failed)
}

// DeadLetter returns the open letter of the compensation that gave up, whether the saga is waiting
// for it or retrying. It returns uuid.Nil if there is none.
func (s *Saga) DeadLetter() uuid.UUID {
	if s.Interventions == nil {
		return uuid.Nil
	}
	return s.Interventions.DeadLetter
}

// gaveUpUndo records that the compensation of the current step has given up.
func (d *decision) gaveUpUndo(e *Error) {
	n := dlq.SourceUpdate{Outcome: dlq.GaveUp, ID: d.s.DeadLetter(), Letter: d.letter(e)}
	if n.ID == uuid.Nil {
		d.edit().DeadLetter = n.Letter.ID
	}
	d.updateLetter(n)
}

// tellLetter updates the saga's letter, if it has one. An update that ends the letter also clears
// the saga's reference to it.
func (d *decision) tellLetter(told dlq.Outcome) {
	id := d.s.DeadLetter()
	if id == uuid.Nil {
		return
	}
	n := dlq.SourceUpdate{Outcome: told, ID: id}
	i := d.edit()
	switch told {
	case dlq.RetryStarted:
		n.Token, i.RetriedBy = d.m.NewID(), d.m.Actor
	case dlq.Succeeded, dlq.HandledManually:
		i.DeadLetter = uuid.Nil
	}
	d.updateLetter(n)
}

// updateLetter makes n the letter update of the change. If one change both reopens a saga and
// settles its compensation, only the latter is recorded.
func (d *decision) updateLetter(n dlq.SourceUpdate) {
	if i := d.edit(); n.Outcome != dlq.RetryStarted {
		n.Actor, i.RetriedBy = i.RetriedBy, ""
	}
	d.Letter = &n
}

// letter builds the dead letter for the compensation of the current step, which gave up because of
// e. Its payload is the body of the call, unless the body exceeds the budget.
func (d *decision) letter(e *Error) dlq.Letter {
	step := d.After.Def.Steps[d.s.CurrentStep].Name
	content := dlq.Content{}
	if _, unsendable := d.After.Unsendable(d.m.Budget, d.m.Now); !unsendable {
		call := d.After.Call(Defaults{})
		content.Payload = call.Recorded()
	}
	l := dlq.Letter{
		TenantID: d.s.Tenant.ID, Source: dlq.FromSaga, OriginalTopic: letterTopic(d.s.WorkflowName, step),
		Failure: dlq.Failure{
			Message: dlq.Storable(e.Message, dlq.MaxError), Type: dlq.Storable(e.Code, dlq.MaxWord), Class: letterClass(e),
		},
		Content:       content,
		Link:          dlq.Link{SagaID: d.s.ID, StepIndex: d.s.CurrentStep, StepName: step, Action: string(Compensate)},
		CorrelationID: textOf(d.s.CorrelationID), TraceID: textOf(d.s.TraceID),
		MaxRetries: dlq.DefaultPolicy.MaxRetries, Target: dlq.Target{Kind: dlq.ToSaga},
	}
	return dlq.New(l, d.m.NewID(), &dlq.DefaultPolicy, dlq.Moment{Now: d.m.Now, Jitter: d.m.Jitter})
}

// Plain returns the failure in a saga's letter without any text from a participant, for deployments
// that seal the content of sagas.
func Plain(l *dlq.Letter) dlq.Failure {
	f := l.Failure
	f.Message = fmt.Sprintf("the compensation of step %q gave up: %s", l.Link.StepName, f.Type)
	return f
}

func letterClass(e *Error) dlq.ErrorClass {
	switch class := retry.Class(e.Type); {
	case class == retry.Refused:
		return dlq.Permanent
	case class.Transient():
		return dlq.Transient
	}
	return dlq.Unknown
}

// letterTopic names the topic of the letters of a step's compensation. If the name
// would be too long, a hash of both names keeps it unique.
func letterTopic(workflow, step string) string {
	const end = ".compensate"
	topic := "saga." + workflow + "." + step
	if utf8.RuneCountInString(topic)+len(end) <= dlq.MaxTopic {
		return topic + end
	}
	sum := sha256.Sum256([]byte(workflow + "\x00" + step))
	hash := fmt.Sprintf("~%x", sum[:6])
	return string([]rune(topic)[:dlq.MaxTopic-len(end)-len(hash)]) + hash + end
}
