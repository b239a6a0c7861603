// Package access is the rulebook of credentials: API keys and the sessions of browsers. It
// is pure: no storage, no clock, no randomness. Package identity checks credentials by it.
package access

import "strings"

// validName reports whether s is a valid name of a key: it becomes part of subjects, whose parts
// are separated by colons.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._@-", r))
	}) < 0
}

const maxName = 100
