package keeper

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/secret/vault"
)

// These are the limits for the length of a secret, in bytes. A shorter secret could not be
// distinguished from other text in the responses of participants.
const (
	MinLength = 8
	MaxLength = 8 << 10
)

// mistake returns what is wrong with the value of a secret, without quoting the value.
func mistake(value string) error {
	switch {
	case value == "":
		return errors.New("is empty")
	case len(value) > MaxLength:
		return fmt.Errorf("is too large: %d bytes are allowed", MaxLength)
	case len(value) < MinLength:
		return fmt.Errorf("is too short: at least %d bytes are needed to find it in answers", MinLength)
	case strings.ContainsAny(value, "\r\n"):
		return errors.New("has a line break inside: a secret is one line")
	case !utf8.ValidString(value):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("has a control character")
	case strings.TrimSpace(value) != value:
		return errors.New("begins or ends with a blank")
	}
	return nil
}

// valueAt returns the value at a key of a secret in Vault.
func valueAt(data map[string]any, key string) (string, error) {
	v, there := data[key]
	text, isText := v.(string)
	switch {
	case !there:
		return "", fmt.Errorf("has no key %q", key)
	case !isText:
		return "", fmt.Errorf("has no text at key %q", key)
	}
	text = strings.TrimRight(text, "\r\n")
	return text, mistake(text)
}

// answered reports whether a failure is a response from Vault about one path.
func answered(err error) bool {
	var e *vault.Error
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusForbidden)
}

// why describes a failure for everyone who may see a participant, without the path of the source.
func why(err error) string {
	var e *vault.Error
	switch {
	case !errors.As(err, &e):
		if strings.HasPrefix(err.Error(), "vault: ") {
			return "cannot be read: Skald cannot sign in to Vault"
		}
		return err.Error()
	case e.Status == 0:
		return "cannot be read: Vault does not answer"
	}
	return fmt.Sprintf("cannot be read: Vault answers %d %s", e.Status, http.StatusText(e.Status))
}
