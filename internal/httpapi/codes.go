package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// problems lists every code of the API, in the order of the document.
var problems = slices.Concat([]problemKind{
	{fault.CodeTooLarge, []int{413}, "Request too large", "The body is larger than the server's limit, or a definition larger than the limit for definitions. The server stopped reading it."},
	{httpkit.CodeUnreadable, []int{400}, "Request body incomplete", "The connection ended or stalled before the whole body arrived."},
	{httpkit.CodeRateLimited, []int{429}, "Too many requests", "The credential or its tenant has made more requests than `limits` allows; `detail` and the header RateLimit name the limit. Nothing was done; retry after Retry-After."},
	{httpkit.CodeTooSlow, []int{408}, "Request body too slow", "The client sent the body more slowly than `server.min_body_rate`, or took longer than `server.read_timeout`. Nothing was done; send the request again."},
	{httpkit.CodeTwoLengths, []int{400}, "Two lengths", "The request, or an earlier one on the same connection, had both Content-Length and Transfer-Encoding. Servers disagree about where such a request ends, so it is refused and the connection is closed."},
	{httpkit.CodeManyHeaders, []int{431}, "Too many headers", "The request has more than 100 header lines. Headers of more than 64 KiB in total are refused with the same status and without a problem document."},
	{httpkit.CodeInvalidUTF8, []int{400}, "Not UTF-8", "The body is not UTF-8."},
	{httpkit.CodeInvalidJSON, []int{400}, "Invalid JSON", "The body is not exactly one JSON value: a syntax error, data after the value, half a surrogate pair, or a number with too many digits. `detail` gives the position."},
	{httpkit.CodeDuplicateKey, []int{400}, "Duplicate key", "An object in the body has the same key twice."},
	{httpkit.CodeTooDeep, []int{400}, "JSON too deep", "The body nests deeper than the server's limit."},
	{httpkit.CodeNUL, []int{400}, "NUL character", "A string holds the character U+0000, which cannot be stored."},
	{httpkit.CodeSchema, []int{422}, "Request does not match the contract", "The body is valid JSON but does not match the contract. `errors` lists every error with a JSON Pointer; unknown members count as errors."},
	{httpkit.CodeInvalidParameter, []int{400}, "Invalid parameter", "A path, query or header parameter has a value that is not allowed. `errors` names it. A cursor that is damaged, belongs to another list, or is used with other filters is also reported this way."},
	{httpkit.CodeUnknownParameter, []int{400}, "Unknown parameter", "The operation has no such query parameter. It is not ignored, because the answer could then be wrong."},
	{httpkit.CodeIfMatch, []int{428}, "If-Match required", "The operation changes what another client may have changed in the meantime, and requires If-Match: always where the contract marks it `x-if-match: required`, otherwise because of `server.require_if_match`. Read the resource with the GET that `detail` names, and send its ETag. `If-Match: *` changes whatever version there is."},
	{httpkit.CodeKeepsChanging, []int{409}, "The resource keeps changing", "Other requests changed the resource each of the few times that this change was decided. Nothing was done; send it again after Retry-After. With If-Match the answer would have been 412 at once."},
	{httpkit.CodeMediaType, []int{415}, "Unsupported media type", "The Content-Type is missing or not one the operation takes, or a body was sent to an operation that takes none."},
	{httpkit.CodeEncoding, []int{415}, "Unsupported content encoding", "The body was sent with a Content-Encoding, such as gzip. Send it without one."},
	{httpkit.CodeNotFound, []int{404}, "No such path", "The API has no such path."},
	{httpkit.CodeMethod, []int{405}, "Method not allowed", "The path exists without this method. The header Allow lists those it has."},
	{principal.CodeRequired, []int{401}, "Credential required", "The request has no credential, and this operation needs one."},
	{principal.CodeInvalid, []int{401}, "Invalid credential", "The credential was not accepted: it is unknown, expired, revoked, malformed, or from another issuer or audience. The server's log says which, under the request id."},
	{principal.CodeForbidden, []int{403}, "Permission denied", "The credential is valid but lacks the permission that `detail` names, or is a worker's key for other queues. See docs/security.md for the roles."},
	{principal.CodeTenantMismatch, []int{403}, "Wrong tenant", "The credential belongs to one tenant, but the X-Tenant headers or the requested resource name another."},
	{httpkit.CodeCrossSite, []int{403}, "Cross-site request refused", "The request was made with a session, which browsers send automatically, and nothing proves that a page of this server sent it: neither Sec-Fetch-Site nor Origin says so. In development mode, which requires no credential, requests from web pages of other sites are refused, and so are requests that are not addressed to localhost or a loopback address."},
	{access.CodeKeyNotFound, []int{404}, "No such API key", "There is no API key with this id, or not for this tenant."},
	{access.CodeSessionNotFound, []int{404}, "No such session", "There is no session with this id, or not for this caller, or it has ended: 12 hours after sign-in, an hour after its last use, or because it was deleted."},
	{access.CodeSessionRefused, []int{409}, "No session possible", "No session can be made: the request was itself made with a session, or the server runs in development mode, where no credential is required."},
	{access.CodeProviderDown, []int{503}, "Identity provider unavailable", "Signing in at the identity provider is not possible: it cannot be reached, or does not answer as it should. The server's log says more. Try again, or sign in with an API key."},
	{access.CodeKeyRefused, []int{422}, "Invalid API key request", "The requested API key is not allowed: `errors` says why."},
	{idempotency.CodeUsed, []int{422}, "Idempotency-Key used for another request", "The key belongs to an earlier request with another path or body. Use a new key for a new request."},
	{idempotency.CodeInUse, []int{409}, "Request already in progress", "A request with this Idempotency-Key, or for a new saga with this saga_id, is still being processed. Retry after Retry-After."},
	{httpkit.CodeAnswerNotKept, []int{409}, "Response not kept", "A request with this Idempotency-Key took effect, but its response cannot be repeated: it held a secret, was larger than 1 MiB, or the server ended before storing it. `detail` names what it created. Read that; use a new key to do it again."},
	{saga.CodeNotFound, []int{404}, "No such saga", "The tenant has no saga with this id."},
	{saga.CodeExists, []int{409}, "Saga already exists", "A saga with this saga_id already exists. With an Idempotency-Key, the repeated request would have received the original response."},
	{saga.CodeBusinessKey, []int{409}, "Business key in use", "An unfinished saga of the workflow has this business key; `errors` names it. `on_conflict: return_existing` would have answered with that saga. Also returned when a saga cannot be reopened because another saga now has its key."},
	{saga.CodeStateConflict, []int{409}, "The saga's state forbids this", "The action is not possible in the saga's current state. `allowed_actions` lists those that are."},
	{saga.CodeDefinitionUnreadable, []int{409}, "Definition unreadable", "The workflow definition to which the saga is pinned is damaged or missing, and the action needs it. `detail` names it and the way out; `allowed_actions` lists what is possible meanwhile. See docs/operations.md, \"Damaged rows\"."},
	{saga.CodeContentUnreadable, []int{409}, "Content unreadable", "Encrypted content of the saga cannot be decrypted, and the action needs it: its key is not configured, or it was tampered with. `allowed_actions` lists what is possible meanwhile."},
	{saga.CodeArchived, []int{409}, "The saga is archived", "The saga has ended and is in the archive, where it can only be read. `allowed_actions` says that it can be restored."},
	{saga.CodeNotArchived, []int{409}, "The saga is not archived", "Only an archived saga can be restored, and this one is live. `allowed_actions` lists what is possible instead."},
	{erasure.CodeNotErasable, []int{409}, "Content cannot be erased", "A saga, dead letter or job run of the request is still active and needs its content, or its audit trail was tampered with; `detail` says which. Nothing was erased."},
	{sagaapi.CodeNoStep, []int{404, 422}, "No such step", "The saga's workflow has no step with this name or index. 404 where the path names it, 422 where the body does."},
	{sagaapi.CodeNoResult, []int{409}, "No result", "Only a completed saga has a result. This one has not ended yet, or it ended otherwise."},
	{saga.CodeStale, []int{412}, "The saga has changed", "If-Match named another version than the saga's current one. Read it again and decide again."},
	{saga.CodeUnstorable, []int{422}, "Content cannot be stored", "The database cannot store the content, for example because a number is out of range, or the payload is the mark that stands for erased content."},
	{sagabulk.CodeNotFound, []int{404}, "No such bulk operation", "The tenant has no bulk operation on sagas with this id. They are deleted as long after their end as job runs."},
	{sagabulk.CodeConflict, []int{409}, "The state of the bulk operation forbids it", "One that has ended can be neither canceled nor changed, and only a halted one can be resumed. What it has done stays done."},
	{sagabulk.CodeInvalid, []int{422}, "Bulk operation matches nothing", "The filter excludes every saga that could accept the action, such as ended ones for `cancel`; `errors` says why."},
	{sagabulk.CodeStale, []int{412}, "The bulk operation has changed", "If-Match named another version than the current one. Read it again and decide again."},
	{workflow.CodeNotFound, []int{404, 422}, "No such workflow", "The tenant has no workflow with this name, or not this version of it. 404 where the path names it, 422 where the body of a new saga does."},
	{workflow.CodeUnreadable, []int{409}, "Definition unreadable", "The stored definition of this version is damaged, for example by a bad restore. Register the same definition again, or restore its row from a backup."},
	{workflow.CodeDisabled, []int{409}, "Workflow disabled", "The workflow accepts no new sagas."},
	{workflow.CodeStale, []int{412}, "The workflow has changed", "If-Match named another version than the workflow's current one."},
	{workflow.CodeInvalid, []int{422}, "Invalid definition", "The definition has several kinds of errors, or one without a code of its own. `errors` lists them all with JSON Pointers into the definition."},
	{workflow.CodeSyntax, []int{422}, "Definition unreadable", "The definition is not YAML, holds several YAML documents, or uses anchors or aliases."},
	{workflow.CodeEmpty, []int{422}, "No steps", "The definition has no steps."},
	{workflow.CodeTooManySteps, []int{422}, "Too many steps", "The definition has more steps than the server's limit."},
	{workflow.CodeDuplicateStep, []int{422}, "Duplicate step", "Two steps have the same name."},
	{workflow.CodeCyclic, []int{422}, "Cyclic steps", "Steps depend on each other in a cycle, so none can be first."},
	{workflow.CodeUnknownDependency, []int{422}, "Unknown dependency", "depends_on names a step that does not exist."},
	{workflow.CodeInvalidURL, []int{422}, "Invalid URL", "The URL of a participant is not an absolute http or https URL."},
	{workflow.CodeURLNotAllowed, []int{422}, "URL not allowed", "The server's egress rules do not allow the URL of a participant, so it could never be called: an address or port that is closed, or an address in an unusual spelling. See `egress` in docs/configuration.md."},
	{workflow.CodeMissingCompensation, []int{422}, "Missing compensation", "A step has no compensation. If there is nothing to compensate, write `compensation: none`."},
	{webhook.CodeNotFound, []int{404}, "No such webhook", "The tenant has no webhook with this id."},
	{webhook.CodeDeliveryNotFound, []int{404}, "No such delivery", "The webhook has no delivery with this id; finished deliveries are kept for a limited time."},
	{webhook.CodeInvalid, []int{422}, "Invalid webhook", "The URL, an event type or a workflow name is invalid. `errors` lists every error."},
	{webhook.CodeURL, []int{422}, "URL not allowed", "The server's egress rules do not allow the URL, so nothing could ever be delivered there."},
	{webhook.CodeStale, []int{412}, "The webhook has changed", "If-Match named another version than the webhook's current one."},
	{webhook.CodeLimit, []int{409}, "Too many webhooks", "The tenant has the maximum number of webhooks."},
	{webhook.CodeDisabled, []int{409}, "Webhook disabled", "The webhook sends nothing while it is disabled; `detail` says why it is disabled. Enable it first."},
	{dlq.CodeNotFound, []int{404}, "No such dead letter", "The tenant has no dead letter with this id, live or archived."},
	{dlq.CodeInvalid, []int{422}, "Invalid dead letter", "The dead letter that was pushed, imported or edited is invalid. `errors` lists every error."},
	{dlq.CodeClosed, []int{409}, "Content unreadable", "Content of the dead letter cannot be read, and the request needs it: its key is not configured, or it is damaged. The letter can be discarded or resolved."},
	{dlq.CodeConflict, []int{409}, "The dead letter's status forbids this", "The action is not possible in the current status of the dead letter, or it is in the archive. `current` gives its status and version, `allowed_actions` what is possible."},
	{dlq.CodeStale, []int{412}, "The dead letter has changed", "If-Match named another version than the current one of the dead letter, its group, its topic's policy, or the redrive. Read it again and decide again."},
	{dlq.CodeKeyBlocked, []int{409}, "An older letter of the key is open", "The topic is ordered, and an older dead letter with the same key waits or is being retried. `detail` names it: resolve that one first."},
	{dlq.CodeTarget, []int{422}, "Target not allowed", "A retry must not send the letter there: the topic is a dead-letter topic that Skald reads, or neither the letter nor its topic's policy allows the topic or URL, or the server's egress rules do not."},
	{dlq.CodeNoKafka, []int{503}, "Kafka not configured", "No brokers are configured, so nothing can be sent to a topic. Set `kafka.brokers`. Nothing was changed or counted."},
	{dlq.CodeFailed, []int{502}, "Delivery to the target failed", "The target refused the letter or did not respond. The retry counts, unless the retry named another topic or partition than the letter's and Kafka does not have it: `message` is the dead letter as it is now, PENDING or DEAD."},
	{dlq.CodeSagaWaits, []int{409}, "A saga is waiting for the dead letter", "The letter belongs to a compensation that a saga waits for. Retry it, or resolve it if the step was compensated manually; `force` discards it anyway."},
	{dlq.CodeGroupNotFound, []int{404}, "No such group", "The tenant has no group of dead letters with this fingerprint."},
	{dlq.CodeTopicNotFound, []int{404}, "No such topic", "The tenant has never had a dead letter of this topic that is still known, live, archived or in a group, and no policy names it: check the spelling. `GET /dlq/topics/{topic}` also says so when all its letters are archived."},
	{dlq.CodeRedriveNotFound, []int{404}, "No such redrive", "The tenant has no redrive with this id."},
	{dlq.CodeRedriveConflict, []int{409}, "The redrive's state forbids this", "The action is not possible in the current state of the redrive. `allowed_actions` lists those that are."},
	{dlq.CodeRedriveExists, []int{409}, "Redrive already exists", "A redrive with this id already exists."},
	{dlq.CodeSelfApproval, []int{403}, "Self-approval not allowed", "A redrive that needs approval must be approved by someone other than its requester."},
	{dlq.CodeImport, []int{422}, "Some lines could not be imported", "The other lines are imported; `import` has the counts and the error of each line. Fix them and import the same file again: lines already imported are not changed."},
	{dlq.CodeUnavailable, []int{503}, "Dead-letter queue unavailable", "The server was started with `--store memory`, which has no dead-letter queue."},
}, jobProblems, []problemKind{
	{fault.CodeUnavailable, []int{503}, "Unavailable", "The server cannot do this right now, usually because the database is unreachable. Retry after Retry-After. A write may have happened: with an Idempotency-Key or your own saga_id, a retry is safe."},
	{httpkit.CodeTooManyStreams, []int{429}, "Too many streams", "This node has reached its maximum of live streams, in all (`server.max_streams`) or of this tenant (`limits.tenant_streams`). Retry after Retry-After, perhaps on another node, or read the feed with `?wait=`."},
	{httpkit.CodeInternal, []int{500}, "Internal error", "A bug in Skald. The server logs it under the request id."},
})

// problemsPage is where the codes are explained, in the manual of the server that answered.
const problemsPage = "/docs/problems"

// titleOf returns the title of a code, or the status text for one that is not listed,
// which a test excludes.
func titleOf(code string, status int) string {
	if i := slices.IndexFunc(problems, func(k problemKind) bool { return k.code == code }); i >= 0 {
		return problems[i].title
	}
	return http.StatusText(status)
}

func typeOf(code string) string { return problemsPage + "#" + strings.ToLower(code) }
