package dlq

import (
	"slices"
	"time"
)

// Imported returns a letter of an export as it is stored here: with its status, count
// and end, but neither being retried nor scheduled for an automatic retry. l is
// complete (New) and has its former RetryCount; terminalAt is when it ended, nil when
// unknown.
func (l Letter) Imported(s Status, why Resolution, terminalAt *time.Time, m Moment) Letter {
	if s == "" {
		s, why = l.Status, l.Resolution
	}
	l.NextRetryAt, l.TerminalAt = nil, nil
	if !s.Terminal() { // no retry is running on this server
		l.Status, l.Resolution = Pending, ""
		l.MaxRetries = max(l.MaxRetries, l.RetryCount+1)
		return l
	}
	if why == "" {
		why = map[Status]Resolution{Resolved: Manual, Dead: Exhausted}[s]
	}
	if terminalAt == nil {
		terminalAt = &m.Now
	}
	l.Status, l.Resolution, l.TerminalAt = s, why, terminalAt
	l.MaxRetries = max(l.MaxRetries, l.RetryCount)
	return l
}

// Ends reports whether letters of a status may have this resolution.
func (r Resolution) Ends(s Status) bool { return slices.Contains(Resolutions, r) && r.Status() == s }
