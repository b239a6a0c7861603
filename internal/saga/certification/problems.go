package certification

import "github.com/skald-saga/skald/internal/fault"

// Problems is the catalogue of the problems of certifications.
var Problems fault.Catalogue

// Their codes, which are stable and part of the API.
var (
	CodeNotFound = Problems.Add("CERTIFICATION_NOT_FOUND", "No such certification",
		"The tenant has no certification with this id. Certifications have the same retention as job runs, "+
			"except the newest ones of each host.", 404)
	CodeConflict = Problems.Add("CERTIFICATION_STATE_CONFLICT", "The state of the certification forbids this",
		"A certification that has ended cannot be canceled.", 409)
	CodeNoReport = Problems.Add("CERTIFICATION_HAS_NO_REPORT", "The certification has no report",
		"The certification has not ended, or it ended without a report: only a COMPLETED certification has one. Also "+
			"returned if the stored report cannot be read (`report_unreadable`).", 409)
	CodeInvalid = Problems.Add("CERTIFICATION_INVALID", "Invalid certification",
		"This server is not allowed to call one of the URLs, the payload is too large, participants cannot report to "+
			"this server, options exclude each other, or the report does not come from a certification; `errors` names the "+
			"member.", 422)
)
