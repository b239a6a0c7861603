package httpkit

import (
	"net/http"
	"regexp"
	"strings"
)

// Limits of what a request passes on beside its traceparent.
const (
	maxTraceStates, maxTraceState = 32, 512
	maxBaggages, maxBaggage       = 64, 8192
)

const (
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
	headerBaggage     = "Baggage"
)

// TraceOf returns the trace and parent ids of a W3C traceparent header, nil
// when it is malformed (https://www.w3.org/TR/trace-context/, section 3.2).
func TraceOf(header string) (trace, parent *string) {
	parts := strings.Split(header, "-")
	if len(parts) < 4 || len(parts) > 4 && parts[0] == "00" {
		return nil, nil
	}
	version, traceID, parentID, flags := parts[0], parts[1], parts[2], parts[3]
	if !lowerHex(version, 2) || version == "ff" || !lowerHex(traceID, 32) || !lowerHex(parentID, 16) ||
		!lowerHex(flags, 2) ||
		strings.Trim(traceID, "0") == "" || strings.Trim(parentID, "0") == "" {
		return nil, nil
	}
	return &traceID, &parentID
}

func lowerHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// CleanTrace leaves of a request's tracestate and baggage what may be passed on: one line of
// each, well-formed and within its limits. The standards ask to drop anything else, so that
// tracing never makes a request fail; that includes a tracestate without a valid traceparent,
// and a traceparent that is sent twice.
func CleanTrace(h http.Header) {
	if parents := h[headerTraceParent]; len(parents) > 1 || len(parents) == 1 && parents[0] == "" {
		delete(h, headerTraceParent)
	}
	if states, sent := h[headerTraceState]; sent {
		trace, _ := TraceOf(h.Get(headerTraceParent))
		state := strings.Join(states, ",")
		if delete(h, headerTraceState); trace != nil && validTraceState(state) {
			h[headerTraceState] = []string{state}
		}
	}
	if lines, sent := h[headerBaggage]; sent {
		baggage := strings.Join(lines, ",")
		if delete(h, headerBaggage); validBaggage(baggage) {
			h[headerBaggage] = []string{baggage}
		}
	}
}

var (
	// Trace Context, section 3.3: a key, with the vendor after @ in a tenant's, and a value.
	traceMember = regexp.MustCompile(`^([a-z][-a-z0-9_*/]{0,255}|[a-z0-9][-a-z0-9_*/]{0,240}@[a-z][-a-z0-9_*/]{0,13})=` +
		`[ -+\--<>-~]{0,255}[!-+\--<>-~]$`)
	// Baggage, section 3.3: a token, a value of percent-encoded text, and properties, which need no value.
	baggageMember = regexp.MustCompile(`^` + token + blank + `=` + blank + octets +
		`(` + blank + `;` + blank + token + `(` + blank + `=` + blank + octets + `)?)*$`)
)

const (
	token  = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	blank  = `[ \t]*`
	octets = `[!#-+\--:<-\[\]-~]*`
)

func validTraceState(s string) bool {
	if len(s) > maxTraceState {
		return false
	}
	seen := map[string]bool{}
	for member := range members(s) {
		key, _, _ := strings.Cut(member, "=")
		if !traceMember.MatchString(member) || seen[key] || len(seen) == maxTraceStates {
			return false
		}
		seen[key] = true
	}
	return len(seen) > 0
}

func validBaggage(s string) bool {
	if len(s) > maxBaggage {
		return false
	}
	n := 0
	for member := range members(s) {
		if n++; n > maxBaggages || !baggageMember.MatchString(member) {
			return false
		}
	}
	return n > 0
}

// members yields the members of a list in a header; empty ones are none.
func members(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for member := range strings.SplitSeq(s, ",") {
			if member = strings.Trim(member, " \t"); member != "" && !yield(member) {
				return
			}
		}
	}
}
