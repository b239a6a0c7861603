package access

import "github.com/skald-saga/skald/internal/fault"

// Problems are the problem types of API keys and sessions.
var Problems fault.Catalogue

// These are the codes of the problems. They are stable and part of the API.
var (
	CodeKeyNotFound = Problems.Add("AUTH_KEY_NOT_FOUND", "No such API key",
		"There is no API key with this id, or it belongs to another tenant.", 404)
	CodeSessionNotFound = Problems.Add("AUTH_SESSION_NOT_FOUND", "No such session",
		"There is no session with this id, it belongs to another caller, or it has ended: 12 hours after sign-in, "+
			"an hour after its last use, or because it was deleted.", 404)
	CodeSessionRefused = Problems.Add("AUTH_SESSION_REFUSED", "Session cannot be opened",
		"No session can be opened: the request was itself made with a session, or the server runs in development "+
			"mode, where no credential is required.", 409)
	CodeProviderDown = Problems.Add("AUTH_PROVIDER_UNAVAILABLE", "Identity provider unavailable",
		"Sign-in with the identity provider is not possible: it is unreachable, or its response is invalid. The "+
			"server's log has the details. Try again, or sign in with an API key.", 503)
	CodeKeyRefused = Problems.Add("AUTH_KEY_REFUSED", "Invalid API key request",
		"The requested API key is not allowed; `errors` gives the reasons.", 422)
)
