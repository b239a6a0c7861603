package httpkit

// Codes of problems that requests to any subject may have.
const (
	CodeUnreadable       = "REQ_UNREADABLE"
	CodeRateLimited      = "REQ_RATE_LIMITED"
	CodeTooSlow          = "REQ_TOO_SLOW"
	CodeTwoLengths       = "REQ_TWO_LENGTHS"
	CodeManyHeaders      = "REQ_TOO_MANY_HEADERS"
	CodeEncoding         = "REQ_UNSUPPORTED_ENCODING"
	CodeInvalidUTF8      = "REQ_INVALID_UTF8"
	CodeInvalidJSON      = "REQ_INVALID_JSON"
	CodeDuplicateKey     = "REQ_DUPLICATE_KEY"
	CodeTooDeep          = "REQ_TOO_DEEP"
	CodeNUL              = "REQ_NUL_CHARACTER"
	CodeSchema           = "REQ_SCHEMA"
	CodeInvalidParameter = "REQ_INVALID_PARAMETER"
	CodeUnknownParameter = "REQ_UNKNOWN_PARAMETER"
	CodeIfMatch          = "REQ_IF_MATCH_REQUIRED"
	CodeMediaType        = "REQ_UNSUPPORTED_MEDIA_TYPE"
	CodeNotFound         = "REQ_NOT_FOUND"
	CodeKeepsChanging    = "REQ_KEEPS_CHANGING"
	CodeMethod           = "REQ_METHOD_NOT_ALLOWED"
	CodeCrossSite        = "AUTH_CROSS_SITE"
	CodeAnswerNotKept    = "REQ_IDEMPOTENCY_ANSWER_NOT_KEPT"
	CodeTooManyStreams   = "SYS_TOO_MANY_STREAMS"
	CodeInternal         = "SYS_INTERNAL"
)
