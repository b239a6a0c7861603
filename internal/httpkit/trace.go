package httpkit

import "strings"

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
