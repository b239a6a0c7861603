package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

func cronSpec(value string) schedule.Spec { return schedule.Spec{Type: schedule.Cron, Value: value} }

func spec(t schedule.Type, value string) schedule.Spec { return schedule.Spec{Type: t, Value: value} }

func at(text string) *time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return &t
}

const ofDay = "must be one of: *, a number from 1 to 31, a range such as 1-5, a step such as */2, L (the last day), 15W (the workday nearest to the 15th)"
const ofWeek = "must be one of: *, a number from 0 to 7, a range such as 1-5, a step such as */2, SUN to SAT, 5L (the last Friday), 1#2 (the second Monday)"

// mistaken lists invalid specs, each with the complete error.
var mistaken = []struct {
	name string
	spec schedule.Spec
	want []string // pointer code: message
}{
	{"nothing", schedule.Spec{}, []string{"/type required: is required: cron, interval, every_n_minutes, hourly_at_minute, daily_at, weekdays_at or weekly_at"}},
	{"an unknown type", spec("monthly", "1"), []string{"/type enum: must be cron, interval, every_n_minutes, hourly_at_minute, daily_at, weekdays_at or weekly_at"}},
	{"no expression", cronSpec(""), []string{"/value cron: must have 5 fields (minute, hour, day of month, month, day of week), or 6 with seconds first, not 0; there is no field for the year"}},
	{"too few fields", cronSpec("0 9 * *"), []string{"/value cron: must have 5 fields (minute, hour, day of month, month, day of week), or 6 with seconds first, not 4; there is no field for the year"}},
	{"a year", cronSpec("0 0 9 * * * 2027"), []string{"/value cron: must have 5 fields (minute, hour, day of month, month, day of week), or 6 with seconds first, not 7; there is no field for the year"}},
	{"a year without seconds", cronSpec("0 9 1 1 * 2027"), []string{`/value cron: day of week "2027" must be from 0 to 7`}},
	{"too long", cronSpec("0 9 * * " + strings.Repeat("1,", 250) + "1"), []string{"/value too_long: must have at most 500 bytes"}},
	{"out of range behind what fits", cronSpec("*,99 * * * *"), []string{`/value cron: minute "99" must be from 0 to 59`}},
	{"each field out of range", cronSpec("60 60 24 0 13 8"), []string{
		`/value cron: second "60" must be from 0 to 59`, `/value cron: minute "60" must be from 0 to 59`, `/value cron: hour "24" must be from 0 to 23`,
		`/value cron: day of month "0" must be from 1 to 31`, `/value cron: month "13" must be from 1 to 12`, `/value cron: day of week "8" must be from 0 to 7`,
	}},
	{"not a number", cronSpec("5x * * * *"), []string{`/value cron: minute "5X" must be one of: *, a number from 0 to 59, a range such as 1-5, a step such as */2`}},
	{"a name in the wrong field", cronSpec("0 0 MON * *"), []string{`/value cron: day of month "MON" ` + ofDay}},
	{"a long name", cronSpec("0 0 * * MONDAY"), []string{`/value cron: day of week "MONDAY" ` + ofWeek}},
	{"an empty element", cronSpec("0,,5 * * * *"), []string{`/value cron: minute "" must be one of: *, a number from 0 to 59, a range such as 1-5, a step such as */2`}},
	{"a negative number", cronSpec("-5 * * * *"), []string{`/value cron: minute "-5" must be one of: *, a number from 0 to 59, a range such as 1-5, a step such as */2`}},
	{"a range of three", cronSpec("1-5-7 * * * *"), []string{`/value cron: minute "1-5-7" must be one of: *, a number from 0 to 59, a range such as 1-5, a step such as */2`}},
	{"a range that runs backwards", cronSpec("0 17-9 * * *"), []string{`/value cron: hour "17-9" runs backwards`}},
	{"a week that ends with Sunday as 0", cronSpec("0 9 * * FRI-SUN"), []string{`/value cron: day of week "FRI-SUN" runs backwards; at the end of a range, Sunday is 7`}},
	{"a step of nothing", cronSpec("*/0 * * * *"), []string{`/value cron: minute "*/0" must have a step from 1 to 59 after the slash`}},
	{"a step larger than the field", cronSpec("*/90 * * * *"), []string{`/value cron: minute "*/90" must have a step from 1 to 59 after the slash`}},
	{"two steps", cronSpec("5/2/2 * * * *"), []string{`/value cron: minute "5/2/2" must have a step from 1 to 59 after the slash`}},
	{"LW", cronSpec("0 0 LW * *"), []string{`/value cron: day of month "LW" ` + ofDay}},
	{"15WL", cronSpec("0 0 15WL * *"), []string{`/value cron: day of month "15WL" ` + ofDay}},
	{"a workday near no day", cronSpec("0 0 32W * *"), []string{`/value cron: day of month "32W" must be from 1 to 31`}},
	{"L without a weekday", cronSpec("0 0 * * L"), []string{`/value cron: day of week "L" ` + ofWeek}},
	{"the sixth Monday", cronSpec("0 0 * * 1#6"), []string{`/value cron: day of week "1#6" must have a number from 1 to 5 after #`}},
	{"a question mark for minutes", cronSpec("? * * * *"), []string{`/value cron: minute "?" must be one of: *, a number from 0 to 59, a range such as 1-5, a step such as */2`}},
	{"an unknown shorthand", cronSpec("@reboot"), []string{`/value cron: "@reboot" is not supported: use @yearly, @monthly, @weekly, @daily or @hourly, or the type interval for intervals`}},
	{"February 30", cronSpec("0 0 30 2 *"), []string{`/value never_fires: "0 0 30 2 *" never fires: none of its months has such a day`}},
	{"the 31st of short months", cronSpec("0 0 31 2,4,6,9,11 *"), []string{`/value never_fires: "0 0 31 2,4,6,9,11 *" never fires: none of its months has such a day`}},
	{"the workday nearest to April 31", cronSpec("0 0 31W 4 ?"), []string{`/value never_fires: "0 0 31W 4 ?" never fires: none of its months has such a day`}},
	{"an unknown zone", schedule.Spec{Type: schedule.DailyAt, Value: "09:00", Timezone: "Europe/Bärlin"}, []string{`/timezone unknown_zone: "Europe/Bärlin" is not a time zone: use an IANA name such as Europe/Berlin, or UTC`}},
	{"the machine's zone", schedule.Spec{Type: schedule.DailyAt, Value: "09:00", Timezone: "Local"}, []string{`/timezone unknown_zone: "Local" is not a time zone: use an IANA name such as Europe/Berlin, or UTC`}},
	{"a zone with leap seconds", schedule.Spec{Type: schedule.DailyAt, Value: "09:00", Timezone: "right/Europe/Berlin"}, []string{`/timezone unknown_zone: "right/Europe/Berlin" is not a time zone: use an IANA name such as Europe/Berlin, or UTC`}},
	{"a way out of the zone directory", schedule.Spec{Type: schedule.DailyAt, Value: "09:00", Timezone: "../../etc/passwd"}, []string{`/timezone unknown_zone: "../../etc/passwd" is not a time zone: use an IANA name such as Europe/Berlin, or UTC`}},
	{"no interval", spec(schedule.Interval, "5"), []string{`/value interval: "5" is not a duration such as 90s, 15m or 36h`}},
	{"an interval of no time", spec(schedule.Interval, "0s"), []string{"/value out_of_range: must be from 1s to 87840h"}},
	{"an interval of eleven years", spec(schedule.Interval, "97000h"), []string{"/value out_of_range: must be from 1s to 87840h"}},
	{"an interval with a fraction", spec(schedule.Interval, "1.5s"), []string{"/value interval: must be a whole number of seconds"}},
	{"every 0 minutes", spec(schedule.EveryNMinutes, "0"), []string{"/value out_of_range: must be a number of minutes from 1 to 5270400"}},
	{"every -5 minutes", spec(schedule.EveryNMinutes, "-5"), []string{"/value out_of_range: must be a number of minutes from 1 to 5270400"}},
	{"minute 60", spec(schedule.HourlyAtMinute, "0,60"), []string{`/value hourly_at_minute: entry 2 "60" is not a minute from 0 to 59`}},
	{"no time of day", spec(schedule.DailyAt, ""), []string{`/value time_of_day: entry 1 "" is not a time from 00:00 to 23:59:59`}},
	{"24:00 and 9:00", spec(schedule.WeekdaysAt, "24:00, 9:00"), []string{
		`/value time_of_day: entry 1 "24:00" is not a time from 00:00 to 23:59:59`, `/value time_of_day: entry 2 "9:00" is not a time from 00:00 to 23:59:59`,
	}},
	{"a day of no name", spec(schedule.WeeklyAt, "MON 09:00,FRIDAY 17:00"), []string{`/value weekly_at: entry 2 "FRIDAY 17:00" does not begin with a day, MON to SUN, and a space`}},
	{"a day without a time", spec(schedule.WeeklyAt, "MON"), []string{`/value time_of_day: entry 1 "" is not a time from 00:00 to 23:59:59`}},
	{"many times", spec(schedule.HourlyAtMinute, strings.Repeat("1,", 100)+"1"), []string{"/value too_many: must have at most 100 entries"}},
	{"unknown rules", schedule.Spec{Type: schedule.DailyAt, Value: "09:00", DSTGap: "later", DSTOverlap: "twice"},
		[]string{
			"/dst_gap enum: must be fire_after or skip", "/dst_overlap enum: must be first or both",
		}},
	{"an end before the start", schedule.Spec{Type: schedule.DailyAt, Value: "09:00", StartAt: at("2027-01-02T00:00:00Z"),
		EndAt: at("2027-01-01T00:00:00Z")}, []string{
		"/end_at out_of_range: must be later than start_at",
	}},
	{"an end before the first leap day", schedule.Spec{Type: schedule.Cron, Value: "0 0 29 2 *", StartAt: at("2026-01-01T00:00:00Z"),
		EndAt: at("2028-02-29T00:00:00Z")}, []string{
		"/end_at never_fires: is before the first slot",
	}},
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range mistaken {
		t.Run(tt.name, func(t *testing.T) {
			s, err := tt.spec.Compile()
			f := fault.As(err)
			if f == nil || s != nil {
				t.Fatalf("Compile = %v, %v; want a fault", s, err)
			}
			if f.Kind != fault.Invalid || f.Code != schedule.CodeInvalid {
				t.Errorf("kind %d, code %s", f.Kind, f.Code)
			}
			var got []string
			for _, field := range f.Fields {
				got = append(got, field.Pointer+" "+field.Code+": "+field.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}
