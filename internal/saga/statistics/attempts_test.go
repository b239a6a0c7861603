package statistics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

var (
	sampleOne, sampleTwo = uuid.UUID{1}, uuid.UUID{2}
	sampleAt             = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// tried is an attempt that began the given number of seconds after noon and took the given number
// of seconds.
func tried(id uuid.UUID, name string, a saga.Action, n int, status saga.LogStatus, code string, from, took int,
) SampledAttempt {
	out := SampledAttempt{
		SagaID: id, StepName: name, Action: a, Attempt: n, Status: status, Outcome: code, Final: status == saga.LogSuccess,
		StartedAt: sampleAt.Add(time.Duration(from) * time.Second),
	}
	if name == "charge" {
		out.StepIndex = 1
	}
	if status != saga.LogRunning {
		out.EndedAt = out.StartedAt.Add(time.Duration(took) * time.Second)
	}
	return out
}

func final(a SampledAttempt) SampledAttempt { a.Final = true; return a }

func seconds(n ...int) (all []time.Duration) {
	for _, s := range n {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}

func TestAttemptsAreCountedByStep(t *testing.T) {
	sample := AttemptSample{Attempts: []SampledAttempt{
		tried(sampleOne, "charge", saga.Execute, 1, saga.LogTimeout, "timeout", 0, 30),
		tried(sampleOne, "charge", saga.Execute, 2, saga.LogFailed, "http_503", 40, 1),
		final(tried(sampleOne, "charge", saga.Execute, 3, saga.LogFailed, "http_409", 60, 2)),
		// Retried by an operator, which starts a new round.
		tried(sampleOne, "charge", saga.Execute, 4, saga.LogFailed, "http_503", 100, 1),
		tried(sampleOne, "charge", saga.Execute, 5, saga.LogSuccess, "http_200", 110, 3),
		tried(sampleTwo, "charge", saga.Execute, 1, saga.LogRunning, "", 200, 0),
		tried(sampleOne, "reserve", saga.Execute, 1, saga.LogSuccess, "http_200", 0, 1),
		tried(sampleTwo, "reserve", saga.Execute, 1, saga.LogFailed, "http_503", 0, 1),
		final(tried(sampleTwo, "reserve", saga.Execute, 1, saga.LogSuccess, saga.OutcomeOperator, 9, 0)),
		tried(sampleOne, "reserve", saga.Compensate, 1, saga.LogSuccess, "http_204", 300, 1),
		final(tried(sampleTwo, "charge", saga.Compensate, 1, saga.LogSkipped, "", 0, 0)), // nothing to undo
	}}
	code := func(code string, attempts, gaveUp, at int, of uuid.UUID) StepFailures {
		return StepFailures{code, attempts, gaveUp, sampleAt.Add(time.Duration(at) * time.Second), of}
	}
	want := []StepStatistics{
		{
			StepName: "reserve", Action: saga.Execute, Sagas: 2, Attempts: 2, Completed: 1, Failed: 1, ByOperator: 1,
			Each: DurationsOf(seconds(1, 1)), Whole: DurationsOf(seconds(1)),
			Failures: []StepFailures{code("http_503", 1, 0, 1, sampleTwo)},
		},
		{
			StepName: "reserve", Action: saga.Compensate, Sagas: 1, Attempts: 1, Completed: 1,
			Each: DurationsOf(seconds(1)), Whole: DurationsOf(seconds(1)),
		},
		{
			StepName: "charge", StepIndex: 1, Action: saga.Execute, Sagas: 2, Attempts: 6, Running: 1, Completed: 1, Failed: 4,
			GaveUp: 1, Retries: 4, Each: DurationsOf(seconds(30, 1, 2, 1, 3)), Whole: DurationsOf(seconds(62, 13)),
			Failures: []StepFailures{
				code("http_503", 2, 0, 101, sampleOne), code("http_409", 1, 1, 62, sampleOne),
				code("timeout", 1, 0, 30, sampleOne),
			},
		},
	}
	if diff := cmp.Diff(want, sample.ByStep()); diff != "" {
		t.Errorf("by step (-want +got):\n%s", diff)
	}
}

func TestPercentilesAreDurationsThatOccurred(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, tt := range []struct {
		of   []int
		want []int // the 50th, 95th and 99th percentiles and the maximum
	}{
		{[]int{7}, []int{7, 7, 7, 7}},
		{[]int{2, 1}, []int{1, 2, 2, 2}},
		{[]int{3, 1, 2}, []int{2, 3, 3, 3}},
		{hundred, []int{50, 95, 99, 100}},
	} {
		d := DurationsOf(seconds(tt.of...))
		diff := cmp.Diff(seconds(tt.want...), []time.Duration{d.P50, d.P95, d.P99, d.Greatest})
		if diff != "" || d.Count != len(tt.of) {
			t.Errorf("of %v, %d counted (-want +got):\n%s", tt.of, d.Count, diff)
		}
	}
	if d := DurationsOf(nil); d != (Durations{}) {
		t.Errorf("of nothing: %+v", d)
	}
}
