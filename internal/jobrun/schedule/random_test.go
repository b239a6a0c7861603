package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// drawField generates a field of numbers, ranges and steps, and occasionally one of the special
// words.
func drawField(t *rapid.T, name string, low, high int, special ...string) string {
	number := func(from int) int { return rapid.IntRange(from, high).Draw(t, name) }
	step := func() int { return rapid.IntRange(1, min(high-low, 20)).Draw(t, name+" step") }
	element := func() string {
		switch rapid.IntRange(0, 5+min(2, len(special))).Draw(t, name+" form") {
		case 0:
			return fmt.Sprintf("*/%d", step())
		case 1:
			return fmt.Sprintf("%d/%d", number(low), step())
		case 2, 3:
			from := number(low)
			to := number(from)
			if rapid.Bool().Draw(t, "stepped") {
				return fmt.Sprintf("%d-%d/%d", from, to, step())
			}
			return fmt.Sprintf("%d-%d", from, to)
		case 4, 5:
			return fmt.Sprint(number(low))
		default:
			return strings.ReplaceAll(rapid.SampledFrom(special).Draw(t, name), "n", fmt.Sprint(number(low)))
		}
	}
	if rapid.IntRange(0, 2).Draw(t, name+" any") == 0 {
		return "*"
	}
	elements := make([]string, rapid.IntRange(1, 3).Draw(t, name+" elements"))
	for i := range elements {
		elements[i] = element()
	}
	return strings.Join(elements, ",")
}

func drawDays(t *rapid.T) string {
	return drawField(t, "day", 1, 31, "L", "nW") + " " + drawField(t, "month", 1, 12) + " " +
		drawField(t, "weekday", 0, 7, "nL", "n#1", "n#2", "n#3", "n#4", "n#5")
}

// The days that random expressions select over five years, two of them leap years, must match the
// calendar.
func TestDaysOfRandomExpressions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		expression := "30 12 " + drawDays(t)
		c := newCron(expression)
		begin := time.Date(rapid.IntRange(1971, 2200).Draw(t, "year"), 1, 1, 12, 30, 0, 0, time.UTC)
		var want, got []string
		for day := begin; day.Before(begin.AddDate(5, 0, 0)); day = day.AddDate(0, 0, 1) {
			if c.dueOn(day) {
				want = append(want, day.Format("2006-01-02T15:04:05"))
			}
		}
		s, err := schedule.Spec{Type: schedule.Cron, Value: expression}.Compile()
		if f := fault.As(err); f != nil && f.Fields[0].Code == "never_fires" {
			for day := begin; day.Before(begin.AddDate(41, 0, 0)); day = day.AddDate(0, 0, 1) {
				if c.dueOn(day) {
					t.Fatalf("%q is said never to fire, and it does on %s", expression, day)
				}
			}
			return
		} else if err != nil {
			t.Fatalf("%q: %v", expression, err)
		}
		for _, tick := range s.Ticks(begin.Add(-time.Second), begin.AddDate(5, 0, 0).Add(-time.Second), 5000) {
			got = append(got, tick.LocalTime)
		}
		if !slices.Equal(want, got) {
			t.Fatalf("%q (-calendar +listed):\n%s", expression, cmp.Diff(want, got))
		}
	})
}

// For random times of day around a clock change or any other day, the result must match the walk.
func TestTimesOfRandomExpressionsAroundClockChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		place := rapid.SampledFrom(places).Draw(r, "place")
		zone := load(t, place.zone)
		begin := time.Date(place.year, 1, 1, 0, 0, 0, 0, time.UTC)
		around := changes(zone, begin, begin.AddDate(2, 0, 0))
		if len(around) == 0 || rapid.IntRange(0, 9).Draw(r, "elsewhere") == 0 {
			around = []time.Time{begin.AddDate(0, 0, rapid.IntRange(2, 700).Draw(r, "day"))}
		}
		at := rapid.SampledFrom(around).Draw(r, "change")
		minute, hour := drawField(r, "minute", 0, 59), drawField(r, "hour", 0, 23)
		expression := minute + " " + hour + " * * *"
		if rapid.IntRange(0, 3).Draw(r, "with seconds") == 0 {
			expression = fmt.Sprintf("%d,%d ", rapid.IntRange(0, 59).Draw(r, "second"),
				rapid.IntRange(0, 59).Draw(r, "second")) + expression
		}
		s := fixed(expression)
		s.realTime = minute[0] == '*' || hour[0] == '*'
		spec, m := s.under(place.zone, rapid.SampledFrom(rules).Draw(r, "rule"))
		from := at.Add(time.Duration(rapid.IntRange(-30*60, 60).Draw(r, "from")) * time.Minute)
		if rapid.Bool().Draw(r, "bounded") {
			m.start = at.Add(time.Duration(rapid.IntRange(-7200, 7200).Draw(r, "start")) * time.Second)
			m.end = m.start.Add(time.Duration(rapid.IntRange(50*3600, 60*3600).Draw(r, "end")) * time.Second)
			spec.StartAt, spec.EndAt = &m.start, &m.end
		}
		compare(t, zone, from, at.AddDate(0, 0, 3), []schedule.Spec{spec}, []*model{m})
	})
}

// FuzzCompile checks that Compile returns for any spec, and that the compiled schedule works.
func FuzzCompile(f *testing.F) {
	for _, s := range append(dense, subjects...) {
		f.Add(string(s.spec.Type), s.spec.Value, "Europe/Berlin", int64(1_800_000_000))
	}
	for _, bad := range mistaken {
		f.Add(string(bad.spec.Type), bad.spec.Value, bad.spec.Timezone, int64(-62135596800))
	}
	f.Add("cron", "0 0 29 2 1#5", "Asia/Gaza", int64(253402300799))
	f.Add("interval", "87840h", "Pacific/Apia", int64(-1<<62))
	f.Fuzz(func(t *testing.T, kind, value, zone string, from int64) {
		spec := schedule.Spec{Type: schedule.Type(kind), Value: value, Timezone: zone}
		s, err := spec.Compile()
		if err != nil {
			if f := fault.As(err); f == nil || f.Kind != fault.Invalid || len(f.Fields) == 0 || s != nil {
				t.Fatalf("%+v: %v is not a fault about a field", spec, err)
			}
			return
		}
		after := time.Unix(from, 0)
		for range 3 {
			tick, ok := s.Next(after)
			if !ok {
				if from < 250_000_000_000 && !after.After(time.Unix(from, 0)) {
					t.Fatalf("%+v has no tick after %s", spec, after)
				}
				break
			}
			if !tick.At.After(after) || tick.At.Nanosecond() != 0 || tick.At.Year() > 9999 {
				t.Fatalf("%+v: the tick %s after %s", spec, tick.At, after)
			}
			after = tick.At
		}
		s.Preview(time.Unix(from, 0), 3)
	})
}
