package workflow

import (
	"fmt"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
)

// UsesSecrets reports whether a request of the definition may contain secrets.
func (d *Definition) UsesSecrets() bool {
	for i := range d.Steps {
		if d.Steps[i].Action.mayHaveSecrets() || d.Steps[i].Compensation.mayHaveSecrets() {
			return d.Expressions != ""
		}
	}
	return false
}

func (c *Call) mayHaveSecrets() bool {
	if c.HTTP == nil {
		return false
	}
	const word = "secrets"
	for _, value := range c.HTTP.Headers {
		if strings.Contains(value, word) {
			return true
		}
	}
	return strings.Contains(string(c.HTTP.Body), word) || strings.Contains(string(c.HTTP.Form), word)
}

// SecretMistakes returns each use of a secret for which allowed returns an error, with the error's
// text and the pointer of the use.
func (d *Definition) SecretMistakes(allowed func(by *Call, name string) error) (wrong fault.Mistakes) {
	if !d.UsesSecrets() {
		return nil
	}
	c := planner{
		d: d, language: true, at: func(i int) string { return fmt.Sprintf("/steps/%d", d.Position(i)) }, secret: allowed,
		fail: func(at string, err error) { wrong.Add(at, CodeSecret, "%s", err) },
	}
	c.plan()
	return wrong
}
