// Package schedule computes when a time-triggered job is due.
//
// People write a Spec. Compile turns it into a Schedule, which lists its slots. Two rules cover
// clock changes. Schedules that follow the wall clock (a daily time, a cron expression with a fixed
// minute and hour) fire once per wall-clock time: at the end of the gap if that time does not
// exist, and the first time if it occurs twice. Schedules that follow real time (an interval, a
// cron expression whose minute or hour field begins with *) are not affected. docs/schedules.md
// shows both with dates.
package schedule

import "time"

// Type determines how Spec.Value is interpreted.
type Type string

// These are the types. The last four express in plain words what most people use cron for.
const (
	Cron           Type = "cron"             // 5 fields, or 6 with seconds first; names, L, W, #, @daily
	Interval       Type = "interval"         // a Go duration of whole seconds, from 1s: "90s", "36h"
	EveryNMinutes  Type = "every_n_minutes"  // minutes between two slots, from 1: "5"
	HourlyAtMinute Type = "hourly_at_minute" // minutes of the hour: "15" or "0,30"
	DailyAt        Type = "daily_at"         // times of day: "09:00" or "09:00,17:30:15"
	WeekdaysAt     Type = "weekdays_at"      // the same, from Monday to Friday
	WeeklyAt       Type = "weekly_at"        // days and times: "MON 09:00,FRI 17:00"
)

// GapRule determines what happens to a wall-clock time that the clock skips.
type GapRule string

// Gap rules. The zero value means FireAfter.
const (
	FireAfter GapRule = "fire_after" // fires at the end of the gap, once for all times in it
	Skip      GapRule = "skip"       // does not fire
)

// OverlapRule determines what happens to a wall-clock time that occurs twice.
type OverlapRule string

// Overlap rules. The zero value means First.
const (
	First OverlapRule = "first" // fires the first time only
	Both  OverlapRule = "both"  // fires both times
)

// Spec is a schedule as people write it and as it is stored. GapRule and OverlapRule apply only to
// schedules that follow the wall clock.
type Spec struct {
	Type       Type        `json:"type"`
	Value      string      `json:"value"`
	Timezone   string      `json:"timezone,omitempty"` // IANA name; "": UTC
	DSTGap     GapRule     `json:"dst_gap,omitempty"`
	DSTOverlap OverlapRule `json:"dst_overlap,omitempty"`
	// There is no slot before StartAt, and intervals count from it; nil means the Unix epoch.
	StartAt *time.Time `json:"start_at,omitempty"`
	EndAt   *time.Time `json:"end_at,omitempty"` // no slot at or after
}

// Schedule is a compiled Spec. It is immutable and safe for concurrent use.
type Schedule struct {
	zone     *time.Location
	from, to int64 // Unix seconds: no slot before from, none at or after to

	every  int64 // seconds of an interval; 0: the schedule uses programs
	anchor int64 // Unix seconds, a slot of the interval

	programs   []program // a slot is due when one of them fires
	realTime   bool
	tellGaps   bool // slots can be lost in a gap
	skipGaps   bool
	repeatBoth bool
}

// Next returns the first slot strictly after the given time; false if there is none. No slot is
// later than the year 9999.
func (s *Schedule) Next(after time.Time) (Tick, bool) {
	var first Tick
	found := false
	s.walk(after, false, func(t Tick) bool {
		first, found = t, true
		return false
	})
	return first, found
}

// Has reports whether a time is a slot.
func (s *Schedule) Has(at time.Time) bool {
	next, ok := s.Next(at.Add(-1))
	return ok && next.At.Equal(at)
}

// Ticks returns up to limit slots in (after, until], in order.
func (s *Schedule) Ticks(after, until time.Time, limit int) []Tick {
	var ticks []Tick
	if limit <= 0 {
		return nil
	}
	s.walk(after, false, func(t Tick) bool {
		if t.At.After(until) {
			return false
		}
		ticks = append(ticks, t)
		return len(ticks) < limit
	})
	return ticks
}

// mostLeftOut bounds the number of skipped times in the preview of a schedule that loses nearly all
// slots to gaps.
const mostLeftOut = 1000

// Preview returns up to count slots strictly after the given time, for display. Between the slots
// it includes the wall-clock times that are lost in a gap (SkippedGap), where At is the end of the
// gap. These times are not slots and do not count towards count, but there are never more than
// mostLeftOut of them.
func (s *Schedule) Preview(after time.Time, count int) []Tick {
	var ticks []Tick
	if count <= 0 {
		return nil
	}
	due, leftOut := 0, 0
	s.walk(after, true, func(t Tick) bool {
		if t.Note == SkippedGap {
			leftOut++
		} else {
			due++
		}
		ticks = append(ticks, t)
		return due < count && leftOut < mostLeftOut
	})
	return ticks
}
