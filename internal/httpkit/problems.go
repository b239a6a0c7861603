package httpkit

import "github.com/skald-saga/skald/internal/fault"

// Problems are the problems of requests to any subject.
var Problems fault.Catalogue

// Their codes, stable and part of the API.
var (
	CodeUnreadable = Problems.Add("REQ_UNREADABLE", "Request body incomplete",
		"The connection ended or stalled before the whole body arrived.", 400)
	CodeRateLimited = Problems.Add("REQ_RATE_LIMITED", "Too many requests",
		"The credential or its tenant has made more requests than `limits` allows; `detail` and the header "+
			"RateLimit name the limit. Nothing was done; retry after the time given in Retry-After.", 429)
	CodeTooSlow = Problems.Add("REQ_TOO_SLOW", "Request body too slow",
		"The client sent the body at a lower rate than `server.min_body_rate`, or took longer than "+
			"`server.read_timeout`. Nothing was done; send the request again.", 408)
	CodeTwoLengths = Problems.Add("REQ_TWO_LENGTHS", "Two body lengths",
		"The request, or an earlier one on the same connection, had both Content-Length and Transfer-Encoding. "+
			"Servers disagree about where such a request ends, so it is refused and the connection is closed.", 400)
	CodeManyHeaders = Problems.Add("REQ_TOO_MANY_HEADERS", "Too many headers",
		"The request has more than 100 header lines. Headers of more than 64 KiB in total are refused with the "+
			"same status and without a problem document.", 431)
	CodeInvalidUTF8 = Problems.Add("REQ_INVALID_UTF8", "Not UTF-8",
		"The body is not UTF-8.", 400)
	CodeInvalidJSON = Problems.Add("REQ_INVALID_JSON", "Invalid JSON",
		"The body is not exactly one JSON value: a syntax error, data after the value, half a surrogate pair, or "+
			"a number with too many digits. `detail` gives the position.", 400)
	CodeDuplicateKey = Problems.Add("REQ_DUPLICATE_KEY", "Duplicate key",
		"An object in the body has the same key twice.", 400)
	CodeTooDeep = Problems.Add("REQ_TOO_DEEP", "JSON too deep",
		"The body nests deeper than the server's limit.", 400)
	CodeNUL = Problems.Add("REQ_NUL_CHARACTER", "NUL character",
		"A string contains the character U+0000, which cannot be stored.", 400)
	CodeSchema = Problems.Add("REQ_SCHEMA", "Request does not match the contract",
		"The body is valid JSON but does not match the contract. `errors` lists every error with a JSON Pointer; "+
			"unknown members count as errors.", 422)
	CodeInvalidParameter = Problems.Add("REQ_INVALID_PARAMETER", "Invalid parameter",
		"A path, query or header parameter has a value that is not allowed. `errors` names it. A cursor that is "+
			"damaged, belongs to another list, or is used with other filters is also reported this way.", 400)
	CodeUnknownParameter = Problems.Add("REQ_UNKNOWN_PARAMETER", "Unknown parameter",
		"The operation has no such query parameter. It is rejected rather than ignored, because the answer might otherwise be wrong.", 400)
	CodeIfMatch = Problems.Add("REQ_IF_MATCH_REQUIRED", "If-Match required",
		"The operation changes a resource that another client may have changed in the meantime, and requires "+
			"If-Match: always where the contract marks it `x-if-match: required`, otherwise because of "+
			"`server.require_if_match`. Read the resource with the GET that `detail` names, and send its ETag. "+
			"`If-Match: *` matches any version.", 428)
	CodeKeepsChanging = Problems.Add("REQ_KEEPS_CHANGING", "The resource keeps changing",
		"Other requests changed the resource during each of several attempts at this change. Nothing was done; "+
			"send it again after the time given in Retry-After. With If-Match, the first conflict returns 412.", 409)
	CodeMediaType = Problems.Add("REQ_UNSUPPORTED_MEDIA_TYPE", "Unsupported media type",
		"The Content-Type is missing or not accepted by the operation, or a body was sent to an operation that "+
			"takes none.", 415)
	CodeEncoding = Problems.Add("REQ_UNSUPPORTED_ENCODING", "Unsupported content encoding",
		"The body was sent with a Content-Encoding, such as gzip. Send it without one.", 415)
	CodeNotFound = Problems.Add("REQ_NOT_FOUND", "No such path",
		"The API has no such path.", 404)
	CodeMethod = Problems.Add("REQ_METHOD_NOT_ALLOWED", "Method not allowed",
		"The path does not support this method. The header Allow lists those that it supports.", 405)
	CodeCrossSite = Problems.Add("AUTH_CROSS_SITE", "Cross-site request refused",
		"The request was made with a session, which browsers send automatically, and neither Sec-Fetch-Site nor "+
			"Origin proves that a page of this server sent it. In development mode, which requires no credential, "+
			"this is also the response to requests from web pages of other sites, and to requests that are not "+
			"addressed to localhost or a loopback address.", 403)
	CodeAnswerNotKept = Problems.Add("REQ_IDEMPOTENCY_ANSWER_NOT_KEPT", "Response not kept",
		"A request with this Idempotency-Key took effect, but its response cannot be repeated: it contained a "+
			"secret, was larger than 1 MiB, or the server stopped before storing it. `detail` names the resource "+
			"that it created. Read that resource; use a new key to repeat the request.", 409)
	CodeTooManyStreams = Problems.Add("REQ_TOO_MANY_STREAMS", "Too many streams",
		"This node has reached its maximum number of live streams, in total (`server.max_streams`) or for this tenant "+
			"(`limits.tenant_streams`). Retry after the time given in Retry-After, perhaps on another node, or read the feed with "+
			"`?wait=`.", 429)
	CodeInternal = Problems.Add("SYS_INTERNAL", "Internal error",
		"The request failed because of a bug in Skald. The server logs the error under the request id.", 500)
)
