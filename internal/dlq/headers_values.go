package dlq

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// number parses a non-negative number given as decimal text or as a big-endian integer of 4 or 8
// bytes. Digits are read as text, because as an integer they would exceed any realistic partition,
// offset or time.
func number(value []byte) (int64, bool) {
	// Text with another first byte is not a number, and a parse error costs more than this check.
	if s := plain(value); s != "" && (isDigit(s[0]) || s[0] == '+' || s[0] == '-') {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, n >= 0
		}
	}
	switch len(value) {
	case 4:
		n := int32(binary.BigEndian.Uint32(value)) //nolint:gosec // two's complement, as it was written
		return int64(n), n >= 0
	case 8:
		n := int64(binary.BigEndian.Uint64(value)) //nolint:gosec // two's complement, as it was written
		return n, n >= 0
	}
	return 0, false
}

// instant parses a time in milliseconds since 1970 or in the format of RFC 3339.
func instant(value []byte) *time.Time {
	var at time.Time
	if ms, ok := number(value); ok {
		at = time.UnixMilli(ms).UTC()
	} else if parsed, err := time.Parse(time.RFC3339Nano, plain(value)); err == nil {
		at = parsed.UTC().Truncate(time.Microsecond)
	}
	if !sensible(at) {
		return nil
	}
	return &at
}

// sensible reports whether both PostgreSQL and JSON can represent the time.
func sensible(at time.Time) bool { return at.Year() >= 1970 && at.Year() <= 9999 }

// printable returns an id as text, or in hexadecimal digits if it is not printable.
func printable(value []byte) string {
	s := plain(value)
	if !storable(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		s = hex.EncodeToString(value[:min(len(value), MaxWord/2)])
	}
	return Storable(s, MaxWord)
}

// traceOf returns the trace id of a traceparent (W3C Trace Context), or "" if it is not valid.
func traceOf(value []byte) string {
	parts := strings.SplitN(plain(value[:min(len(value), 200)]), "-", 4)
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return hexID(parts[1])
}

// TraceContext returns the tracestate and the baggage in a letter's headers as far as they may be
// passed on; "" means that there is none. A tracestate requires a traceparent.
func (c *Content) TraceContext() (state, baggage string) {
	var states, baggages []string
	traced := false
	for _, h := range c.Headers {
		switch strings.ToLower(h.Name) {
		case "traceparent":
			traced = traced || traceOf(h.Value) != ""
		case "tracestate":
			states = append(states, string(h.Value))
		case "baggage":
			baggages = append(baggages, string(h.Value))
		}
	}
	if traced {
		state = plaintext.TraceState(states...)
	}
	return state, plaintext.Baggage(baggages...)
}

// hexID returns s in lower case if it consists of 16 or 32 hexadecimal digits that are not all
// zero, and "" otherwise.
func hexID(s string) string {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 8 && len(raw) != 16 {
		return ""
	}
	for _, b := range raw {
		if b != 0 {
			return strings.ToLower(s)
		}
	}
	return ""
}

// Words in exception names that indicate whether a retry may help.
var (
	transientWords = []string{"timeout", "timedout", "connect", "unavailable", "refused", "unreachable", "unknownhost",
		"throttl", "ratelimit",
		"toomanyrequests", "deadlock", "optimisticlock", "lockacquisition", "retriable", "retryable", "transient",
		"notleader", "notenoughreplicas", "circuitbreaker", "callnotpermitted"}
	permanentWords = []string{"serializ", "serialis", "deserial", "parse", "parsing", "malformed", "jsonmapping",
		"jsonprocessing", "databind", "validation", "invalid", "constraintviolation",
		"nullpointer", "classcast", "illegalargument", "numberformat", "indexoutofbounds", "nosuchelement", "unsupported",
		"schema", "conversion", "notfound", "typeerror", "valueerror", "keyerror", "dataexception"}
)

// classOf returns the given class, or the class implied by an exception's name. The cause takes
// precedence over its wrapper.
func classOf(given ErrorClass, kind, wrapper, message string) ErrorClass {
	switch given {
	case Transient, Permanent, Unknown:
		return given
	}
	if kind == "" { // some tools pass on only the message, which may begin with the name
		name, _, _ := strings.Cut(message[:min(len(message), MaxWord)], ":")
		if strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Error") {
			kind = name
		}
	}
	for _, name := range []string{kind, wrapper} {
		if strings.HasPrefix(name, "org.apache.kafka.connect.errors.ConnectException") {
			continue // any error in a connector
		}
		// Only the last part is checked, because a package may have any name.
		name = strings.ToLower(name[strings.LastIndexAny(name, ".:$/ ")+1:])
		for _, word := range transientWords {
			if strings.Contains(name, word) {
				return Transient
			}
		}
		for _, word := range permanentWords {
			if strings.Contains(name, word) {
				return Permanent
			}
		}
	}
	return Unknown
}

func truncatedNote(kept, size int) string {
	return fmt.Sprintf("The payload had %d bytes; only the first %d are kept. The full record is still in the topic it was read from.", size, kept)
}

// plain returns a header's value as text, without the surrounding blanks and quotes that some
// mappers add. Invalid UTF-8 is left unchanged.
func plain(value []byte) string {
	s := strings.TrimSpace(string(value))
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' && utf8.ValidString(s) {
		s = s[1 : len(s)-1]
	}
	return s
}

// words is a set of words separated by blanks.
func words(s string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(s) {
		all[w] = true
	}
	return all
}
