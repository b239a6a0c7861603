package web

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	span     = regexp.MustCompile(`^(\d+(?:\.\d+)? *(?:ms|s|min|m|h|d) *)+$`)
	spanPart = regexp.MustCompile(`(\d+(?:\.\d+)?) *(ms|s|min|m|h|d)`)
	inMS     = map[string]float64{"ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
)

// milliseconds parses a duration as people write it: "90 s", "1 h 30 min", "1.5 h".
func milliseconds(text string) (ms string, ok bool) {
	if strings.Trim(text, "0") == "" {
		return "0", true
	}
	if !span.MatchString(text) {
		return "", false
	}
	var sum float64
	for _, part := range spanPart.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return "", false
		}
		sum += n * inMS[part[2]]
	}
	return strconv.FormatFloat(sum, 'f', 0, 64), true
}

// SpanOf formats a number of milliseconds in the largest unit that represents it exactly.
func SpanOf(ms string) string {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n == 0 {
		return ms
	}
	for _, unit := range []string{"d", "h", "min", "s"} {
		if size := int64(inMS[unit]); n%size == 0 {
			return strconv.FormatInt(n/size, 10) + " " + unit
		}
	}
	return ms + " ms"
}
