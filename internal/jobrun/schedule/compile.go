package schedule

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/fault"
)

// CodeInvalid is the code of faults about schedules.
const CodeInvalid = "JOB_SCHEDULE_INVALID"

// Limits of values.
const (
	maxValue    = 500 // bytes
	maxTimes    = 100 // in a list
	maxInterval = 10 * 366 * 24 * time.Hour
	maxMinutes  = int(maxInterval / time.Minute)
)

// Compile validates and compiles the spec. Fault: Invalid, with a field for each mistake; pointers
// are relative to the schedule, for example /value.
func (s Spec) Compile() (*Schedule, error) {
	var w fault.Mistakes
	c := &Schedule{
		zone: zone(s.Timezone), from: earliest, to: math.MaxInt64,
		skipGaps: s.DSTGap == Skip, repeatBoth: s.DSTOverlap == Both, tellGaps: true,
	}
	if c.zone == nil {
		w.Add("/timezone", "unknown_zone", "%q is not a time zone: use an IANA name such as Europe/Berlin, or UTC", s.Timezone)
	}
	if s.DSTGap != "" && s.DSTGap != FireAfter && s.DSTGap != Skip {
		w.Add("/dst_gap", "enum", "must be %s or %s", FireAfter, Skip)
	}
	if s.DSTOverlap != "" && s.DSTOverlap != First && s.DSTOverlap != Both {
		w.Add("/dst_overlap", "enum", "must be %s or %s", First, Both)
	}
	if s.StartAt != nil {
		c.from = max(roundUp(*s.StartAt), earliest)
		c.anchor = c.from
	}
	if s.EndAt != nil {
		c.to = roundUp(*s.EndAt)
	}
	if len(s.Value) > maxValue {
		w.Add("/value", "too_long", "must have at most %d bytes", maxValue)
	} else {
		c.read(s.Type, s.Value, &w)
	}
	switch {
	case s.StartAt != nil && s.EndAt != nil && !s.StartAt.Before(*s.EndAt):
		w.Add("/end_at", "out_of_range", "must be later than start_at")
	case len(w) == 0 && s.EndAt != nil:
		if _, ok := c.Next(time.Unix(c.from-1, 0)); !ok {
			w.Add("/end_at", "never_fires", "is before the first slot")
		}
	}
	if err := refused(w); err != nil {
		return nil, err
	}
	return c, nil
}

// roundUp returns the first whole second that is not before t. Slots are whole seconds, so rounded
// bounds change nothing, and intervals stay on whole seconds.
func roundUp(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// read parses the value of a schedule by its type.
func (s *Schedule) read(t Type, value string, w *fault.Mistakes) {
	switch t {
	case Cron:
		s.readCron(value, w)
	case Interval:
		d, err := time.ParseDuration(value)
		switch {
		case err != nil:
			w.Add("/value", "interval", "%q is not a duration such as 90s, 15m or 36h", value)
		case d < time.Second || d > maxInterval:
			w.Add("/value", "out_of_range", "must be from 1s to %.0fh", maxInterval.Hours())
		case d%time.Second != 0:
			w.Add("/value", "interval", "must be a whole number of seconds")
		}
		s.every = int64(d / time.Second)
	case EveryNMinutes:
		n, ok := digits(value, len("5270400"))
		if !ok || n < 1 || n > maxMinutes {
			w.Add("/value", "out_of_range", "must be a number of minutes from 1 to %d", maxMinutes)
		}
		s.every = int64(n) * 60
	case HourlyAtMinute:
		p := program{second: 1, hour: allHours, month: allMonths, days: onDays(allDays)}
		for i, word := range list(value, w) {
			n, ok := digits(word, 2)
			if !ok || n > 59 {
				w.Add("/value", "hourly_at_minute", "%s %q is not a minute from 0 to 59", nth(i), word)
				continue
			}
			p.minute |= 1 << n
		}
		s.programs, s.realTime, s.tellGaps = []program{p}, true, false
	case DailyAt, WeekdaysAt:
		week := uint64(allWeek)
		if t == WeekdaysAt {
			week = workdays
		}
		for i, word := range list(value, w) {
			s.at(i, week, word, w)
		}
	case WeeklyAt:
		for i, words := range list(value, w) {
			name, clock, _ := strings.Cut(words, " ")
			n := fields[dayOfWeek].value(strings.ToUpper(name))
			if n < 0 || len(name) != 3 {
				w.Add("/value", "weekly_at", "%s %q does not begin with a day, MON to SUN, and a space", nth(i), words)
				continue
			}
			s.at(i, 1<<n, strings.TrimSpace(clock), w)
		}
	case "":
		w.Add("/type", "required", "is required: %s", types)
	default:
		w.Add("/type", "enum", "must be %s", types)
	}
}

const types = "cron, interval, every_n_minutes, hourly_at_minute, daily_at, weekdays_at or weekly_at"

// at adds a time of day on some weekdays. i is its index in the list.
func (s *Schedule) at(i int, week uint64, clock string, w *fault.Mistakes) {
	var n [3]int
	words := strings.Split(clock, ":")
	ok := len(words) == 2 || len(words) == 3
	for j := 0; ok && j < len(words); j++ {
		n[j], ok = digits(words[j], 2)
		ok = ok && len(words[j]) == 2 && n[j] <= []int{23, 59, 59}[j]
	}
	if !ok {
		w.Add("/value", "time_of_day", "%s %q is not a time from 00:00 to 23:59:59", nth(i), clock)
		return
	}
	s.programs = append(s.programs, program{hour: 1 << n[0], minute: 1 << n[1], second: 1 << n[2], month: allMonths,
		days: onWeekdays(week)})
}

// list splits a comma-separated list.
func list(value string, w *fault.Mistakes) []string {
	words := strings.Split(value, ",")
	if len(words) > maxTimes {
		w.Add("/value", "too_many", "must have at most %d entries", maxTimes)
		return nil
	}
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

// nth names an element of a list in messages.
func nth(i int) string { return fmt.Sprintf("entry %d", i+1) }

// refused returns nil if there are no mistakes.
func refused(wrong fault.Mistakes) error {
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, CodeInvalid, "%s %s", wrong[0].Pointer, wrong[0].Message).With(wrong...)
}
