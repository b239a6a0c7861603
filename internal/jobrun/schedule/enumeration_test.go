package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of this Go version, for machines that have none

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// places lists zones with the peculiarity of each, and the first of two years.
var places = []struct {
	zone string
	year int
}{
	// These are zones without changes, some of them offset by half or quarter hours, and zones with
	// ordinary changes.
	{"UTC", 2026}, {"Asia/Tokyo", 2026}, {"Asia/Kolkata", 2026}, {"Asia/Kathmandu", 2026},
	{"America/New_York", 2026}, {"Europe/Berlin", 2026}, {"Europe/London", 2026}, {"Australia/Sydney", 2026},
	// Summer time is standard time here, and winter time is an hour less.
	{"Europe/Dublin", 2026},
	// The clock goes back for Ramadan.
	{"Africa/Casablanca", 2026},
	// The clock changes on Fridays, and summer time ends at midnight.
	{"Africa/Cairo", 2026},
	// Midnight does not exist on the day of the change.
	{"Asia/Beirut", 2026}, {"America/Havana", 2026}, {"America/Santiago", 2026}, {"America/Asuncion", 2023},
	{"America/Sao_Paulo", 2017}, {"Asia/Tehran", 2021}, {"Asia/Amman", 2021}, // the same, until they abolished it
	// Lord Howe changes by 30 minutes, Chatham is 45 minutes off the hour, and St. John's changed at
	// one minute past midnight.
	{"Australia/Lord_Howe", 2026}, {"Pacific/Chatham", 2026}, {"America/St_Johns", 2010},
	{"Antarctica/Troll", 2026},                          // two hours
	{"Pacific/Apia", 2011}, {"Pacific/Kwajalein", 1993}, // a whole day is skipped
	{"Asia/Pyongyang", 2015}, {"America/Caracas", 2016}, // half an hour permanently
	{"Europe/Moscow", 2010}, {"Europe/Istanbul", 2015}, // forward permanently; postponed by two weeks
	{"America/Nuuk", 2023}, {"Africa/Juba", 2020}, // an hour before midnight; back permanently
	{"Asia/Gaza", 2026}, {"America/Scoresbysund", 2024}, // rules for years ahead; a new offset at the time of a change
	{"Pacific/Norfolk", 2018}, {"America/Port-au-Prince", 2016}, {"Asia/Jerusalem", 2026}, {"Pacific/Auckland", 2026},
	{"America/Los_Angeles", 2026}, {"Europe/Chisinau", 2026}, {"Africa/El_Aaiun", 2026}, {"Atlantic/Azores", 2026},
	// The rule that follows the tables applies.
	{"America/New_York", 2040}, {"Australia/Sydney", 2040}, {"Antarctica/Troll", 2039},
}

// subject is a spec, with cron expressions that have the same meaning.
type subject struct {
	spec     schedule.Spec
	crons    []string
	realTime bool
}

func fixed(expression string) subject {
	return subject{schedule.Spec{Type: schedule.Cron, Value: expression}, []string{expression}, false}
}

func running(expression string) subject {
	return subject{schedule.Spec{Type: schedule.Cron, Value: expression}, []string{expression}, true}
}

func worded(t schedule.Type, value string, crons ...string) subject {
	return subject{schedule.Spec{Type: t, Value: value}, crons, t == schedule.HourlyAtMinute}
}

var subjects = []subject{
	running("*/20 * * * *"), running("30 * * * *"), running("45 */2 * * *"), running("*/30 2 * * *"),
	running("15 */6 * * 1-5"),
	fixed("0 0 * * *"), fixed("30 2 * * *"), fixed("30 1 * * *"), fixed("15 0-3 * * *"), fixed("5-59/10 2 * * *"),
	fixed("0 2,3 * * *"),
	fixed("0 0 13 * 5"), fixed("0 0 */5 * 5"), fixed("0 1 1-7 * */3"), fixed("10 1 L * *"), fixed("10 2 15W * *"),
	fixed("10 3 * * 0#1,5L"),
	fixed("0 12 29 2 *"), fixed("0 0 31 * ?"), fixed("59 23 * JAN-MAR,DEC SUN"), fixed("20,40 30 2 * * 7"),
	running("30 0/5 * 1W,L * 1#2"),
	worded(schedule.DailyAt, "02:15,17:30:15", "0 15 2 * * *", "15 30 17 * * *"),
	worded(schedule.WeekdaysAt, "00:00", "0 0 0 * * 1-5"),
	worded(schedule.WeeklyAt, "SUN 02:30, sat 23:59:59", "0 30 2 * * 0", "59 59 23 * * 6"),
	worded(schedule.HourlyAtMinute, "0,15", "0,15 * * * *"),
}

// dense lists schedules that fire too often to list two years of them in every zone.
var dense = []subject{running("* * * * *"), running("*/7 * * * *"), running("15,45 * 0-2 * * *"),
	fixed("0-59 0-23 * * *"), fixed("* 59 0-3 * * *"),
	fixed("0/13 0,1,2,3,23 * * *"), worded(schedule.DailyAt, "00:00,00:30,01:00,01:30,02:00,02:30,03:00,23:45", "0,30 0-2 * * *", "0 3 * * *", "45 23 * * *")}

// rules contains all combinations of rules for gaps and overlaps.
var rules = []schedule.Spec{{}, {DSTGap: schedule.Skip}, {DSTOverlap: schedule.Both},
	{DSTGap: schedule.Skip, DSTOverlap: schedule.Both}}

func (s subject) under(zone string, rule schedule.Spec) (schedule.Spec, *model) {
	m := &model{realTime: s.realTime, skip: rule.DSTGap == schedule.Skip, both: rule.DSTOverlap == schedule.Both}
	for _, c := range s.crons {
		m.crons = append(m.crons, newCron(c))
	}
	spec := s.spec
	spec.Timezone, spec.DSTGap, spec.DSTOverlap = zone, rule.DSTGap, rule.DSTOverlap
	return spec, m
}

func compare(t *testing.T, zone *time.Location, from, until time.Time, specs []schedule.Spec, models []*model) {
	t.Helper()
	enumerate(t, zone, from, until, models)
	for i, spec := range specs {
		s, err := spec.Compile()
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		// The last day is needed for the repetitions that slots of the previous day omit.
		end := until.Add(-26 * time.Hour)
		want := models[i].ticks
		for len(want) > 0 && want[len(want)-1].At.After(end) {
			want = want[:len(want)-1]
		}
		got := s.Ticks(from.Add(-time.Nanosecond), end, 1<<30)
		if !slices.Equal(want, got) { // cmp takes a second for the long lists
			t.Errorf("%s %q in %s, gap %q, overlap %q (-walked +listed):\n%s", spec.Type, spec.Value, zone, spec.DSTGap, spec.DSTOverlap, cmp.Diff(want, got))
		}
	}
}

// changes lists the clock changes, each rounded up to the hour.
func changes(zone *time.Location, from, until time.Time) []time.Time {
	var found []time.Time
	_, last := from.In(zone).Zone()
	for at := from; at.Before(until); at = at.Add(time.Hour) {
		if _, offset := at.In(zone).Zone(); offset != last {
			found, last = append(found, at), offset
		}
	}
	return found
}

func load(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestTicksAreThoseOfAWalkOverTwoYears(t *testing.T) {
	t.Parallel()
	for i, place := range places {
		t.Run(fmt.Sprint(place.zone, place.year), func(t *testing.T) {
			t.Parallel()
			var specs []schedule.Spec
			var models []*model
			for j, s := range subjects {
				if (i+j)%2 == 1 {
					continue // half of them for each zone, and the other half for the next zone
				}
				spec, m := s.under(place.zone, rules[(i+j)/2%len(rules)])
				specs, models = append(specs, spec), append(models, m)
			}
			from := time.Date(place.year, 1, 1, 0, 0, 0, 0, time.UTC)
			compare(t, load(t, place.zone), from, from.AddDate(2, 0, 0), specs, models)
		})
	}
}

func TestTicksAroundClockChangesFollowEveryRule(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(fmt.Sprint(place.zone, place.year), func(t *testing.T) {
			t.Parallel()
			zone := load(t, place.zone)
			from := time.Date(place.year, 1, 1, 0, 0, 0, 0, time.UTC)
			for _, at := range changes(zone, from, from.AddDate(2, 0, 0)) {
				for _, rule := range rules {
					var specs []schedule.Spec
					var models []*model
					for _, s := range append(dense, subjects...) {
						spec, m := s.under(place.zone, rule)
						specs, models = append(specs, spec), append(models, m)
					}
					compare(t, zone, at.AddDate(0, 0, -1), at.AddDate(0, 0, 2), specs, models)
				}
			}
		})
	}
}

// Next returns the same slots as Ticks, one by one, wherever it starts, even inside gaps and
// overlaps.
func TestNextFromEveryMomentIsTheNextOfTheTicks(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Beirut"} {
		for _, s := range append(dense, subjects...) {
			spec, _ := s.under(place, rules[len(s.spec.Value)%len(rules)])
			c, err := spec.Compile()
			if err != nil {
				t.Fatal(err)
			}
			year := 2026
			if strings.HasSuffix(place, "Apia") {
				year = 2011
			}
			begin := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
			for _, at := range changes(load(t, place), begin, begin.AddDate(1, 0, 0)) {
				until := at.Add(15 * time.Hour)
				for from := at.Add(-90 * time.Minute); from.Before(at.Add(90 * time.Minute)); from = from.Add(
					1379 * time.Second / 2) {
					ticks := c.Ticks(from, until, 3)
					next, ok := c.Next(from)
					if len(ticks) > 0 && (!ok || next != ticks[0]) {
						t.Fatalf("%s in %s: Next(%s) = %+v; the ticks begin with %+v", spec.Value, place, from, next, ticks[0])
					}
					if !next.At.After(from) {
						t.Fatalf("%s in %s: Next(%s) = %s is not after it", spec.Value, place, from, next.At)
					}
				}
			}
		}
	}
}
