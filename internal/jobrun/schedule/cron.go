package schedule

import (
	"strings"

	"github.com/skald-saga/skald/internal/fault"
)

// shorthands stand for whole expressions. Messages name only those that other cron implementations
// have as well.
var shorthands = map[string]string{
	"@YEARLY": "0 0 0 1 1 *", "@ANNUALLY": "0 0 0 1 1 *", "@MONTHLY": "0 0 0 1 * *", "@WEEKLY": "0 0 0 * * 0",
	"@DAILY": "0 0 0 * * *", "@MIDNIGHT": "0 0 0 * * *", "@HOURLY": "0 0 * * * *", "@30MINUTES": "0 0,30 * * * *",
	"@15MINUTES": "0 */15 * * * *", "@10MINUTES": "0 */10 * * * *", "@5MINUTES": "0 */5 * * * *",
	"@ALWAYS": "0 * * * * *", "@EVERYSECOND": "* * * * * *",
}

// readCron adds the program of an expression to the schedule.
func (s *Schedule) readCron(value string, w *fault.Mistakes) {
	words := strings.Fields(strings.ToUpper(value))
	switch {
	case len(words) == 1 && strings.HasPrefix(words[0], "@"):
		expression, ok := shorthands[words[0]]
		if !ok {
			w.Add("/value", "cron", "%q is not supported: use @yearly, @monthly, @weekly, @daily or @hourly, or the type interval for intervals", value)
			return
		}
		words = strings.Fields(expression)
	case len(words) == 5:
		words = append([]string{"0"}, words...)
	case len(words) == 6:
	default:
		w.Add("/value", "cron", "must have 5 fields (minute, hour, day of month, month, day of week), or 6 with seconds first, not %d; there is no field for the year", len(words))
		return
	}
	if !checkFields(words, w) {
		return
	}
	p := compile(words)
	if !p.fires() {
		w.Add("/value", "never_fires", "%q never fires: none of its months has such a day", value)
	}
	s.programs = append(s.programs, p)
	s.realTime = words[1][0] == '*' || words[2][0] == '*'
	// If the hour field is *, a skipped hour loses no slots.
	s.tellGaps = words[2][0] != '*'
}

// checkFields reports the elements that are not valid in their field.
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

// compile converts an expression that checkFields has accepted into bit sets.
func compile(words []string) program {
	p := program{
		second: fields[0].set(words[0]), minute: fields[1].set(words[1]), hour: fields[2].set(words[2]),
		month: fields[4].set(words[4]),
	}
	month := onDays(fields[dayOfMonth].set(words[dayOfMonth]))
	week := onWeekdays(fields[dayOfWeek].set(words[dayOfWeek]))
	// As in cron since 1987, a day matches if either of the two fields for days matches, unless one
	// of them begins with *, in which case it only restricts the other.
	both := strings.ContainsAny(words[dayOfMonth][:1]+words[dayOfWeek][:1], "*?")
	for k := range p.days {
		m := month[k] | specialDays(words[dayOfMonth], k)
		w := week[k] | specialDays(words[dayOfWeek], k)
		if both {
			p.days[k] = m & w
		} else {
			p.days[k] = m | w
		}
	}
	return p
}
