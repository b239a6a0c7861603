package schedule_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

var benched = []schedule.Spec{
	{Type: schedule.Cron, Value: "*/5 * * * *"},
	{Type: schedule.Cron, Value: "*/5 * * * *", Timezone: "America/New_York"},
	{Type: schedule.Cron, Value: "0 9 * * MON-FRI", Timezone: "Europe/Berlin"},
	{Type: schedule.Cron, Value: "0 0 L * *", Timezone: "Europe/Berlin"},
	{Type: schedule.Cron, Value: "0 0 29 2 *", Timezone: "Europe/Berlin"},
	{Type: schedule.Cron, Value: "0 0 * 2 MON#5", Timezone: "Europe/Berlin"}, // once in 28 years
	{Type: schedule.Interval, Value: "90s"},
	{Type: schedule.WeeklyAt, Value: "MON 09:00,WED 09:00,FRI 17:00", Timezone: "Africa/Casablanca"},
}

// BenchmarkNext walks from slot to slot. Because 100,000 definitions can be due in one minute, a
// slot may cost at most 20 µs.
func BenchmarkNext(b *testing.B) {
	for _, spec := range benched {
		b.Run(string(spec.Type)+" "+spec.Value+" "+spec.Timezone, func(b *testing.B) {
			s, err := spec.Compile()
			if err != nil {
				b.Fatal(err)
			}
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for at := begin; b.Loop(); {
				tick, ok := s.Next(at)
				if at = tick.At; !ok || at.Year() > 2200 {
					at = begin
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, spec := range benched {
		b.Run(string(spec.Type)+" "+spec.Value+" "+spec.Timezone, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := spec.Compile(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
