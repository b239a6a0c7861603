package sagabulk

import "github.com/skald-saga/skald/internal/fault"

// Problems is the catalogue of the problems of bulk operations on sagas.
var Problems fault.Catalogue

// Their codes, which are stable and part of the API.
var (
	CodeNotFound = Problems.Add("SAGA_BULK_NOT_FOUND", "No such bulk operation",
		"The tenant has no bulk operation on sagas with this id. Bulk operations have the same retention "+
			"as job runs.", 404)
	CodeConflict = Problems.Add("SAGA_BULK_STATE_CONFLICT", "The state of the bulk operation forbids this",
		"A bulk operation that has ended can be neither canceled nor changed, and only a halted one can be "+
			"resumed. Its effects so far remain.", 409)
	CodeInvalid = Problems.Add("SAGA_BULK_INVALID", "Bulk operation matches nothing",
		"The filter excludes every saga that could accept the action, for example only ended sagas for `cancel`; "+
			"`errors` gives the reason.", 422)
	CodeStale = Problems.Add("SAGA_BULK_VERSION_CONFLICT", "The bulk operation has changed",
		"If-Match named a version other than the current one. Read it again, and repeat the request if it still applies.", 412)
)
