package participant

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	maxMessage    = 1000           // characters, as documented for saga.Outcome.Message
	maxRetryAfter = 24 * time.Hour // package retry limits it further
)

// retryAfter parses a Retry-After header, in seconds or as an HTTP date. It returns 0 if
// the header is neither or is in the past, and at most 24 hours.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 32)
		if err != nil { // more digits than any plausible number has
			return maxRetryAfter
		}
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// messageIn returns the text that a participant put into the JSON body of a refusal under
// one of the usual names, "" when there is none.
func messageIn(body []byte) string {
	var fields struct{ Error, Message, Detail, Title any }
	if json.Unmarshal(body, &fields) != nil { // not an object
		return ""
	}
	for _, f := range []any{fields.Error, fields.Message, fields.Detail, fields.Title} {
		if s, ok := f.(string); ok {
			if s = cleaned(s); s != "" {
				return s
			}
		}
	}
	return ""
}

// cleaned makes text from outside safe to show and store: valid UTF-8 of at most 1,000
// characters, with a blank for each character that would break a line, control a terminal
// or change the direction of writing.
func cleaned(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r // Map itself replaces what is not UTF-8
	}, s)
	s = strings.TrimSpace(s)
	n := 0
	for i := range s {
		if n == maxMessage {
			return strings.TrimSpace(s[:i])
		}
		n++
	}
	return s
}
