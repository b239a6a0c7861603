package callback

import "github.com/skald-saga/skald/internal/fault"

// Problems is the catalogue of the problems of reports.
var Problems fault.Catalogue

// Their codes, which are stable and part of the API.
var (
	CodeNotFound = Problems.Add("SAGA_CALLBACK_NOT_FOUND", "No such callback URL",
		"This server did not create the callback URL, or its saga no longer exists.", 404)
	CodeLate = Problems.Add("SAGA_CALLBACK_LATE", "The report came too late",
		"The attempt was decided without the report: the wait for it has ended, an operator has decided about the "+
			"step, the saga has ended, or a newer attempt was made. The report changes nothing and is recorded as the "+
			"event `callback.orphaned`.", 409)
	CodeEarly = Problems.Add("SAGA_CALLBACK_EARLY", "The report came too early",
		"The participant's response to this attempt is not stored yet. Send the report again after the time in "+
			"Retry-After; nothing was lost.", 503)
)
