package workflow

import "github.com/skald-saga/skald/internal/fault"

// Problems is the catalogue of the problems of workflows, including mistakes in definitions. A
// mistake's code is the code of the problem document if all mistakes have the same code; otherwise
// it only appears in its entry in errors[].
var Problems fault.Catalogue

// Their codes, which are stable and part of the API.
var (
	CodeNotFound = Problems.Add("WORKFLOW_NOT_FOUND", "No such workflow",
		"The tenant has no workflow with this name, or not this version. 404 if the path names it, 422 if the "+
			"body of a new saga does.", 404, 422)
	CodeUnreadable = Problems.Add("WORKFLOW_DEFINITION_UNREADABLE", "Definition unreadable",
		"The stored definition of this version is damaged, for example by a bad restore. Register the same "+
			"definition again, or restore its row from a backup.", 409)
	CodeDisabled = Problems.Add("WORKFLOW_DISABLED", "Workflow disabled",
		"The workflow accepts no new sagas.", 409)
	CodeStale = Problems.Add("WORKFLOW_VERSION_CONFLICT", "The workflow has changed",
		"If-Match named a version other than the workflow's current one.", 412)
	CodeInvalid = Problems.Add("WORKFLOW_INVALID", "Invalid definition",
		"The definition has several kinds of errors, or one without its own code. `errors` lists them all with "+
			"JSON Pointers into the definition.", 422)
	CodeSyntax = Problems.Add("WORKFLOW_SYNTAX", "Definition unreadable",
		"The definition is not YAML, contains several YAML documents, or uses anchors or aliases.", 422)
	CodeEmpty = Problems.Add("WORKFLOW_EMPTY", "No steps",
		"The definition has no steps.", 422)
	CodeTooManySteps = Problems.Add("WORKFLOW_TOO_MANY_STEPS", "Too many steps",
		"The definition has more steps than the server's limit.", 422)
	CodeDuplicateStep = Problems.Add("WORKFLOW_DUPLICATE_STEP", "Duplicate step",
		"Two steps have the same name.", 422)
	CodeCyclic = Problems.Add("WORKFLOW_CYCLIC", "Cyclic steps",
		"Steps depend on each other in a cycle, so none of them can run first.", 422)
	CodeUnknownDependency = Problems.Add("WORKFLOW_UNKNOWN_DEPENDENCY", "Unknown dependency",
		"depends_on names a step that does not exist.", 422)
	CodeInvalidURL = Problems.Add("WORKFLOW_INVALID_URL", "Invalid URL",
		"The URL of a participant is not an absolute http or https URL.", 422)
	CodeURLNotAllowed = Problems.Add("WORKFLOW_URL_NOT_ALLOWED", "URL not allowed",
		"The server's egress rules do not allow the URL of a participant, so it could never be called: an "+
			"address or port that is blocked, or an address in an unusual notation. See `egress` in "+
			"docs/configuration.md.", 422)
	CodeExpression = Problems.Add("WORKFLOW_EXPRESSION", "Invalid expression",
		"An expression in `${…}`, or a rule of `answer`, cannot be evaluated: it does not compile, refers to something "+
			"that does not exist or that cannot have happened yet, or does not yield true or false where that is "+
			"required. See docs/workflows.md.", 422)
	CodeSecret = Problems.Add("WORKFLOW_SECRET_NOT_ALLOWED", "Secret not allowed",
		"A request has a secret that its participant does not get from this server: the secret is not bound to it under "+
			"`participant_secrets` of the configuration, or the request does not go to a registered participant. See "+
			"docs/workflows.md.", 422)
	CodeMissingCompensation = Problems.Add("WORKFLOW_MISSING_COMPENSATION", "Missing compensation",
		"A step has no compensation. If there is nothing to compensate, write `compensation: none`.", 422)
	CodeCompensationAfterPivot = Problems.Add("WORKFLOW_COMPENSATION_AFTER_PIVOT", "Compensation after the pivot",
		"A step that runs after the pivot has a compensation. After the pivot nothing is compensated, so write "+
			"`compensation: none`, or let the pivot depend on the step.", 422)
	CodeSecondPivot = Problems.Add("WORKFLOW_SECOND_PIVOT", "Second pivot",
		"Two steps are pivots. The saga cannot be compensated after the first one, so a workflow has at most one.", 422)
	CodeAfterPivot = Problems.Add("WORKFLOW_ON_FAILURE_AFTER_PIVOT", "on_failure after the pivot",
		"A step that runs after the pivot has `on_failure`. Such a step is retried until it succeeds, and a "+
			"refusal suspends the saga until an operator decides: omit `on_failure`.", 422)
)
