package erasure

import "github.com/skald-saga/skald/internal/fault"

// Problems are the problem types of erasures.
var Problems fault.Catalogue

// These are the codes of the problems. They are stable and part of the API.
var (
	CodeNotErasable = Problems.Add("SAGA_NOT_ERASABLE", "Content cannot be erased",
		"A saga, dead letter or job run that the request covers is still active and needs its content, or an event "+
			"in a saga's audit trail was tampered with. `detail` names it. Nothing was erased.", 409)
)
