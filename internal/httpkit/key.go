package httpkit

import (
	"crypto/sha256"

	"github.com/skald-saga/skald/internal/idempotency"
)

// KeyOf returns the identity of the Idempotency-Key of this request, nil if the client sent none.
// The query is not part of it, because it only contains how long to wait.
func KeyOf(req *Request, header *string) *idempotency.Key {
	if header == nil {
		return nil
	}
	h := sha256.New()
	h.Write([]byte(req.Method + "\n" + req.Path + "\n"))
	h.Write(req.Body)
	h.Write(req.Raw)
	return &idempotency.Key{
		TenantID: req.Tenant.ID, Principal: req.Principal, Route: req.Route, Key: *header, Hash: h.Sum(nil),
	}
}
