package registry

import (
	"strconv"

	"github.com/skald-saga/skald/internal/fault"
)

// MaxPerTenant is the maximum number of participants of a tenant.
const MaxPerTenant = 1000

// Problems is the catalogue of the problems of participants.
var Problems fault.Catalogue

// Their codes, which are stable and part of the API.
var (
	CodeNotFound = Problems.Add("SAGA_PARTICIPANT_NOT_FOUND", "No such participant",
		"The tenant has no participant with this name.", 404)
	CodeInvalid = Problems.Add("SAGA_PARTICIPANT_INVALID", "Invalid participant",
		"The name, the URL or a header is invalid. `errors` lists every error.", 422)
	CodeURL = Problems.Add("SAGA_PARTICIPANT_URL_NOT_ALLOWED", "URL not allowed",
		"The server's egress rules do not allow the base URL, so no call could ever reach the participant.", 422)
	CodeSecret = Problems.Add("SAGA_PARTICIPANT_SECRET_NOT_ALLOWED", "Secret not allowed",
		"A header has a secret that the participant does not get from this server: it is not bound to this name and base "+
			"URL under `participant_secrets` of the configuration.", 422)
	CodeURLTaken = Problems.Add("SAGA_PARTICIPANT_URL_TAKEN", "Another participant has this URL",
		"The tenant has a participant with the same base URL under another name, so a call would belong to both.", 409)
	CodeLimit = Problems.Add("SAGA_PARTICIPANT_LIMIT_REACHED", "Too many participants",
		"The tenant has the maximum number of participants.", 409)
	CodeStale = Problems.Add("SAGA_PARTICIPANT_VERSION_CONFLICT", "The participant has changed",
		"If-Match named a version other than the participant's current one.", 412)
)

// NotFound is the fault for a name that the tenant has not registered.
func NotFound(name string) error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no participant %s", strconv.Quote(name))
}

// Stale is the fault for a write to a version other than the current one.
func Stale(name string, present int64) error {
	return fault.New(fault.Precondition, CodeStale, "the participant %s is at version %d", strconv.Quote(name), present)
}

// Taken is the fault for a base URL that belongs to another participant.
func Taken(url string) error {
	return fault.New(fault.Conflict, CodeURLTaken, "another participant has the base URL %s", url)
}

// Full is the fault for a tenant that already has MaxPerTenant participants.
func Full() error {
	return fault.New(fault.Conflict, CodeLimit, "there are already %d participants", MaxPerTenant)
}
