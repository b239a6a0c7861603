package httpkit

import (
	"crypto/sha256"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// KeyOf returns what identifies an Idempotency-Key in this request, nil when the client sent
// none. The query is not part of it: whether to wait is not part of the action.
func KeyOf(req *Request, header *string) *saga.IdempotencyKey {
	if header == nil {
		return nil
	}
	h := sha256.New()
	h.Write([]byte(req.Method + "\n" + req.Path + "\n"))
	h.Write(req.Body)
	h.Write(req.Raw)
	return &saga.IdempotencyKey{
		TenantID: req.Tenant.ID, Principal: req.Principal, Route: req.Route, Key: *header, Hash: h.Sum(nil),
	}
}

// KeyReused returns the fault of an Idempotency-Key that was used for another request.
func KeyReused() error {
	return fault.New(fault.Invalid, saga.CodeKeyUsed, "this Idempotency-Key was used for another request: use a new key").
		With(fault.Field{Pointer: "Idempotency-Key", Code: "reused", Message: "was used for another request"})
}
