package registry

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Standing holds the headers of a participant in the form used in calls, with placeholders where
// secrets belong.
type Standing struct {
	headers map[string]string
	secrets map[string][]expression.Secret
}

// StandingOf returns the headers of calls that name a participant with these headers.
func StandingOf(headers map[string]string) Standing {
	out := Standing{headers: headers}
	for name, value := range headers {
		if !expression.Has(value) {
			continue
		}
		sent, secrets, err := marked(value)
		if err != nil { // Checked has rejected it
			continue
		}
		if out.secrets == nil {
			out.headers, out.secrets = maps.Clone(headers), map[string][]expression.Secret{}
		}
		if out.headers[name] = sent; len(secrets) > 0 {
			out.secrets[name] = secrets
		}
	}
	return out
}

// marked returns the value of a header with placeholders for its secrets, and the positions of the
// secrets.
func marked(value string) (string, []expression.Secret, error) {
	text, err := expression.NewText(value, standingPlace(nil))
	if err != nil {
		return "", nil, err
	}
	e := expression.Evaluate(nil)
	sent, err := text.Append(nil, e, nil)
	return string(sent), e.Secrets, err
}

// standingPlace is the Place of a participant's headers. secret is called with the name of each
// secret; it may be nil.
func standingPlace(secret func(name string)) *expression.Place {
	return &expression.Place{Site: expression.Standing, Secret: func(name string) error {
		if secret != nil {
			secret(name)
		}
		return nil
	}}
}

// SecretsIn returns the names of the secrets in the value of a header, in order.
func SecretsIn(value string) (names []string) {
	_, err := expression.NewText(value, standingPlace(func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}))
	if err != nil {
		return nil
	}
	return names
}

// beneath returns where secrets belong in a request that has both its own headers and those of its
// participant.
func (s *Standing) beneath(own *workflow.HTTPCall) map[string][]expression.Secret {
	all := maps.Clone(s.secrets)
	for name := range own.Headers {
		for other := range s.secrets {
			if strings.EqualFold(name, other) {
				delete(all, other)
			}
		}
	}
	maps.Copy(all, own.Secrets)
	return all
}

// mistakeInStanding returns what is wrong with a header that contains secrets, or "".
func mistakeInStanding(value string) string {
	sent, _, err := marked(value)
	switch {
	case err != nil:
		return err.Error()
	case !httpguts.ValidHeaderFieldValue(sent):
		return "is not a valid header"
	}
	return ""
}
