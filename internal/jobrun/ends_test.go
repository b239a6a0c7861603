package jobrun_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/retry"
)

func moment() jobrun.Moment {
	return jobrun.Moment{Now: noon, Jitter: 0.5, NewID: uuid.New}
}

// underWay returns a run that a worker holds for the second time.
func underWay() jobrun.Run {
	id := uuid.New()
	return jobrun.Run{
		ID: id, TenantID: uuid.New(), DefinitionID: uuid.New(), DefinitionName: "nightly", SpecVersion: 3,
		CommandName: "report", Version: 7,
		State: jobrun.Running, Trigger: jobrun.ByTime, Queue: "slow", Priority: 4, Args: []byte(`{"n":1}`),
		ConcurrencyKey: "k", Concurrency: jobrun.Queue,
		TimeoutMS: 5, Attempt: 2, FailuresUsed: 1, LossesUsed: 1, MaxLosses: 5, WorkerID: uuid.New(),
		LeaseToken: uuid.New(), LeaderEpoch: 4,
		Continuation: jobrun.Confirming, ConfirmStartedAt: &noon, ConfirmDeadlineAt: &noon, Checkpoint: []byte(`{"at":9}`),
		RootRunID: id, CorrelationID: "c", TraceID: "t", StartedAt: &noon, ScheduledFor: noon.Add(-20 * time.Hour),
	}
}

func spec(attempts int) *jobrun.Spec {
	return &jobrun.Spec{Retry: retry.Policy{MaxAttempts: attempts, InitialIntervalMS: 1000, Multiplier: 2,
		Jitter: new(0.0)}}
}

func failed(retryable bool) jobrun.Event {
	return jobrun.Reported{Result: jobrun.Result{ExitCode: new(2),
		Error: &jobrun.Error{Code: "E", Message: "no", Retryable: retryable}}}
}

func timedOut(retryable bool) jobrun.Event {
	return jobrun.Reported{Result: jobrun.Result{TimedOut: true,
		Error: &jobrun.Error{Code: jobrun.ErrTimedOut, Retryable: retryable}}}
}

var succeeded jobrun.Event = jobrun.Reported{Result: jobrun.Result{Value: []byte(`1`)}}

// change returns the expected effect of an input on a run for which it is allowed.
func change(r jobrun.Run, s *jobrun.Spec, in jobrun.Event) jobrun.Change {
	c, err := jobrun.Apply(jobrun.Instance{Run: r, Spec: s}, in, moment())
	if err != nil {
		panic(err)
	}
	return c
}

func TestAnEndIsTerminalAndFreeOfDoubt(t *testing.T) {
	for _, tt := range []struct {
		in    jobrun.Event
		State jobrun.State
	}{
		{succeeded, jobrun.Succeeded}, {failed(true), jobrun.Failed}, {failed(false), jobrun.Failed}, {timedOut(false), jobrun.TimedOut},
		{jobrun.CancelRequested{Reason: "enough", Force: true}, jobrun.Canceled}, {jobrun.CancelAcknowledged{}, jobrun.Canceled},
	} {
		before, o := underWay(), tt
		e := change(before, spec(5), o.in)
		r := e.After
		want := r
		want.State, want.Version, want.FinishedAt = o.State, before.Version+1, &noon
		want.Continuation, want.ConfirmStartedAt, want.ConfirmDeadlineAt = jobrun.NoDoubt, nil, nil
		want.Attempt, want.LeaseToken = before.Attempt, before.LeaseToken
		if diff := cmp.Diff(want, r); diff != "" || !r.State.Terminal() {
			t.Errorf("%s ends as (-want +got):\n%s", o.State, diff)
		}
		if len(e.Events) == 0 || e.Events[0].Kind == "" {
			t.Fatalf("%s is told as %+v", o.State, e.Events)
		}
		told := e.Events[0]
		told.From, told.To, told.Version = jobrun.Running, o.State, r.Version
		if diff := cmp.Diff(told, e.Events[0]); diff != "" {
			t.Errorf("%s is told (-want +got):\n%s", o.State, diff)
		}
		if bad := o.State == jobrun.Failed || o.State == jobrun.TimedOut; (r.Error != nil) != bad ||
			(r.FailuresUsed == 2) != bad {
			t.Errorf("%s has used %d failures, and has the error %+v", o.State, r.FailuresUsed, r.Error)
		}
	}
}

func TestARetryIsANewRunThatCarriesTheBudgetOn(t *testing.T) {
	r := underWay()
	e := change(r, spec(3), failed(true))
	n := e.Retry
	if n == nil || e.Final || e.LetterUpdate != nil {
		t.Fatalf("the second of three failures: %+v", e)
	}
	if due := noon.Add(2 * time.Second); !n.AvailableAt.Equal(due) || n.AdmittedAt != nil {
		t.Errorf("it is due at %s (admitted %v), want %s", n.AvailableAt, n.AdmittedAt, due)
	}
	want := *n
	want.State, want.Version, want.Attempt, want.LossesUsed, want.FailuresUsed, want.RetryNumber = jobrun.Pending, 1, 0, 0,
		2, 1
	want.RetryOfRunID, want.RootRunID, want.Trigger, want.IdempotencyKey = r.ID, r.RootRunID, jobrun.ByRetry,
		jobrun.RetryKey(r.ID, 1)
	// The retry takes these values from the run that it retries, including the slot, because it
	// does the work of that slot.
	want.ScheduledFor = r.ScheduledFor
	want.SpecVersion, want.Args, want.Queue, want.Priority, want.Checkpoint = r.SpecVersion, r.Args, r.Queue,
		r.Priority, r.Checkpoint
	want.ConcurrencyKey, want.Concurrency, want.TimeoutMS, want.MaxLosses = r.ConcurrencyKey, r.Concurrency,
		r.TimeoutMS, r.MaxLosses
	want.CorrelationID, want.TraceID = "c", "t"
	want.WorkerID, want.LeaseToken, want.FinishedAt, want.Error = uuid.Nil, uuid.Nil, nil, nil // not copied
	if diff := cmp.Diff(want, *n); diff != "" || n.ID == r.ID {
		t.Errorf("the retry %s of %s (-want +got):\n%s", n.ID, r.ID, diff)
	}
	// The whole chain uses one budget.
	chain := r
	chain.FailuresUsed = 0
	rows := 1
	for ; rows < 10; rows++ {
		e := change(chain, spec(4), failed(true))
		if e.Retry == nil {
			if !e.Final || e.After.FailuresUsed != 4 {
				t.Errorf("the chain ends with %+v", e.After)
			}
			break
		}
		chain = *e.Retry
		chain.State, chain.Attempt = jobrun.Running, 1
	}
	if rows != 4 {
		t.Errorf("four attempts were allowed, %d were made", rows)
	}
}

func TestWhatIsNotRetried(t *testing.T) {
	canceled := underWay()
	canceled.CancelRequestedAt = &noon
	for name, e := range map[string]jobrun.Change{
		"an error that another attempt cannot help": change(underWay(), spec(5), failed(false)),
		"the last attempt":                          change(underWay(), spec(2), failed(true)),
		"a definition without retries":              change(underWay(), &jobrun.Spec{}, failed(true)),
		"a success":                                 change(underWay(), spec(5), succeeded),
		"a cancel":                                  change(underWay(), spec(5), jobrun.CancelAcknowledged{}),
		"what was to be canceled":                   change(canceled, spec(5), failed(true)),
	} {
		if e.Retry != nil || !e.Final {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := change(underWay(), spec(5), timedOut(true)); e.Retry == nil || e.Retry.FailuresUsed != 2 {
		t.Errorf("a timeout that may be retried: %+v", e)
	}
}

func TestWhatGaveUpIsADeadLetterWhereItIsWanted(t *testing.T) {
	with := func(change func(*jobrun.Run)) jobrun.Run {
		r := underWay()
		change(&r)
		return r
	}
	plain, ofEvent := underWay(), with(func(r *jobrun.Run) { r.EventID = uuid.New() })
	ofSaga := with(func(r *jobrun.Run) { r.SagaID = uuid.New() })
	canceled := with(func(r *jobrun.Run) { r.EventID, r.CancelRequestedAt = uuid.New(), &noon })
	for name, tt := range map[string]struct {
		run  jobrun.Run
		says *bool
		want bool
	}{
		"by itself": {plain, nil, false}, "if the definition says so": {plain, new(true), true}, "of an event": {ofEvent, nil, true},
		"of a saga": {ofSaga, nil, true}, "unless the definition says not": {ofEvent, new(false), false}, "not what was canceled": {canceled, new(true), false},
	} {
		s := spec(1)
		s.DeadLetter = tt.says
		e := change(tt.run, s, failed(true))
		if (e.LetterUpdate != nil) != tt.want {
			t.Errorf("%s: %+v", name, e.LetterUpdate)
			continue
		}
		if !tt.want {
			continue
		}
		l := e.LetterUpdate.Letter
		want := l
		want.OriginalTopic, want.Source, want.Content.Payload = "job.nightly", dlq.FromJob, []byte(`{"n":1}`)
		want.Link.JobRunID, want.Link.SagaID = tt.run.ID, tt.run.SagaID
		want.Failure.Message, want.Failure.Type, want.Target.Kind = "no", "E", dlq.ToJobRun
		if diff := cmp.Diff(want, l); diff != "" || e.LetterUpdate.Outcome != dlq.GaveUp || e.LetterUpdate.ID != uuid.Nil {
			t.Errorf("%s: %s of the letter %s (-want +got):\n%s", name, e.LetterUpdate.Outcome, e.LetterUpdate.ID, diff)
		}
		if last := e.Events[len(e.Events)-1]; last.Kind != jobrun.WasDeadLetter ||
			!strings.Contains(last.Reason, l.ID.String()) {
			t.Errorf("%s: told as %+v", name, last)
		}
	}
}

func TestARunThatRetriesALetterTellsItHowItEnded(t *testing.T) {
	letter := uuid.New()
	for _, tt := range []struct {
		spec *jobrun.Spec
		o    jobrun.Event
		want dlq.Outcome // "": nothing yet
	}{
		{spec(5), succeeded, dlq.Succeeded},
		{spec(5), jobrun.CancelAcknowledged{}, dlq.RetryStopped},
		{spec(5), failed(true), ""},
		{spec(1), failed(true), dlq.GaveUp},
		{spec(5), failed(false), dlq.GaveUp},
	} {
		r := underWay()
		r.LetterID = letter
		e := change(r, tt.spec, tt.o)
		switch {
		case tt.want == "":
			if e.LetterUpdate != nil || e.Retry == nil || e.Retry.LetterID != letter {
				t.Errorf("%s that is retried: %+v", fmt.Sprintf("%T", tt.o), e)
			}
		case e.LetterUpdate == nil || e.LetterUpdate.Outcome != tt.want || e.LetterUpdate.ID != letter:
			t.Errorf("%s tells %+v, want %s", fmt.Sprintf("%T", tt.o), e.LetterUpdate, tt.want)
		case tt.want == dlq.GaveUp && e.LetterUpdate.Letter.Failure.Message != "no":
			t.Errorf("it gave up for %+v", e.LetterUpdate.Letter.Failure)
		}
	}
}

func TestTheTopicOfALetterFits(t *testing.T) {
	r := underWay()
	r.DefinitionName = strings.Repeat("ä", jobrun.MaxName)
	s := spec(1)
	s.DeadLetter = new(true)
	e := change(r, s, failed(true))
	if n := len([]rune(e.LetterUpdate.Letter.OriginalTopic)); n > dlq.MaxTopic {
		t.Errorf("the topic has %d characters", n)
	}
}
