package registry

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// CodeUnknown is the outcome code of a call whose participant is no longer registered.
const CodeUnknown = "participant_unknown"

// CodeSecretUnavailable is the outcome code of a call whose secret has no value. Nothing was sent,
// so the outcome says nothing about the participant.
const CodeSecretUnavailable = "secret_unavailable"

// Unknown is the outcome of a call that names a participant that the tenant does not have. Nothing
// was sent, and the participant may be registered again before the next attempt.
func Unknown(c *saga.Call, now time.Time) saga.Outcome {
	name := c.By.Names()
	return saga.Outcome{
		Verdict: saga.NotApplied, Class: retry.Unavailable, Code: CodeUnknown,
		Message: "no participant " + strconv.Quote(name) + " is registered; PUT /participants/" + name +
			" registers it",
		StartedAt: now, EndedAt: now,
	}
}

// Address completes a call that names a participant: it sets the URL below the participant's base
// URL, adds the participant's headers that the step does not set, and uses the participant's
// timeout if the step has none. Method, key and body come from the definition and stay the same in
// every attempt.
func (s *Settings) Address(c *saga.Call) {
	standing := StandingOf(s.Headers)
	s.AddressWith(c, &standing)
}

// AddressWith is like Address, with a Standing computed beforehand.
func (s *Settings) AddressWith(c *saga.Call, standing *Standing) {
	to := *c.By.HTTP // the definition shares it
	to.URL = s.BaseURL + to.Path
	if standing.secrets != nil {
		to.Secrets = standing.beneath(&to)
	}
	to.Headers = beneath(standing.headers, to.Headers)
	c.By.HTTP = &to
	if s.TimeoutMS > 0 && !c.OwnTimeout {
		c.Timeout = time.Duration(s.TimeoutMS) * time.Millisecond
	}
}

// beneath returns the headers of a step together with those of its participant that the step does
// not set.
func beneath(base, own map[string]string) map[string]string {
	if len(base) == 0 {
		return own
	}
	all := maps.Clone(base)
	for name := range own {
		for other := range base {
			if strings.EqualFold(name, other) {
				delete(all, other)
			}
		}
	}
	maps.Copy(all, own)
	return all
}
