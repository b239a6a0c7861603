package dlq

import (
	"github.com/skald-saga/skald/internal/fault"
)

// Problems lists the problem types of dead letters and redrives.
var Problems fault.Catalogue

// Their codes are stable and part of the API.
var (
	CodeNotFound = Problems.Add("DLQ_NOT_FOUND", "No such dead letter",
		"The tenant has no dead letter with this id, live or archived.", 404)
	CodeInvalid = Problems.Add("DLQ_INVALID", "Invalid dead letter",
		"The dead letter that was pushed, imported or edited is invalid. `errors` lists every error.", 422)
	CodeClosed = Problems.Add("DLQ_CONTENT_UNREADABLE", "Content unreadable",
		"The request requires content of the dead letter that cannot be read, because its key is not configured or "+
			"the content is damaged. The letter can still be discarded or resolved.", 409)
	CodeConflict = Problems.Add("DLQ_CONFLICT", "The dead letter's status forbids this",
		"The current status of the dead letter does not allow the action, or the letter is in the archive. "+
			"`current` gives its status and version, and `allowed_actions` lists the possible actions.", 409)
	CodeStale = Problems.Add("DLQ_VERSION_CONFLICT", "The dead letter has changed",
		"If-Match named a version other than the current version of the dead letter, group, policy or redrive that "+
			"the request changes. Read the resource again, and repeat the request if it still applies.", 412)
	CodeTargetHeld = Problems.Add("DLQ_TARGET_HELD", "The target is held",
		"The target belongs to a participant whose gate is not open. If the letter has a `next_retry_at`, it is "+
			"retried once the participant is released. A redrive also waits for the release.", 409)
	CodeKeyBlocked = Problems.Add("DLQ_KEY_BLOCKED", "An older letter with the same key is open",
		"The topic is ordered, and an older dead letter with the same key is waiting or being retried. `detail` "+
			"names that letter. Resolve it first.", 409)
	CodeTarget = Problems.Add("DLQ_TARGET_NOT_ALLOWED", "Target not allowed",
		"A retry must not send the letter to this target. Either the target is a dead-letter topic that Skald "+
			"reads, or the letter and its topic's policy do not allow the topic or URL, or the server's egress rules "+
			"forbid it.", 422)
	CodeNoKafka = Problems.Add("DLQ_NO_KAFKA", "Kafka not configured",
		"No brokers are configured, so nothing can be sent to a topic. Set `kafka.brokers`. Nothing was changed "+
			"or counted.", 503)
	CodeFailed = Problems.Add("DLQ_PROCESS_FAILED", "Delivery to the target failed",
		"The target rejected the letter or did not respond. The retry counts, unless it named a topic or "+
			"partition other than the letter's own and Kafka does not have it. `message` is the dead letter after "+
			"the retry, which is PENDING or DEAD.", 502)
	CodeSagaWaits = Problems.Add("DLQ_SAGA_WAITS", "A saga is waiting for the dead letter",
		"A saga is waiting for the compensation to which the letter belongs. Retry the letter, or resolve it if the "+
			"step was compensated manually. `force` discards it anyway.", 409)
	CodeGroupNotFound = Problems.Add("DLQ_GROUP_NOT_FOUND", "No such group",
		"The tenant has no group of dead letters with this fingerprint.", 404)
	CodeTopicNotFound = Problems.Add("DLQ_TOPIC_NOT_FOUND", "No such topic",
		"The tenant has no dead letters of this topic, whether live, archived or in a group, and no policy for it. "+
			"Check the spelling. `GET /dlq/topics/{topic}` also returns this problem if all letters of the topic are "+
			"archived.", 404)
	CodeRedriveNotFound = Problems.Add("DLQ_REDRIVE_NOT_FOUND", "No such redrive",
		"The tenant has no redrive with this id.", 404)
	CodeRedriveConflict = Problems.Add("DLQ_REDRIVE_CONFLICT", "The redrive's state forbids this",
		"The current state of the redrive does not allow the action. `allowed_actions` lists the possible actions.", 409)
	CodeRedriveExists = Problems.Add("DLQ_REDRIVE_EXISTS", "Redrive already exists",
		"A redrive with this id already exists.", 409)
	CodeSelfApproval = Problems.Add("DLQ_SELF_APPROVAL", "Self-approval not allowed",
		"A redrive that needs approval must be approved by someone other than its requester.", 403)
	CodeImport = Problems.Add("DLQ_IMPORT_INCOMPLETE", "Some lines could not be imported",
		"The other lines were imported. `import` contains the counts and the error of each line that failed. Fix "+
			"these lines and import the same file again; letters that already exist are left unchanged.", 422)
	CodeUnavailable = Problems.Add("DLQ_UNAVAILABLE", "Dead-letter queue unavailable",
		"The server was started with `--store memory`, which has no dead-letter queue.", 503)
)

// Verbs of operators' actions.
const (
	VerbPush    = "push" // by a client; records from Kafka leave no action
	VerbRetry   = "retry"
	VerbRequeue = "requeue"
	VerbDiscard = "discard"
	VerbResolve = "resolve"
	VerbAck     = "ack"
	VerbDelete  = "delete"
	VerbUpdate  = "update"
	VerbHalt    = "halt" // a redrive halts automatically
)

func invalid(pointer, code, message string) *fault.Error {
	return fault.New(fault.Invalid, CodeInvalid, "%s: %s", pointer, message).With(fault.Field{Pointer: pointer, Code: code,
		Message: message})
}

// mistakes collects the mistakes in a request.
type mistakes struct{ fault.Mistakes }
