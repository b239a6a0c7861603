package dlq

import (
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/dlq/errortext"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Normalised returns an error message in the form shown for its group: the parts that vary from one
// error to the next are replaced by #.
func Normalised(message string) string { return errortext.Normalised(message) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// Storable returns s in the form that is stored, in at most limit bytes (plaintext.Text).
func Storable(s string, limit int) string {
	return plaintext.Text(s, plaintext.Bytes(limit))
}
