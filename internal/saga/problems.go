package saga

import "github.com/skald-saga/skald/internal/fault"

// Problems are the problem types of sagas.
var Problems fault.Catalogue

// The codes of the problem types, which are stable and part of the API.
var (
	CodeNotFound = Problems.Add("SAGA_NOT_FOUND", "No such saga",
		"The tenant has no saga with this id.", 404)
	CodeExists = Problems.Add("SAGA_ALREADY_EXISTS", "Saga already exists",
		"A saga with this saga_id already exists. With an Idempotency-Key, the repeated request would have "+
			"received the original response.", 409)
	CodeBusinessKey = Problems.Add("SAGA_BUSINESS_KEY_ACTIVE", "Business key in use",
		"An unfinished saga of the workflow has this business key; `errors` names it. `on_conflict: "+
			"return_existing` would have returned that saga. Also returned when a saga cannot be reopened "+
			"because another saga now has its key.", 409)
	CodeStateConflict = Problems.Add("SAGA_STATE_CONFLICT", "The saga's state forbids this",
		"The action is not possible in the saga's current state. `allowed_actions` lists those that are.", 409)
	CodePivotPassed = Problems.Add("SAGA_PIVOT_PASSED", "The saga cannot be compensated",
		"The pivot of its workflow is done, or may be done and has no compensation: the saga can only go "+
			"forward. `allowed_actions` lists what is possible.", 409)
	CodeDefinitionUnreadable = Problems.Add("SAGA_DEFINITION_UNREADABLE", "Definition unreadable",
		"The action requires the workflow definition to which the saga is pinned, which is damaged or missing. "+
			"`detail` names it and the remedy; `allowed_actions` lists what is possible until then. See "+
			"docs/operations.md, \"Damaged rows\".", 409)
	CodeContentUnreadable = Problems.Add("SAGA_CONTENT_UNREADABLE", "Content unreadable",
		"The action requires encrypted content of the saga that cannot be decrypted: its key is not configured, "+
			"or it was tampered with. `allowed_actions` lists what is possible until then.", 409)
	CodeArchived = Problems.Add("SAGA_ARCHIVED", "The saga is archived",
		"The saga has ended and is in the archive, where it is read-only. `allowed_actions` shows that it can be "+
			"restored.", 409)
	CodeNotArchived = Problems.Add("SAGA_NOT_ARCHIVED", "The saga is not archived",
		"Only an archived saga can be restored, and this one is live. `allowed_actions` lists what is possible "+
			"instead.", 409)
	CodeNoStep = Problems.Add("SAGA_NO_SUCH_STEP", "No such step",
		"The saga's workflow has no step with this name or index. 404 if the path names it, 422 if the body does.", 404, 422)
	CodeNoResult = Problems.Add("SAGA_HAS_NO_RESULT", "No result",
		"Only a completed saga has a result. This one has not ended yet, or has ended in another state.", 409)
	CodeStale = Problems.Add("SAGA_VERSION_CONFLICT", "The saga has changed",
		"If-Match named a version other than the saga's current one. Read it again, and repeat the request if it still applies.", 412)
	CodePayload = Problems.Add("SAGA_PAYLOAD_INVALID", "The payload does not fit",
		"The payload does not match the workflow's `payload_schema`. `errors` lists the mismatches, with JSON Pointers.", 422)
	CodeUnstorable = Problems.Add("SAGA_UNSTORABLE", "Content cannot be stored",
		"The database cannot store the content, for example because a number is out of range, or because the "+
			"payload is the placeholder for erased content.", 422)
)
