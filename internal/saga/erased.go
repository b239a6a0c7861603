package saga

import (
	"bytes"
	"encoding/json"

	"github.com/skald-saga/skald/internal/fault"
)

// ErasedContent takes the place of erased content. No client's JSON is stored like this:
// such a prefix is escaped (decision 0026), and no saga is created with it as its payload
// (CheckPayload), because read again it would pass for erased.
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

// Erased returns the part of an error that stays when content is erased.
func (e *Error) Erased() *Error {
	b := e.Brief()
	b.Message = "erased"
	return b
}

// RecordsErasure makes e the record of an erasure for reason: left has, by the id of each
// event that loses content, the digest of what remains of it.
func (e *AuditEvent) RecordsErasure(reason string, left map[string]string) {
	e.say(words{Reason: reason, Erased: left})
}

// ErasureRecorded returns what RecordsErasure recorded; nil: the event is another one.
func (e *AuditEvent) ErasureRecorded() (left map[string]string) {
	var w words
	if e.Type != SagaErased || json.Unmarshal(e.Data, &w) != nil {
		return nil
	}
	return w.Erased
}
