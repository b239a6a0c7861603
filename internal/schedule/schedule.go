// Package schedule tells when a time-triggered job is due.
//
// A Spec is what people write; Compile turns it into a Schedule, which lists
// its ticks. Two rules cover clock changes. What follows the wall clock (a
// daily time, a cron expression with a fixed minute and hour) fires once per
// wall-clock time: at the end of the gap when that time does not exist, and the
// first time when it occurs twice. What follows real time (an interval, a cron
// expression whose minute or hour field begins with *) goes on as if nothing
// happened. docs/schedules.md shows both with dates.
package schedule

import "time"

// Type says how Spec.Value is read.
type Type string

// Types. The last four are what most people need of cron, in words.
const (
	Cron           Type = "cron"             // 5 fields, or 6 with seconds first; names, L, W, #, @daily
	Interval       Type = "interval"         // a Go duration of whole seconds, from 1s: "90s", "36h"
	EveryNMinutes  Type = "every_n_minutes"  // minutes between two ticks, from 1: "5"
	HourlyAtMinute Type = "hourly_at_minute" // minutes of the hour: "15" or "0,30"
	DailyAt        Type = "daily_at"         // times of day: "09:00" or "09:00,17:30:15"
	WeekdaysAt     Type = "weekdays_at"      // the same, from Monday to Friday
	WeeklyAt       Type = "weekly_at"        // days and times: "MON 09:00,FRI 17:00"
)

// GapRule says what becomes of a wall-clock time that the clock jumps over.
type GapRule string

// Gap rules. The zero value means FireAfter.
const (
	FireAfter GapRule = "fire_after" // fires at the end of the gap; once, however many times are in it
	Skip      GapRule = "skip"       // does not fire
)

// OverlapRule says what becomes of a wall-clock time that occurs twice.
type OverlapRule string

// Overlap rules. The zero value means First.
const (
	First OverlapRule = "first" // fires the first time only
	Both  OverlapRule = "both"  // fires both times
)

// Spec is a schedule as people write it, and as it is stored. GapRule and
// OverlapRule concern only what follows the wall clock.
type Spec struct {
	Type       Type        `json:"type"`
	Value      string      `json:"value"`
	Timezone   string      `json:"timezone,omitempty"` // IANA name, "" is UTC
	DSTGap     GapRule     `json:"dst_gap,omitempty"`
	DSTOverlap OverlapRule `json:"dst_overlap,omitempty"`
	StartAt    *time.Time  `json:"start_at,omitempty"` // no tick before; intervals are counted from here, nil: from the Unix epoch
	EndAt      *time.Time  `json:"end_at,omitempty"`   // no tick at or after
}

// Note says what a clock change did to a tick.
type Note string

// Notes. Most ticks have none.
const (
	MovedGap          Note = "moved_gap"           // Wall does not exist that day; fires at the end of the gap
	SkippedGap        Note = "skipped_gap"         // Wall does not exist that day; does not fire. In previews only
	Repeated          Note = "repeated"            // the wall clock shows Wall for the second time
	RepetitionLeftOut Note = "repetition_left_out" // the wall clock will show Wall once more, without a tick
)

// Tick is one time at which a job is due.
type Tick struct {
	At   time.Time // UTC, whole seconds
	Note Note
	Wall string // the wall-clock time that it stands for: 2026-03-08T02:30:00
}

