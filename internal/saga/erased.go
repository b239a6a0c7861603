package saga

import (
	"bytes"
	"encoding/json"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/fault"
)

// ErasedContent replaces erased content. JSON of clients is never stored like this: such a
// prefix is escaped (decision 0026), and it is rejected as a payload of new sagas
// (CheckPayload), which would otherwise look erased when read again.
var ErasedContent = json.RawMessage(`{"$skald_erased":true}`)

// CheckPayload returns nil unless a new saga's payload is the mark of erased content, given
// as canonical JSON. Fault: Invalid.
func CheckPayload(p json.RawMessage) error {
	if !bytes.Equal(p, ErasedContent) {
		return nil
	}
	const message = `must not be {"$skald_erased":true}, which marks erased content`
	return fault.New(fault.Invalid, CodeUnstorable, "/payload %s", message).
		With(fault.Field{Pointer: "/payload", Code: "reserved", Message: message})
}

// Erased reports whether the saga's content was erased.
func (s *Saga) Erased() bool { return s.State.Terminal() && bytes.Equal(s.Payload, ErasedContent) }

// Erased returns the part of an error that remains when content is erased.
func (e *Error) Erased() *Error {
	b := e.Brief()
	b.Message = "erased"
	return b
}

// RecordsErasure makes e the record of an erasure for reason: left maps the id of each event
// that loses content to the digest of the rest.
func (e *AuditEvent) RecordsErasure(reason string, left map[string]string) {
	e.say(words{Reason: reason, Erased: left})
}

// ErasureRecorded returns what RecordsErasure recorded; nil if the event is not the record of
// an erasure.
func (e *AuditEvent) ErasureRecorded() (left map[string]string) {
	var w words
	if e.Type != eventtype.SagaErased || json.Unmarshal(e.Data, &w) != nil {
		return nil
	}
	return w.Erased
}
