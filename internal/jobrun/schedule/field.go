package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// field is one field of a cron expression.
type field struct {
	name      string
	low, high int
	names     []string // names of low and of the numbers that follow it
	special   string   // other permitted forms, for messages
}

// fields are in the order of an expression with seconds.
var fields = []field{
	{name: "second", high: 59},
	{name: "minute", high: 59},
	{name: "hour", high: 23},
	{name: "day of month", low: 1, high: 31, special: ", L (the last day), 15W (the workday nearest to the 15th)"},
	{name: "month", low: 1, high: 12, names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"), special: ", JAN to DEC"},
	{name: "day of week", high: 7, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), special: ", SUN to SAT, 5L (the last Friday), 1#2 (the second Monday)"},
}

const (
	dayOfMonth = 3
	dayOfWeek  = 5
)

// check returns what is wrong with one element of a field's list, or "".
func (f *field) check(part string, pos int) string {
	switch {
	case part == "*", part == "?" && (pos == dayOfMonth || pos == dayOfWeek), part == "L" && pos == dayOfMonth:
		return ""
	}
	if n, ok := strings.CutSuffix(part, "W"); ok && pos == dayOfMonth {
		return f.number(n)
	}
	if n, ok := strings.CutSuffix(part, "L"); ok && pos == dayOfWeek {
		return f.number(n)
	}
	if n, nth, ok := strings.Cut(part, "#"); ok && pos == dayOfWeek {
		if len(nth) != 1 || nth < "1" || nth > "5" {
			return "must have a number from 1 to 5 after #"
		}
		return f.number(n)
	}
	base, step, stepped := strings.Cut(part, "/")
	if stepped {
		if n, ok := digits(step, 2); !ok || n < 1 || n > f.high-f.low {
			return fmt.Sprintf("must have a step from 1 to %d after the slash", f.high-f.low)
		}
		if base == "*" {
			return ""
		}
	}
	low, high, ranged := strings.Cut(base, "-")
	if wrong := f.number(low); wrong != "" || !ranged {
		return wrong
	}
	if wrong := f.number(high); wrong != "" {
		return wrong
	}
	if a, b := f.value(low), f.value(high); a > b {
		hint := ""
		if pos == dayOfWeek && b == 0 {
			hint = "; at the end of a range, Sunday is 7"
		}
		return "runs backwards" + hint
	}
	return ""
}

// number returns what is wrong with a number or name in the field, or "".
func (f *field) number(word string) string {
	switch n := f.value(word); {
	case n < 0:
		return fmt.Sprintf("must be one of: *, a number from %d to %d, a range such as 1-5, a step such as */2%s", f.low, f.high, f.special)
	case n < f.low || n > f.high:
		return fmt.Sprintf("must be from %d to %d", f.low, f.high)
	}
	return ""
}

// value returns the number that a word stands for, or -1.
func (f *field) value(word string) int {
	for i, name := range f.names {
		if word == name {
			return f.low + i
		}
	}
	if n, ok := digits(word, 4); ok {
		return n
	}
	return -1
}

// digits parses a number of one to most digits.
func digits(word string, most int) (int, bool) {
	if len(word) == 0 || len(word) > most || strings.Trim(word, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(word)
	return n, err == nil
}

// set returns the numbers that the elements of a list select, as bits. specialDays handles L, W and
// #.
func (f *field) set(list string) (set uint64) {
	for word := range strings.SplitSeq(list, ",") {
		base, step, stepped := strings.Cut(word, "/")
		low, high, ranged := strings.Cut(base, "-")
		first, last, by := f.value(low), f.value(low), 1
		switch {
		case low == "*" || low == "?":
			first, last = f.low, f.high
		case first < 0: // L, W, #
			continue
		case ranged:
			last = f.value(high)
		case stepped && f.high == 7: // in weekday ranges, the week ends on Saturday
			first, last = first%7, 6
		case stepped:
			last = f.high
		}
		if stepped {
			by, _ = strconv.Atoi(step)
		}
		for n := first; n <= last; n += by {
			set |= 1 << n
		}
	}
	if f.high == 7 { // Sunday is both 0 and 7
		set = set&allWeek | set>>7&1
	}
	return set
}

// specialDays returns the days that L, 15W, 5L and 5#2 in a list select in a given kind of month.
func specialDays(list string, k int) (days uint64) {
	length, first := 28+k/7, k%7
	weekday := func(d int) time.Weekday { return time.Weekday((first + d - 1) % 7) }
	for word := range strings.SplitSeq(list, ",") {
		if word == "L" {
			days |= 1 << length
		} else if n, ok := strings.CutSuffix(word, "L"); ok {
			on := time.Weekday(fields[dayOfWeek].value(n) % 7)
			for d := length - 6; d <= length; d++ {
				if weekday(d) == on {
					days |= 1 << d
				}
			}
		} else if n, ok := strings.CutSuffix(word, "W"); ok {
			// This finds the nearest workday in the same month.
			for _, by := range []int{0, -1, 1, -2, 2} {
				wanted := fields[dayOfMonth].value(n)
				if d := wanted + by; wanted <= length && d >= 1 && d <= length && workdays>>weekday(d)&1 == 1 {
					days |= 1 << d
					break
				}
			}
		} else if n, nth, ok := strings.Cut(word, "#"); ok {
			on := time.Weekday(fields[dayOfWeek].value(n) % 7)
			for d := int(nth[0]-'1')*7 + 1; d <= length && d <= int(nth[0]-'0')*7; d++ {
				if weekday(d) == on {
					days |= 1 << d
				}
			}
		}
	}
	return days
}
