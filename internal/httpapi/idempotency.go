package httpapi

import (
	"crypto/sha256"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// keyOf returns what an Idempotency-Key stands for in this request, nil when
// the client sent none. The query is not part of it: whether to wait is not
// part of what is done.
func keyOf(req *request, header *string) *saga.IdempotencyKey {
	if header == nil {
		return nil
	}
	h := sha256.New()
	h.Write([]byte(req.method + "\n" + req.path + "\n"))
	h.Write(req.body)
	return &saga.IdempotencyKey{
		TenantID: req.tenant.ID, Principal: req.principal, Route: req.route, Key: *header, Hash: h.Sum(nil),
	}
}

func keyReused() error {
	return fault.New(fault.Invalid, saga.CodeKeyUsed, "this Idempotency-Key was used for another request: use a new key").
		With(fault.Field{Pointer: "Idempotency-Key", Code: "reused", Message: "was used for another request"})
}
