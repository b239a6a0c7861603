package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/skald-saga/skald/internal/fault"
)

// field is one field of a cron expression. gronx says what its words mean; it
// takes words that mean nothing as well (decision 0032), so they are read here first.
type field struct {
	name      string
	low, high int
	names     []string // of low and the numbers after it
	special   string   // the other forms, for messages
}

// fields are in the order of an expression with seconds, which is also gronx's.
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

// readCron adds the program of an expression to the schedule.
func (s *Schedule) readCron(value string, w *fault.Mistakes) {
	words := strings.Fields(strings.ToUpper(value))
	if len(words) == 1 && words[0] == "@MIDNIGHT" {
		words[0] = "@DAILY" // gronx has all others of cron
	}
	segments, err := gronx.Segments(strings.Join(words, " "))
	switch {
	case len(words) == 1 && strings.HasPrefix(words[0], "@"):
		if err != nil {
			w.Add("/value", "cron", "%q is not known; there are @yearly, @monthly, @weekly, @daily and @hourly, and for intervals the type interval", value)
			return
		}
		words = segments
	case len(words) == 5:
		words = append([]string{"0"}, words...)
	case len(words) == 6:
	default:
		w.Add("/value", "cron", "has %d fields; cron has 5 (minute, hour, day of month, month, day of week), or 6 with seconds first, and no year", len(words))
		return
	}
	if !checkFields(words, w) {
		return
	}
	if err != nil || len(segments) != len(fields) {
		w.Add("/value", "cron", "cannot be read")
		return
	}
	p, err := compile(segments)
	switch {
	case err != nil:
		w.Add("/value", "cron", "cannot be read: %v", err)
	case !p.fires():
		w.Add("/value", "never_fires", "%q never fires: none of its months has such a day", value)
	}
	s.programs = append(s.programs, p)
	s.realTime = segments[1][0] == '*' || segments[2][0] == '*'
	// Where every hour counts, an hour that is left out costs nothing.
	s.tellGaps = segments[2][0] != '*'
}

// checkFields reports what in an expression is no word of its field.
func checkFields(words []string, w *fault.Mistakes) bool {
	ok := true
	for i, f := range fields {
		for part := range strings.SplitSeq(words[i], ",") {
			if wrong := f.check(part, i); wrong != "" {
				w.Add("/value", "cron", "%s %q %s", f.name, part, wrong)
				ok = false
			}
		}
	}
	return ok
}

// check returns what is wrong with one element of a field's list, "" if nothing.
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
			return "has no number from 1 to 5 after #"
		}
		return f.number(n)
	}
	base, step, stepped := strings.Cut(part, "/")
	if stepped {
		if n, ok := digits(step, 2); !ok || n < 1 || n > f.high-f.low {
			return fmt.Sprintf("has no step from 1 to %d after the slash", f.high-f.low)
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
			hint = "; at the end of a range Sunday is 7"
		}
		return "runs backwards" + hint
	}
	return ""
}

// number says what is wrong with a number or name of the field.
func (f *field) number(word string) string {
	switch n := f.value(word); {
	case n < 0:
		return fmt.Sprintf("must be one of: *, a number from %d to %d, a range 1-5, a step */2%s", f.low, f.high, f.special)
	case n < f.low || n > f.high:
		return fmt.Sprintf("is not from %d to %d", f.low, f.high)
	}
	return ""
}

// value returns the number that a word stands for, -1 when it stands for none.
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

// digits reads a number that is written with one to most digits and nothing else.
func digits(word string, most int) (int, bool) {
	if len(word) == 0 || len(word) > most || strings.Trim(word, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(word)
	return n, err == nil
}

// compile asks gronx once for each value of each field, so that it need not be asked again: it
// takes 8 to 60 µs and hundreds of allocations for a slot.
func compile(segments []string) (p program, err error) {
	c := &gronx.SegmentChecker{}
	set := func(pos, low, high int, at func(n int) time.Time) (bits uint64) {
		for n := low; n <= high && err == nil; n++ {
			due := segments[pos] == "*" || segments[pos] == "?"
			if !due {
				c.SetRef(at(n))
				due, err = c.CheckDue(segments[pos], pos)
			}
			if due {
				bits |= 1 << n
			}
		}
		return bits
	}
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // a Saturday
	p.second = set(0, 0, 59, func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) })
	p.minute = set(1, 0, 59, func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) })
	p.hour = set(2, 0, 23, func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Hour) })
	p.month = set(4, 1, 12, func(n int) time.Time { return epoch.AddDate(0, n-1, 0) })

	var month, week [kinds]uint64
	if strings.ContainsAny(segments[dayOfMonth], "LW") {
		month = eachKind(func(n int, first time.Time) uint64 {
			return set(dayOfMonth, 1, n, func(d int) time.Time { return first.AddDate(0, 0, d-1) })
		})
	} else {
		month = onDays(set(dayOfMonth, 1, 31, func(d int) time.Time { return epoch.AddDate(0, 0, d-1) }))
	}
	if strings.ContainsAny(segments[dayOfWeek], "L#") {
		week = eachKind(func(n int, first time.Time) uint64 {
			return set(dayOfWeek, 1, n, func(d int) time.Time { return first.AddDate(0, 0, d-1) })
		})
	} else {
		week = onWeekdays(set(dayOfWeek, 0, 6, func(n int) time.Time { return epoch.AddDate(0, 0, 1+n) }))
	}
	// As in cron since 1987: days of both kinds, unless one field begins with * and so only restricts the other.
	both := strings.ContainsAny(segments[dayOfMonth][:1]+segments[dayOfWeek][:1], "*?")
	for k := range p.days {
		if both {
			p.days[k] = month[k] & week[k]
		} else {
			p.days[k] = month[k] | week[k]
		}
	}
	return p, err
}

// eachKind asks for the days of one month of each kind, of n days from first on.
func eachKind(of func(n int, first time.Time) uint64) (days [kinds]uint64) {
	var seen [kinds]bool
	// In 28 years without a turn of the century there are all kinds.
	for first := time.Date(1972, 1, 1, 0, 0, 0, 0, time.UTC); first.Year() < 2000; first = first.AddDate(0, 1, 0) {
		n := length(first.Year(), first.Month())
		if k := kind(n, first.Weekday()); !seen[k] {
			days[k], seen[k] = of(n, first), true
		}
	}
	return days
}
