package idempotency

import "github.com/skald-saga/skald/internal/fault"

// Problems are the problems of Idempotency-Keys.
var Problems fault.Catalogue

// Their codes, stable and part of the API.
var (
	CodeUsed = Problems.Add("REQ_IDEMPOTENCY_KEY_REUSED", "Idempotency-Key used for another request",
		"The key was used for an earlier request with a different path or body. Use a new key for a new request.", 422)
	CodeInUse = Problems.Add("REQ_IDEMPOTENCY_KEY_IN_USE", "Request already in progress",
		"A request with this Idempotency-Key, or for a new saga with this saga_id, is still being processed. "+
			"Retry after the time given in Retry-After.", 409)
)
