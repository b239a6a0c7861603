package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

var aboutMany = []contract{
	{"a series counts every saga once, in the bucket of its creation", countedOverTime},
	{"attempts are read for live and archived sagas of a workflow, with all attempts of a saga together", attemptsRead},
	{"calls of other sagas to a host are read with the outcome of their last attempt", callsToAHost},
}

func countedOverTime(f *fixture) {
	all := library(f)
	first := all[len(all)-1].CreatedAt
	for _, tt := range []struct {
		name   string
		filter statistics.SeriesFilter
	}{
		{"by the minute", statistics.SeriesFilter{Bucket: time.Minute, From: first.Add(-3 * time.Minute), To: first.Add(4 * time.Minute)}},
		{"of a workflow", statistics.SeriesFilter{WorkflowName: "refund", Bucket: time.Minute, From: first.Add(-time.Minute), To: first.Add(3 * time.Minute)}},
		{"of an unused workflow", statistics.SeriesFilter{WorkflowName: "refun_", Bucket: time.Minute, From: first, To: first.Add(3 * time.Minute)}},
		{"by five minutes", statistics.SeriesFilter{Bucket: 5 * time.Minute, From: first.Add(-5 * time.Minute), To: first.Add(20 * time.Minute)}},
		{"by the hour", statistics.SeriesFilter{Bucket: time.Hour, From: first.Add(-2 * time.Hour), To: first.Add(3 * time.Hour)}},
		{"by the day", statistics.SeriesFilter{Bucket: 24 * time.Hour, From: first.Add(-48 * time.Hour), To: first.Add(48 * time.Hour)}},
		{"before there were any", statistics.SeriesFilter{Bucket: time.Hour, From: first.Add(-5 * time.Hour), To: first.Add(-2 * time.Hour)}},
	} {
		tt.filter.From, tt.filter.To = tt.filter.From.Truncate(tt.filter.Bucket), tt.filter.To.Truncate(tt.filter.Bucket)
		f.t.Run(tt.name, func(t *testing.T) {
			wantSeries(f.in(t), all, tt.filter)
		})
	}
	hour := first.Truncate(time.Hour)
	f.archive(f.everythingEnded())
	wantSeries(f, all, statistics.SeriesFilter{Bucket: time.Hour, From: hour, To: hour.Add(2 * time.Hour)})
}

func wantSeries(f *fixture, all []saga.Saga, filter statistics.SeriesFilter) {
	f.t.Helper()
	want := make([]statistics.SeriesBucket, filter.Buckets())
	took := make([][]time.Duration, filter.Buckets())
	for _, s := range only(all, filter.Matches) {
		n := int(s.CreatedAt.Sub(filter.From) / filter.Bucket)
		want[n].ByState[s.State]++
		if s.CompletedAt != nil && s.StartedAt != nil {
			took[n] = append(took[n], s.CompletedAt.Sub(*s.StartedAt))
		}
	}
	for n := range want {
		d := statistics.DurationsOf(took[n])
		want[n].Durations = statistics.Durations{Count: d.Count, P50: d.P50, P95: d.P95}
	}
	before := f.now()
	got, err := f.Reports.Series(f.t.Context(), f.tenant.ID, filter)
	if err != nil {
		f.t.Fatalf("series %+v: %v", filter, err)
	}
	if diff := cmp.Diff(want, got.Buckets, cmpopts.IgnoreFields(statistics.Durations{}, "P99", "Greatest")); diff != "" {
		f.t.Errorf("series %+v (-want +got):\n%s", filter, diff)
	}
	if d := got.AsOf.Sub(before); d < -time.Second || d > time.Minute {
		f.t.Errorf("they are as of %v, which is before %v", got.AsOf, before)
	}
}

func attemptsRead(f *fixture) {
	all := library(f)
	want := map[string]statistics.AttemptSample{}
	for _, name := range []string{"order", "refund"} {
		var sample statistics.AttemptSample
		for _, s := range all {
			if s.WorkflowName != name {
				continue
			}
			sample.Sagas++
			logs := f.load(s.ID).Logs
			slices.SortStableFunc(logs, func(a, b saga.StepLog) int { return a.Attempt - b.Attempt })
			for i := range logs {
				sample.Attempts = append(sample.Attempts, statistics.Sampled(&logs[i]))
			}
		}
		if want[name] = sample; len(sample.Attempts) == 0 {
			f.t.Fatalf("sagas of %s have no attempts", name)
		}
	}
	read := func(filter statistics.AttemptFilter) statistics.AttemptSample {
		got, err := f.Reports.Attempts(f.t.Context(), f.tenant.ID, filter)
		if err != nil {
			f.t.Fatalf("attempts %+v: %v", filter, err)
		}
		return got
	}
	wide := statistics.AttemptFilter{From: f.now().Add(-2 * time.Hour), To: f.now().Add(time.Hour)}
	check := func(when string) {
		f.t.Helper()
		for name, sample := range want {
			filter := wide
			filter.WorkflowName = name
			got := read(filter)
			if got.Sagas != sample.Sagas || got.Sampled {
				f.t.Errorf("%s: %d sagas of %s were read, of %d; sampled: %v", when, got.Sagas, name, sample.Sagas, got.Sampled)
			}
			if diff := cmp.Diff(sample.ByStep(), got.ByStep()); diff != "" {
				f.t.Errorf("%s: steps of %s (-want +got):\n%s", when, name, diff)
			}
		}
	}
	check("live")
	f.archive(f.everythingEnded())
	check("archived")
	for name, filter := range map[string]statistics.AttemptFilter{
		"of another version":  {WorkflowName: "order", WorkflowVersion: 2, From: wide.From, To: wide.To},
		"of no workflow":      {WorkflowName: "orde_", From: wide.From, To: wide.To},
		"of a time without":   {WorkflowName: "order", From: wide.From.Add(-time.Hour), To: wide.From},
		"of the time to come": {WorkflowName: "order", From: wide.To, To: wide.To.Add(time.Hour)},
	} {
		if got := read(filter); got.Sagas != 0 || len(got.Attempts) != 0 || got.Sampled {
			f.t.Errorf("%s: %+v", name, got)
		}
	}
	filter := wide
	filter.WorkflowName, filter.WorkflowVersion = "order", 1
	if got := read(filter); got.Sagas != want["order"].Sagas {
		f.t.Errorf("of version 1: %d sagas", got.Sagas)
	}
}

func callsToAHost(f *fixture) {
	begin := func() saga.Instance { return f.stored(f.owned(f.owner))[0] }
	waits := f.play(begin(), f.unanswered())                                // the first attempt at the host stock
	undone := f.play(begin(), f.done(`{}`), f.refused(`{}`))                // stock, then post, which refused
	retried := f.play(begin(), f.unanswered(), f.done(`{}`))                // the second attempt at stock
	_ = f.play(undone, f.done(`{}`))                                        // stock again, to undo the step
	refused := f.play(begin(), f.done(`{}`), f.done(`{}`), f.refused(`{}`)) // stock, post, and bank, which refused
	_, _ = retried, refused
	for _, tt := range []struct {
		host   string
		except saga.Instance
		want   string
	}{
		{"stock", saga.Instance{}, "SUCCESS, SUCCESS, SUCCESS, SUCCESS, TIMEOUT timeout"},
		{"stock", waits, "SUCCESS, SUCCESS, SUCCESS, SUCCESS"},
		{"stock", undone, "SUCCESS, SUCCESS, TIMEOUT timeout"},
		{"post", waits, "FAILED refused, SUCCESS"},
		{"bank", waits, "FAILED refused"},
		{"stoc", waits, ""},
		{"", waits, ""},
	} {
		for _, workflow := range []string{"order", "another"} {
			calls, err := f.Reports.Calls(f.t.Context(), f.tenant.ID,
				statistics.CallsFilter{Host: tt.host, WorkflowName: workflow, Except: tt.except.ID})
			if err != nil {
				f.t.Fatal(err)
			}
			got := make([]string, len(calls))
			for i, c := range calls {
				got[i] = strings.TrimSpace(string(c.Status) + " " + string(c.Class))
				if c.At.IsZero() {
					f.t.Errorf("%s: %+v has no time", tt.host, c)
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != tt.want {
				f.t.Errorf("calls to %q: %s, want %s", tt.host, text, tt.want)
			}
		}
	}
	calls, err := f.Reports.Calls(f.t.Context(), newID(), statistics.CallsFilter{Host: "stock"})
	if err != nil || len(calls) != 0 {
		f.t.Errorf("another tenant sees %v, %v", calls, err)
	}
}
