package retry

import (
	"strconv"
	"strings"
	"time"
)

// longestAfter is the maximum that After returns; Policy.Delay limits the wait further.
const longestAfter = 24 * time.Hour

// After returns the wait that a Retry-After header requests, in seconds or as an HTTP date: 0
// if it is neither or has passed, and at most 24 hours. The rule is the same for participants,
// receivers of webhooks and the targets of dead letters.
func After(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 32)
		if err != nil { // it has more digits than any plausible number
			return longestAfter
		}
		return min(time.Duration(seconds)*time.Second, longestAfter)
	}
	for _, form := range httpDates {
		if at, err := time.Parse(form, header); err == nil {
			return min(max(at.Sub(now), 0), longestAfter)
		}
	}
	return 0
}

// httpDates are the forms of a date in HTTP (RFC 9110, 5.6.7).
var httpDates = []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC}

// AsksToWait reports whether an answer with this HTTP status (408, 425, 429 or 503) asks the caller
// to try again later, so that its Retry-After counts.
func AsksToWait(status int) bool {
	switch status {
	case 408, 425, 429, 503:
		return true
	}
	return false
}
