package sagadb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// The sealed fields of a saga. Each name is bound to its ciphertext, so a value cannot be opened as
// another field. The names do not include the table, because the archive takes rows over unchanged.
var (
	fieldPayload = envelope.Field{Name: "payload"}
	fieldResult  = envelope.Field{Name: "result_data"}
	fieldError   = envelope.Field{Name: "error"}
	fieldOutput  = envelope.Field{Name: "interventions.order.output"}
)

// The names of fields that occur several times in one saga.
const (
	fieldRequest   = "request_payload"
	fieldResponse  = "response_payload"
	fieldLogError  = "log.error"
	fieldInput     = "interventions.input"
	fieldNextInput = "interventions.next.input"
)

// logField identifies a field of one step log. It does not use the log's id, because a RUNNING row
// keeps its own id when another log completes it.
func logField(name string, l *saga.StepLog) envelope.Field {
	return envelope.Field{Name: name, Step: l.StepIndex, Action: string(l.Action), Attempt: l.Attempt}
}

// oneSealer returns the same sealer for every row. It is for scanLog when all logs belong to one
// saga.
func oneSealer(p *envelope.Sealer) func(saga.Ref) *envelope.Sealer {
	return func(saga.Ref) *envelope.Sealer { return p }
}

// sealedError returns the stored form of a saga's error, or nil if there is none. When content is
// sealed, the whole error is in the envelope, which replaces its details, and next to it only the
// parts that no participant wrote are readable.
func sealedError(p *envelope.Sealer, f envelope.Field, e *saga.Error) ([]byte, error) {
	if e == nil {
		return nil, nil
	}
	content := []byte(e.Details)
	if p.Seals() {
		var err error
		if content, err = marshalError(e); err != nil {
			return nil, err
		}
		e = e.Brief()
	}
	details, err := postgres.Seal(p, f, content)
	if err != nil || bytes.Equal(details, postgres.Unstorable) {
		return details, err
	}
	if !bytes.Equal(details, e.Details) {
		shown := *e
		shown.Details = details
		e = &shown
	}
	return errorDoc(e)
}

// openError reads the form written by sealedError. With envelope.ErrUnreadable it returns the part
// that is not sealed.
func openError(p *envelope.Sealer, f envelope.Field, stored []byte) (*saga.Error, error) {
	e, err := parseError(stored)
	if err != nil || e == nil || e.Details == nil {
		return e, err
	}
	details, err := postgres.Canonical(e.Details)
	if err != nil {
		return nil, err
	}
	content, err := p.Open(f, details)
	switch {
	case err != nil:
		e.Details, e.Message = nil, saga.SealedMessage
		return e, err
	case envelope.IsSealed(details):
		return parseError(content)
	}
	e.Details = content
	return e, nil
}

// addEvent adds an audit event to a batch. When content is sealed, the trail contains none of it. A
// digest next to a sealed error would let anyone test guesses of its text, and readers of the event
// could not compute a digest of the sealed form.
func addEvent(db *postgres.DB, c *eventBatch, e *saga.AuditEvent) error {
	if e.Error == nil || !db.Keys.Seals() {
		return c.add(e)
	}
	told := *e
	told.Error = e.Error.Brief()
	return c.add(&told)
}

// sealInterventions returns a copy of i in which the JSON given by operators is sealed. The parts
// that views of the schema read stay in plain text.
func sealInterventions(p *envelope.Sealer, i *saga.Interventions) (*saga.Interventions, error) {
	return eachContent(i, func(f envelope.Field, v []byte) ([]byte, error) { return postgres.Seal(p, f, v) })
}

// openInterventions opens values sealed by sealInterventions; i is canonical. With
// envelope.ErrUnreadable it returns the rest.
func openInterventions(p *envelope.Sealer, i *saga.Interventions) (*saga.Interventions, error) {
	var closed closedContent
	opened, err := eachContent(i, func(f envelope.Field, v []byte) ([]byte, error) {
		plain, err := p.Open(f, v)
		if closed.isNot(err) {
			return nil, err
		}
		return plain, nil
	})
	if err != nil {
		return nil, err
	}
	return opened, closed.err
}

// eachContent returns a copy of i in which each JSON value given by an operator is replaced by the
// result of f.
func eachContent(i *saga.Interventions, f func(envelope.Field, []byte) ([]byte, error)) (*saga.Interventions, error) {
	if i == nil {
		return nil, nil
	}
	c := *i
	c.Steps = maps.Clone(i.Steps)
	for k, s := range c.Steps {
		var err error
		if s.Input, err = f(envelope.Field{Name: fieldInput, Step: k}, s.Input); err != nil {
			return nil, err
		}
		if s.Next != nil {
			next := *s.Next
			if next.Input, err = f(envelope.Field{Name: fieldNextInput, Step: k}, next.Input); err != nil {
				return nil, err
			}
			s.Next = &next
		}
		c.Steps[k] = s
	}
	if i.Order != nil {
		order := *i.Order
		var err error
		if order.Output, err = f(fieldOutput, order.Output); err != nil {
			return nil, err
		}
		c.Order = &order
	}
	return &c, nil
}

func parseError(b []byte) (*saga.Error, error) {
	if b == nil {
		return nil, nil
	}
	e := new(saga.Error)
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("stored error: %w", err)
	}
	return e, nil
}

// closedContent remembers the first error caused by content that cannot be decrypted, for readers
// that read the rest first.
type closedContent struct{ err error }

// isNot reports whether err is an error other than undecryptable content. It remembers errors of
// the latter kind.
func (c *closedContent) isNot(err error) bool {
	if errors.Is(err, envelope.ErrUnreadable) {
		c.err = cmp.Or(c.err, err)
		return false
	}
	return err != nil
}

// shown turns the error of a row into nil if the row is shown without its undecryptable content.
func shown(err error) error {
	if errors.Is(err, envelope.ErrUnreadable) {
		return nil
	}
	return err
}
