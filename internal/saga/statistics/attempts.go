package statistics

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// Limits on the attempts that are read for statistics.
const (
	MostSampledSagas    = 2_000
	MostSampledAttempts = 20_000
	// SampleParts is the number of equal parts into which a period is divided if it has too many
	// sagas.
	SampleParts = 100
)

// AttemptFilter selects the sagas whose attempts are read by their time of creation, From inclusive
// and To exclusive. A WorkflowVersion of 0 selects all versions.
type AttemptFilter struct {
	WorkflowName    string
	WorkflowVersion int
	From, To        time.Time
}

// Matches reports whether a saga is selected.
func (f *AttemptFilter) Matches(s *saga.Saga) bool {
	return s.WorkflowName == f.WorkflowName && (f.WorkflowVersion == 0 || s.WorkflowVersion == f.WorkflowVersion) &&
		saga.Within(s.CreatedAt, f.From, f.To)
}

// AttemptSample holds the attempts of some sagas, grouped by saga and in order.
type AttemptSample struct {
	Sagas    int
	Sampled  bool // there are more sagas or attempts than were read
	Attempts []SampledAttempt
}

// SampledAttempt is the part of a StepLog that statistics need. The newest saga comes first.
type SampledAttempt struct {
	SagaID    uuid.UUID
	StepIndex int
	StepName  string
	Action    saga.Action
	Attempt   int
	Status    saga.LogStatus
	Final     bool
	Outcome   string // empty means none
	StartedAt time.Time
	EndedAt   time.Time // zero while the attempt is running
}

// Sampled returns the part of a step log that statistics need.
func Sampled(l *saga.StepLog) SampledAttempt {
	a := SampledAttempt{
		SagaID: l.SagaID, StepIndex: l.StepIndex, StepName: l.StepName, Action: l.Action, Attempt: l.Attempt,
		Status: l.Status, Final: l.Final, StartedAt: l.StartedAt,
	}
	if l.CompletedAt != nil {
		a.EndedAt = *l.CompletedAt
	}
	switch {
	case l.Outcome != nil:
		a.Outcome = *l.Outcome
	case l.Status == saga.LogSkipped && l.Response != nil: // an operator's record of a manual compensation
		a.Outcome = saga.OutcomeOperator
	}
	return a
}

// Durations are percentiles of a set of durations. Each of them is an element of the set.
type Durations struct {
	Count                   int
	P50, P95, P99, Greatest time.Duration
}

// DurationsOf sorts all.
func DurationsOf(all []time.Duration) Durations {
	if len(all) == 0 {
		return Durations{}
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[(len(all)*percent+99)/100-1] }
	return Durations{Count: len(all), P50: at(50), P95: at(95), P99: at(99), Greatest: all[len(all)-1]}
}

// StepStatistics counts the attempts of one action of one step.
type StepStatistics struct {
	StepName  string
	StepIndex int // position in the newest saga
	Action    saga.Action
	Sagas     int // sagas with at least one attempt
	Attempts  int
	Running   int
	Completed int
	Failed    int // whether or not another attempt followed
	GaveUp    int // the last attempts among them
	Retries   int
	// ByOperator counts operators' decisions that replaced a call.
	ByOperator int
	// Each is the duration of single attempts. Whole is the time from the first attempt to the end
	// of the last one, including the waits between them.
	Each, Whole Durations
	Failures    []StepFailures // ordered by frequency, most frequent first
}

// StepFailures are the failed attempts of a step with one code.
type StepFailures struct {
	Code     string
	Attempts int
	GaveUp   int
	LastAt   time.Time
	SagaID   uuid.UUID // saga of the latest failure
}

// stepCount is a StepStatistics during the count.
type stepCount struct {
	StepStatistics
	each, whole []time.Duration
	codes       map[string]*StepFailures
	last        uuid.UUID // the saga of the previous attempt
	began       time.Time // when the first attempt of the saga's unfinished step began; zero means none
}

// ByStep counts the attempts of a sample by step and action. The steps are in order, each directly
// before its compensation.
func (s *AttemptSample) ByStep() []StepStatistics {
	type key struct {
		name   string
		action saga.Action
	}
	found := map[key]*stepCount{}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Status == saga.LogSkipped && a.Outcome != saga.OutcomeOperator {
			continue // a row without a call, because there was nothing to undo
		}
		k := key{a.StepName, a.Action}
		c := found[k]
		if c == nil {
			c = &stepCount{codes: map[string]*StepFailures{}}
			c.StepName, c.StepIndex, c.Action = a.StepName, a.StepIndex, a.Action
			found[k] = c
		}
		c.add(a)
	}
	out := make([]StepStatistics, 0, len(found))
	for _, c := range found {
		c.Each, c.Whole = DurationsOf(c.each), DurationsOf(c.whole)
		for _, f := range c.codes {
			c.Failures = append(c.Failures, *f)
		}
		slices.SortFunc(c.Failures, func(a, b StepFailures) int {
			return cmp.Or(b.Attempts-a.Attempts, cmp.Compare(a.Code, b.Code))
		})
		out = append(out, c.StepStatistics)
	}
	slices.SortFunc(out, func(a, b StepStatistics) int {
		return cmp.Or(a.StepIndex-b.StepIndex, cmp.Compare(a.StepName, b.StepName), -cmp.Compare(a.Action, b.Action))
	})
	return out
}

func (c *stepCount) add(a *SampledAttempt) {
	if a.Outcome == saga.OutcomeOperator {
		c.ByOperator++
		c.began = time.Time{}
		return
	}
	c.Attempts++
	if c.last != a.SagaID || c.Sagas == 0 {
		c.last, c.began = a.SagaID, time.Time{}
		c.Sagas++
	} else {
		c.Retries++
	}
	if c.began.IsZero() {
		c.began = a.StartedAt
	}
	if a.Status == saga.LogRunning {
		c.Running++
		return
	}
	c.each = append(c.each, max(a.EndedAt.Sub(a.StartedAt), 0))
	if a.Final {
		c.whole = append(c.whole, max(a.EndedAt.Sub(c.began), 0))
		c.began = time.Time{}
	}
	if a.Status == saga.LogSuccess {
		c.Completed++
		return
	}
	c.Failed++
	f := c.codes[a.Outcome]
	if f == nil {
		f = &StepFailures{Code: a.Outcome}
		c.codes[a.Outcome] = f
	}
	f.Attempts++
	if a.Final {
		c.GaveUp++
		f.GaveUp++
	}
	if f.LastAt.IsZero() || a.EndedAt.After(f.LastAt) {
		f.LastAt, f.SagaID = a.EndedAt, a.SagaID
	}
}
