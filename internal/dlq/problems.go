package dlq

import (
	"github.com/skald-saga/skald/internal/fault"
)

// Codes of problems.
const (
	CodeNotFound    = "DLQ_NOT_FOUND"
	CodeConflict    = "DLQ_CONFLICT"           // its status forbids it
	CodeStale       = "DLQ_VERSION_CONFLICT"   // another request was faster
	CodeKeyBlocked  = "DLQ_KEY_BLOCKED"        // an older letter of its key is open
	CodeTarget      = "DLQ_TARGET_NOT_ALLOWED" // it may not be driven there
	CodeInvalid     = "DLQ_INVALID"
	CodeNoKafka     = "DLQ_NO_KAFKA"       // there are no brokers to drive it to
	CodeFailed      = "DLQ_PROCESS_FAILED" // the target did not take it
	CodeSagaWaits   = "DLQ_SAGA_WAITS"     // a saga waits for it
	CodeImport      = "DLQ_IMPORT_INCOMPLETE"
	CodeUnavailable = "DLQ_UNAVAILABLE" // there are no dead letters without PostgreSQL

	CodeGroupNotFound = "DLQ_GROUP_NOT_FOUND"
	CodeTopicNotFound = "DLQ_TOPIC_NOT_FOUND"
)

// Verbs of operators.
const (
	VerbPush    = "push" // of a client; what comes from Kafka leaves no action
	VerbRetry   = "retry"
	VerbRequeue = "requeue"
	VerbDiscard = "discard"
	VerbResolve = "resolve"
	VerbAck     = "ack"
	VerbDelete  = "delete"
	VerbUpdate  = "update"
	VerbHalt    = "halt" // a redrive stops itself
)

func invalid(pointer, code, message string) *fault.Error {
	return fault.New(fault.Invalid, CodeInvalid, "%s: %s", pointer, message).With(fault.Field{Pointer: pointer, Code: code,
		Message: message})
}

// mistakes gathers what is wrong with something asked for.
type mistakes struct{ fault.Mistakes }
