package dlq

import (
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/dlq/errortext"
)

// Normalised returns an error message as its group shows it: with what varies from one
// error to the next replaced by #.
func Normalised(message string) string { return errortext.Normalised(message) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// Storable returns s as PostgreSQL can keep it: UTF-8 without NUL, at most max
// bytes. For what others have written; what it changes is not repeated anywhere.
func Storable(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
