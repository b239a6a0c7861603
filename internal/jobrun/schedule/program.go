package schedule

import (
	"math/bits"
	"time"
)

// program is a set of wall-clock times: all combinations of its parts. Bit n represents the number
// n.
type program struct {
	second, minute, hour uint64
	month                uint64
	days                 [kinds]uint64 // by the kind of month
}

// kinds is the number of kinds of months. The days selected by L, W, # and weekdays depend only on
// the length of the month (28 to 31) and on the weekday of its first day.
const kinds = 4 * 7

func kind(length int, first time.Weekday) int { return (length-28)*7 + int(first) }

const (
	allMinutes = 1<<60 - 1 // and seconds
	allHours   = 1<<24 - 1
	allDays    = 1<<32 - 2
	allMonths  = 1<<13 - 2
	allWeek    = 1<<7 - 1
	workdays   = 1<<time.Monday | 1<<time.Tuesday | 1<<time.Wednesday | 1<<time.Thursday | 1<<time.Friday
)

// monthOf returns the kind of a month and its beginning in wall-clock seconds.
func monthOf(year int, month time.Month) (int, int64) {
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	return kind(length(year, month), first.Weekday()), first.Unix()
}

func length(year int, month time.Month) int {
	switch month {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	}
	return 31
}

// next returns the first time of the program at or after wall, or false if there is none before the
// year 10000. A program that ever fires does so within 40 years, which bounds the search.
func (p *program) next(wall int64) (int64, bool) {
	now := time.Unix(wall, 0).UTC()
	year, month, today := now.Date()
	if p.month>>month&1 == 1 {
		k, first := monthOf(year, month)
		if p.days[k]>>today&1 == 1 {
			midnight := first + int64(today-1)*day
			if at, ok := p.timeOfDay(wall - midnight); ok {
				return midnight + at, true
			}
		}
		if d := from(p.days[k], today+1); d < 64 {
			return p.start(first, d), true
		}
	}
	for {
		if month++; month > time.December {
			year, month = year+1, time.January
		}
		if year > 9999 {
			return 0, false
		}
		if p.month>>month&1 == 0 {
			continue
		}
		k, first := monthOf(year, month)
		if d := from(p.days[k], 1); d < 64 {
			return p.start(first, d), true
		}
	}
}

// start returns the first time of the program on any day of the month that begins at first.
func (p *program) start(first int64, d int) int64 {
	at, _ := p.timeOfDay(0)
	return first + int64(d-1)*day + at
}

// timeOfDay returns the first time of day at or after the given one, in seconds.
func (p *program) timeOfDay(at int64) (int64, bool) {
	h, m, s := int(at/3600), int(at/60%60), int(at%60)
	clock := func(h, m, s int) (int64, bool) { return int64(h)*3600 + int64(m)*60 + int64(s), true }
	if p.hour>>h&1 == 1 {
		if p.minute>>m&1 == 1 {
			if s = from(p.second, s); s < 64 {
				return clock(h, m, s)
			}
		}
		if m = from(p.minute, m+1); m < 64 {
			return clock(h, m, from(p.second, 0))
		}
	}
	if h = from(p.hour, h+1); h < 64 {
		return clock(h, from(p.minute, 0), from(p.second, 0))
	}
	return 0, false
}

// from returns the lowest bit of the set that is n or higher, or 64.
func from(set uint64, n int) int { return bits.TrailingZeros64(set >> n << n) }

// fires reports whether any month has a day that the program selects.
func (p *program) fires() bool {
	for month := time.January; month <= time.December; month++ {
		if p.month>>month&1 == 0 {
			continue
		}
		for _, year := range []int{2000, 2001} { // one with and one without a leap day
			for first := time.Sunday; first <= time.Saturday; first++ {
				if p.days[kind(length(year, month), first)] != 0 {
					return true
				}
			}
		}
	}
	return false
}

// onWeekdays returns the days of each kind of month that fall on the given days of the week.
func onWeekdays(week uint64) (days [kinds]uint64) {
	for n := 28; n <= 31; n++ {
		for first := range 7 {
			for d := 1; d <= n; d++ {
				days[kind(n, time.Weekday(first))] |= week >> ((first + d - 1) % 7) & 1 << d
			}
		}
	}
	return days
}

// onDays returns the given days of the month, restricted to the days that each kind of month has.
func onDays(month uint64) (days [kinds]uint64) {
	for k := range days {
		days[k] = month & (1<<(28+k/7+1) - 1)
	}
	return days
}
