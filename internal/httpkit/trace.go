package httpkit

import (
	"net/http"
	"strings"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

const (
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
	headerBaggage     = "Baggage"
)

// TraceOf returns the trace and parent IDs of a W3C traceparent header, nil if it is malformed
// (https://www.w3.org/TR/trace-context/, section 3.2).
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

// CleanTrace reduces a request's tracestate and baggage to what may be passed on: one well-formed
// line of each, within the limits. The standards ask us to drop anything else, so that tracing
// never makes a request fail. This includes a tracestate without a valid traceparent, and a
// repeated traceparent.
func CleanTrace(h http.Header) {
	if parents := h[headerTraceParent]; len(parents) > 1 || len(parents) == 1 && parents[0] == "" {
		delete(h, headerTraceParent)
	}
	if states, sent := h[headerTraceState]; sent {
		trace, _ := TraceOf(h.Get(headerTraceParent))
		state := plaintext.TraceState(states...)
		if delete(h, headerTraceState); trace != nil && state != "" {
			h[headerTraceState] = []string{state}
		}
	}
	if lines, sent := h[headerBaggage]; sent {
		baggage := plaintext.Baggage(lines...)
		if delete(h, headerBaggage); baggage != "" {
			h[headerBaggage] = []string{baggage}
		}
	}
}
