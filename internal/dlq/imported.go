package dlq

import (
	"slices"
	"time"
)

// Imported returns an exported letter in the form that is stored on this server: with its status,
// count and end, but without a running or scheduled automatic retry. l must be complete (New) and
// have its former RetryCount; terminalAt is the time at which it ended, or nil if that is unknown.
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

// Ends reports whether letters with this status may have this resolution.
func (r Resolution) Ends(s Status) bool { return slices.Contains(Resolutions, r) && r.Status() == s }
