package webhook

import "github.com/skald-saga/skald/internal/fault"

// Problems are the problem types of webhooks.
var Problems fault.Catalogue

// These are the codes of the problems. They are stable and part of the API.
var (
	CodeNotFound = Problems.Add("WEBHOOK_NOT_FOUND", "No such webhook",
		"The tenant has no webhook with this id.", 404)
	CodeDeliveryNotFound = Problems.Add("WEBHOOK_DELIVERY_NOT_FOUND", "No such delivery",
		"The webhook has no delivery with this id; finished deliveries are kept for a limited time.", 404)
	CodeInvalid = Problems.Add("WEBHOOK_INVALID", "Invalid webhook",
		"The URL, an event type or a workflow name is invalid. `errors` lists every error.", 422)
	CodeURL = Problems.Add("WEBHOOK_URL_NOT_ALLOWED", "URL not allowed",
		"The server's egress rules do not allow the URL, so no event could be delivered to it.", 422)
	CodeStale = Problems.Add("WEBHOOK_VERSION_CONFLICT", "The webhook has changed",
		"If-Match named a version other than the webhook's current one.", 412)
	CodeLimit = Problems.Add("WEBHOOK_LIMIT_REACHED", "Too many webhooks",
		"The tenant has the maximum number of webhooks.", 409)
	CodeDisabled = Problems.Add("WEBHOOK_DISABLED", "Webhook disabled",
		"The webhook sends nothing while it is disabled; `detail` gives the reason. Enable it first.", 409)
)
