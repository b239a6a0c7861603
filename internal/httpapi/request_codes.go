package httpapi

// Codes of problems that requests to any subject may have.
const (
	codeTooLarge         = "REQ_TOO_LARGE"
	codeUnreadable       = "REQ_UNREADABLE"
	codeInvalidUTF8      = "REQ_INVALID_UTF8"
	codeInvalidJSON      = "REQ_INVALID_JSON"
	codeDuplicateKey     = "REQ_DUPLICATE_KEY"
	codeTooDeep          = "REQ_TOO_DEEP"
	codeNUL              = "REQ_NUL_CHARACTER"
	codeSchema           = "REQ_SCHEMA"
	codeInvalidParameter = "REQ_INVALID_PARAMETER"
	codeUnknownParameter = "REQ_UNKNOWN_PARAMETER"
	codeMediaType        = "REQ_UNSUPPORTED_MEDIA_TYPE"
	codeNotFound         = "REQ_NOT_FOUND"
	codeMethod           = "REQ_METHOD_NOT_ALLOWED"
	codeCrossSite        = "AUTH_CROSS_SITE"
	codeKeyInUse         = "REQ_IDEMPOTENCY_KEY_IN_USE"
	codeTooManyStreams   = "SYS_TOO_MANY_STREAMS"
	codeUnavailable      = "SYS_UNAVAILABLE"
	codeInternal         = "SYS_INTERNAL"
)
