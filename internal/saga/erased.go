package saga

import (
	"bytes"
	"encoding/json"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/fault"
)

// ErasedContent replaces erased content. No JSON from clients is ever stored in this form: its
// prefix is escaped (decision 0026), and CheckPayload rejects it as a payload of new sagas, which
// would otherwise look erased when read again.
var ErasedContent = json.RawMessage(`{"$skald_erased":true}`)

// CheckPayload returns nil unless a new saga's payload, in canonical JSON, is the marker for erased
// content. Fault: Invalid.
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

// RecordsErasure makes e the record of an erasure for reason. left maps the id of each event that
// loses content to the digest of the remaining content.
func (e *AuditEvent) RecordsErasure(reason string, left map[string]string) {
	e.say(words{Reason: reason, Erased: left})
}

// ErasureRecorded returns the values recorded by RecordsErasure, or nil if the event does not
// record an erasure.
func (e *AuditEvent) ErasureRecorded() (left map[string]string) {
	var w words
	if e.Type != eventtype.SagaErased || json.Unmarshal(e.Data, &w) != nil {
		return nil
	}
	return w.Erased
}
