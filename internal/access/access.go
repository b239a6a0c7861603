// Package access contains the rules for credentials, which are API keys and browser sessions. It is
// pure: no storage, no clock, no randomness. Package identity checks credentials by these rules.
package access

import "strings"

// validName reports whether s is a valid name of a key. The name becomes part of subjects, whose
// parts are separated by colons.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._@-", r))
	}) < 0
}

const maxName = 100
