package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Binding says which secrets a participant may receive, and which base URL it must have. Secrets
// are bound by the operators of a server in its configuration. A user who may register a
// participant or a workflow cannot bind them (decision 0149).
type Binding struct {
	TenantID    uuid.UUID
	Participant string
	BaseURL     string // in the form that BaseOf returns
	Secrets     []string
}

// Refusal says why a secret must not be sent to a URL, or "" if it may. The URL is a base URL of
// the participant or the address of a call. b is nil if nothing is bound to the participant.
func (b *Binding) Refusal(participant, secret, url string) string {
	switch {
	case b == nil:
		return fmt.Sprintf("no secret is bound to participant %q on this server: bind %q to it under "+
			"participant_secrets in the configuration", participant, secret)
	case !slices.Contains(b.Secrets, secret):
		return fmt.Sprintf("secret %q is not bound to participant %q on this server (bound: %s): use one of these, "+
			"or bind it under participant_secrets in the configuration", secret, participant, strings.Join(b.Secrets, ", "))
	case url != "" && !b.Reaches(url):
		return fmt.Sprintf("the secrets of participant %q are only for %s and below, but its URL is elsewhere: change its base_url "+
			"back, or change base_url under participant_secrets in the configuration", participant, b.BaseURL)
	}
	return ""
}

// Reaches reports whether a URL is at or below the binding's base URL.
func (b *Binding) Reaches(url string) bool {
	at, ok := PlaceOf(b.BaseURL)
	to, is := PlaceOf(url)
	return ok && is && at.Holds(&to) && !climbs(to.Path)
}

// climbs reports whether a path has a segment that a server may interpret as . or .., so that the
// path leads elsewhere.
func climbs(path string) bool {
	path = strings.ReplaceAll(strings.ToLower(path), "%2e", ".")
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}
