package schedule_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// model is an independent implementation of Spec. It walks over every minute of real time, reads
// the wall clock, and checks whether an expression matches. It shares no code with the package.
type model struct {
	crons         []cron
	realTime      bool
	skip, both    bool
	start, end    time.Time // zero: none
	ticks         []schedule.Tick
	dueToday      []bool // by cron
	shown, latest int64  // wall-clock minutes
}

// cron is an expression of six fields, split into its fields.
type cron struct {
	words                [6]string
	second, minute, hour [60]bool
}

func newCron(expression string) cron {
	words := strings.Fields(expression)
	if len(words) == 5 {
		words = append([]string{"0"}, words...)
	}
	c := cron{words: [6]string(words)}
	for n := range 60 {
		c.second[n] = fits(words[0], n, 0, 59)
		c.minute[n] = fits(words[1], n, 0, 59)
		c.hour[n] = n < 24 && fits(words[2], n, 0, 23)
	}
	return c
}

var numbers = strings.NewReplacer("SUN", "0", "MON", "1", "TUE", "2", "WED", "3", "THU", "4", "FRI", "5", "SAT", "6",
	"JAN", "1", "FEB", "2", "MAR", "3", "DEC", "12")

// fits looks for n in a list of numbers, ranges and steps.
func fits(field string, n, low, high int) bool {
	for part := range strings.SplitSeq(numbers.Replace(field), ",") {
		span, step, stepped := strings.Cut(part, "/")
		a, b, ranged := strings.Cut(span, "-")
		from, err := strconv.Atoi(a)
		to, by := from, 1
		switch {
		case a == "*" || a == "?":
			from, to = low, high
		case err != nil:
			continue // L, W, #: see dueOn
		case ranged:
			to, _ = strconv.Atoi(b)
		case stepped:
			to = high
		}
		if stepped {
			by, _ = strconv.Atoi(step)
		}
		for v := from; v <= to; v += by {
			if v == n {
				return true
			}
		}
	}
	return false
}

// dueOn reports whether a date fits the days and months of the expression.
func (c *cron) dueOn(date time.Time) bool {
	d, weekday := date.Day(), int(date.Weekday())
	last := date.AddDate(0, 0, 1-d).AddDate(0, 1, -1).Day()
	month, week := c.words[3], numbers.Replace(c.words[5])
	onDay := fits(month, d, 1, 31)
	for part := range strings.SplitSeq(month, ",") {
		if part == "L" && d == last {
			onDay = true
		}
		if n, ok := strings.CutSuffix(part, "W"); ok {
			want, _ := strconv.Atoi(n)
			onDay = onDay || nearest(date, want, last) == d
		}
	}
	week = strings.ReplaceAll(","+week, ",7/", ",0/")[1:]
	onWeekday := fits(week, weekday, 0, 6) || weekday == 0 && fits(week, 7, 0, 6) // 2/3 ends on Saturday, 2-7/3 on Sunday
	for part := range strings.SplitSeq(week, ",") {
		if n, ok := strings.CutSuffix(part, "L"); ok {
			want, _ := strconv.Atoi(n)
			onWeekday = onWeekday || weekday == want%7 && d > last-7
		}
		if n, k, ok := strings.Cut(part, "#"); ok {
			want, _ := strconv.Atoi(n)
			which, _ := strconv.Atoi(k)
			onWeekday = onWeekday || weekday == want%7 && (d+6)/7 == which
		}
	}
	if !fits(c.words[4], int(date.Month()), 1, 12) {
		return false
	}
	if strings.ContainsAny(month[:1]+week[:1], "*?") {
		return onDay && onWeekday
	}
	return onDay || onWeekday
}

// nearest returns the workday of the date's month that is nearest to its day n, or 0 if there is no
// such day.
func nearest(date time.Time, n, last int) int {
	for distance := 0; n <= last && distance < 3; distance++ {
		for _, d := range []int{n - distance, n + distance} {
			on := date.AddDate(0, 0, d-date.Day()).Weekday()
			if d >= 1 && d <= last && on != time.Saturday && on != time.Sunday {
				return d
			}
		}
	}
	return 0
}

// enumerate lists the slots of each model in [from, until) minute by minute.
func enumerate(t *testing.T, zone *time.Location, from, until time.Time, models []*model) {
	t.Helper()
	offsetAt := func(u int64) int64 {
		_, seconds := time.Unix(u*60, 0).In(zone).Zone()
		if seconds%60 != 0 {
			t.Fatal("the model knows whole minutes only")
		}
		return int64(seconds / 60)
	}
	var offset int64
	changing := true
	date := int64(-1)
	const before = 26 * 60 // minutes of history, to know which times the clock has shown
	for u := from.Unix()/60 - before; u < until.Unix()/60; u++ {
		if changing || u%15 == 0 {
			offset = offsetAt(u) // computed every minute in a quarter hour whose offset changes
			changing = changing && u%15 != 0 || u%15 == 0 && offset != offsetAt(u+15)
		}
		wall := u + offset
		recording := u >= from.Unix()/60
		for _, m := range models {
			if date < 0 {
				m.shown, m.latest = wall-1, wall-1
			}
			if wall/1440 != date {
				m.newDay(wall)
			}
			if wall > m.latest+1 && recording {
				m.gap(u, m.latest+1, wall)
			}
			if wall/1440 != m.latest/1440 || date < 0 {
				m.newDay(wall)
			}
			if recording {
				m.minute(u, wall, wall <= m.shown)
			}
			m.latest, m.shown = wall, max(m.shown, wall)
		}
		date = wall / 1440
	}
}

func (m *model) newDay(wall int64) {
	date := time.Unix(wall*60, 0).UTC()
	m.dueToday = m.dueToday[:0]
	for i := range m.crons {
		m.dueToday = append(m.dueToday, m.crons[i].dueOn(date))
	}
}

// seconds lists the matching seconds of a wall-clock minute.
func (m *model) seconds(wall int64) []int64 {
	var due []int64
	for i := range m.crons {
		c := &m.crons[i]
		if !m.dueToday[i] || !c.minute[wall%60] || !c.hour[wall/60%24] {
			continue
		}
		for s := range 60 {
			if c.second[s] {
				due = append(due, wall*60+int64(s))
			}
		}
	}
	if len(m.crons) > 1 {
		slices.Sort(due)
		due = slices.Compact(due)
	}
	return due
}

func (m *model) minute(u, wall int64, again bool) {
	for _, at := range m.seconds(wall) {
		tick := schedule.Tick{At: time.Unix((u-wall)*60+at, 0).UTC(),
			LocalTime: time.Unix(at, 0).UTC().Format("2006-01-02T15:04:05")}
		if again && !m.realTime && !m.both {
			for i := range m.ticks {
				if m.ticks[i].LocalTime == tick.LocalTime && m.ticks[i].Note == "" {
					m.ticks[i].Note = schedule.RepetitionLeftOut
				}
			}
			continue
		}
		if again {
			tick.Note = schedule.Repeated
		}
		m.add(tick)
	}
}

// gap handles wall-clock minutes that do not exist before the real minute u.
func (m *model) gap(u, wall, until int64) {
	if m.realTime || m.skip {
		return
	}
	defer m.newDay(until)
	m.newDay(until)
	if due := m.seconds(until); len(due) > 0 && due[0] == until*60 {
		return // its own slot is at that moment
	}
	for ; wall < until; wall++ {
		m.newDay(wall)
		if due := m.seconds(wall); len(due) > 0 {
			m.add(schedule.Tick{At: time.Unix(u*60, 0).UTC(), Note: schedule.MovedGap,
				LocalTime: time.Unix(due[0], 0).UTC().Format("2006-01-02T15:04:05")})
			return
		}
	}
}

func (m *model) add(tick schedule.Tick) {
	if (m.start.IsZero() || !tick.At.Before(m.start)) && (m.end.IsZero() || tick.At.Before(m.end)) {
		m.ticks = append(m.ticks, tick)
	}
}
