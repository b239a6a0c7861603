package jobrun_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// happenings maps the words used in the stories below to the events that jobrun.Apply decides
// about.
var happenings = map[string]jobrun.Event{
	"done":      succeeded,
	"fail":      failed(true),
	"fail!":     failed(false),
	"timeout":   timedOut(true),
	"release":   jobrun.Released{Reason: "stopping"},
	"drop":      jobrun.Released{Reason: "no heartbeat gets through", LeaseLost: true, Settings: settings},
	"ack":       jobrun.CancelAcknowledged{},
	"cancel":    jobrun.CancelRequested{Actor: "ann", Reason: "enough"},
	"cancel!":   jobrun.CancelRequested{Actor: "ann", Reason: "enough", Force: true},
	"withdraw":  jobrun.CancelRequested{Actor: "ann", Waiting: true},
	"reassign":  jobrun.ReassignRequested{Actor: "ann"},
	"reassign!": jobrun.ReassignRequested{Actor: "ann", Force: true},
	"skip":      jobrun.Decided{Step: jobrun.StepSkip, Reason: "forbidden"},
	"replace":   jobrun.Decided{Step: jobrun.StepCancel, Reason: "replaced"},
	"stop":      jobrun.Decided{Step: jobrun.StepAskCancel, Reason: "replaced"},
	"look":      jobrun.LeaseExpired{Settings: settings},
	"detach":    jobrun.Detached{Settings: settings, Actor: "ann"},
	"count":     jobrun.LossesExhausted{},
	"clock":     jobrun.TimeoutPassed{Settings: settings},
	"grace":     jobrun.CancelExpired{Settings: settings},
}

// story is a run to which events are given one after another, and its outcome.
type story struct {
	t        *testing.T
	run      jobrun.Run
	spec     *jobrun.Spec
	now      time.Time
	attempts []string
	kinds    []string
	last     jobrun.Change
}

// tell applies the events named by the words, a second apart. Apart from happenings, the words are
// "admit", "claim", "start" and "renew", which statements do for many runs at once, "next", which
// continues with the retry, and waits such as "+30s".
func (s *story) tell(words string) {
	s.t.Helper()
	for i, word := range strings.Fields(words) {
		s.now = s.now.Add(time.Second)
		if wait, is := strings.CutPrefix(word, "+"); is {
			d, err := time.ParseDuration(wait)
			if err != nil {
				s.t.Fatal(err)
			}
			s.now = s.now.Add(d)
			continue
		}
		if s.stated(word) {
			continue
		}
		in, known := happenings[word]
		if !known {
			s.t.Fatalf("no such word: %q", word)
		}
		c, err := jobrun.Apply(jobrun.Instance{Run: s.run, Spec: s.spec}, in,
			jobrun.Moment{Now: s.now, NewID: uuid.New, Jitter: 0.5, Epoch: 4})
		if err != nil {
			s.t.Fatalf("%s (word %d of %q): %v", word, i+1, words, err)
		}
		if why := inconsistent(&c.After); why != "" {
			s.t.Fatalf("%s (word %d of %q): %s", word, i+1, words, why)
		}
		if c.Attempt != nil {
			s.attempts = append(s.attempts, fmt.Sprintf("#%d %s", c.After.Attempt, c.Attempt.Outcome))
		}
		for _, e := range c.Events {
			s.kinds = append(s.kinds, string(e.Kind))
		}
		s.run, s.last = c.After, c
	}
}

// stated does the work of statements, as far as the table allows.
func (s *story) stated(word string) bool {
	s.t.Helper()
	r := &s.run
	move := func(to jobrun.State) {
		if !jobrun.CanMove(r.State, to, jobrun.Worker) {
			s.t.Fatalf("%s: %s → %s is not in the table", word, r.State, to)
		}
		r.State, r.Version, r.UpdatedAt = to, r.Version+1, s.now
	}
	switch word {
	case "admit":
		if r.AvailableAt.After(s.now) {
			s.t.Fatalf("it is not due before %s", r.AvailableAt)
		}
		r.AdmittedAt = new(s.now)
	case "claim":
		if r.AdmittedAt == nil {
			s.t.Fatal("it was not admitted")
		}
		move(jobrun.Assigned)
		r.Attempt, r.WorkerID, r.LeaseToken, r.LeaderEpoch = r.Attempt+1, uuid.New(), uuid.New(), 4
		r.AssignedAt, r.LeaseExpiresAt, r.StartedAt = new(s.now), new(s.now.Add(settings.Seconds(jobrun.AssignLease))), nil
	case "start":
		move(jobrun.Running)
		r.StartedAt, r.LeaseExpiresAt = new(s.now), new(s.now.Add(settings.Seconds(jobrun.RunLease)))
	case "renew":
		r.LeaseExpiresAt = new(s.now.Add(settings.Seconds(jobrun.RunLease)))
		r.Continuation, r.ConfirmStartedAt, r.ConfirmDeadlineAt = jobrun.NoDoubt, nil, nil
	case "next":
		if s.last.Retry == nil {
			s.t.Fatal("nothing follows")
		}
		s.run = *s.last.Retry
	default:
		return false
	}
	return true
}

// begun returns a run that was requested at noon and may be claimed.
func begun(t *testing.T, attempts int) *story {
	t.Helper()
	d := jobrun.Definition{ID: uuid.New(), TenantID: uuid.New(), Name: "nightly", SpecVersion: 1, Spec: *spec(attempts)}
	d.Spec.TimeoutMS = 600_000
	r := jobrun.New(&d, jobrun.Request{Trigger: jobrun.ByHand, Key: "manual:1"}, settings, moment())
	return &story{t: t, run: r, spec: &d.Spec, now: noon}
}

const lossOfAll = "claim +30s look +2s admit claim +30s look +2s admit claim +30s look +2s admit claim +30s look +2s admit claim +30s look count"

func TestStories(t *testing.T) {
	for _, tt := range []struct {
		name, story string
		state       jobrun.State
		attempts    string // attempts that ended while the run did not
		kinds       string // kinds of the recorded events
	}{
		{"a run that goes well", "claim start done", jobrun.Succeeded, "", "succeeded"},
		{"a failure is retried by another run", "claim start fail", jobrun.Failed, "", "failed retry_created"},
		{"which goes well", "claim start fail next +1m admit claim start done", jobrun.Succeeded, "", "failed retry_created succeeded"},
		{"or uses up the budget", "claim start fail next +1m admit claim start fail next +1m admit claim start fail", jobrun.Failed, "", "failed retry_created failed retry_created failed"},
		{"a failure for good has no retry", "claim start fail!", jobrun.Failed, "", "failed"},
		{"a timeout is a failure", "claim start timeout", jobrun.TimedOut, "", "timed_out retry_created"},

		{"what is given back is claimed again at once", "claim start release claim start done", jobrun.Succeeded, "#1 RELEASED", "released succeeded"},
		{"also before it is started", "claim release claim start done", jobrun.Succeeded, "#1 RELEASED", "released succeeded"},
		{"what is taken away is claimed again at once", "claim reassign claim start done", jobrun.Succeeded, "#1 REASSIGNED", "reassigned succeeded"},
		{"by force also while it runs", "claim start reassign! claim start done", jobrun.Succeeded, "#1 REASSIGNED", "reassigned succeeded"},

		{"a worker that does not start in time loses it", "claim +30s look", jobrun.Orphaned, "#1 ORPHANED", "orphaned"},
		{"and not before", "claim +10s look", jobrun.Assigned, "", ""},
		{"another one gets it after a while", "claim +30s look +2s admit claim start done", jobrun.Succeeded, "#1 ORPHANED", "orphaned succeeded"},
		{"an operator ends the wait", "claim +30s look reassign claim start done", jobrun.Succeeded, "#1 ORPHANED", "orphaned reassigned succeeded"},
		{"there is no wait to end twice", "claim +30s look reassign reassign claim", jobrun.Assigned, "#1 ORPHANED", "orphaned reassigned"},
		{"a worker that falls silent is doubted first", "claim start +40s look", jobrun.Running, "", "confirming"},
		{"once", "claim start +40s look look look", jobrun.Running, "", "confirming"},
		{"it may confirm the run", "claim start +40s look renew +20s look done", jobrun.Succeeded, "", "confirming succeeded"},
		{"or loses it", "claim start +40s look +31s look", jobrun.Orphaned, "#1 ORPHANED", "confirming orphaned"},
		{"a result in doubt counts", "claim start +40s look done", jobrun.Succeeded, "", "confirming succeeded"},
		{"what is lost too often fails", lossOfAll, jobrun.Failed, "#1 ORPHANED, #2 ORPHANED, #3 ORPHANED, #4 ORPHANED, #5 ORPHANED", "orphaned orphaned orphaned orphaned orphaned failed"},
		{"what is given back is not loss", "claim release claim release claim release claim release claim release claim release count claim start done", jobrun.Succeeded,
			"#1 RELEASED, #2 RELEASED, #3 RELEASED, #4 RELEASED, #5 RELEASED, #6 RELEASED", "released released released released released released succeeded"},
		{"unless its lease was lost", "claim start drop +2s admit claim start drop +2s admit claim start drop +2s admit claim start drop +2s admit claim start drop count", jobrun.Failed,
			"#1 RELEASED, #2 RELEASED, #3 RELEASED, #4 RELEASED, #5 RELEASED", "released released released released released failed"},
		{"whoever says so", "claim start +40s release +2s admit claim +40s release +2s admit claim start +40s look release +2s admit claim start drop +2s admit claim +40s release count", jobrun.Failed,
			"#1 RELEASED, #2 RELEASED, #3 RELEASED, #4 RELEASED, #5 RELEASED", "released released confirming released released released failed"},
		{"what a detached worker gives back is not loss", "claim start detach release claim start done", jobrun.Succeeded, "#1 RELEASED", "confirming released succeeded"},
		{"a worker that is detached is doubted at once", "claim start detach +31s look", jobrun.Orphaned, "#1 ORPHANED", "confirming orphaned"},
		{"what it has not started it loses with the next sweep", "claim detach look", jobrun.Orphaned, "#1 ORPHANED", "orphaned"},
		{"its doubt does not begin anew", "claim start +40s look +25s detach +5s look", jobrun.Orphaned, "#1 ORPHANED", "confirming confirming orphaned"},

		{"a cancel ends what waits", "cancel", jobrun.Canceled, "", "canceled"},
		{"or was not started", "claim cancel", jobrun.Canceled, "", "canceled"},
		{"or has lost its worker", "claim +30s look cancel", jobrun.Canceled, "#1 ORPHANED", "orphaned canceled"},
		{"it asks the worker of what runs", "claim start cancel", jobrun.Running, "", "cancel_requested"},
		{"once", "claim start cancel cancel stop", jobrun.Running, "", "cancel_requested"},
		{"the worker stops it", "claim start cancel ack", jobrun.Canceled, "", "cancel_requested canceled"},
		{"or gives it back, which ends it", "claim start cancel release", jobrun.Canceled, "", "cancel_requested canceled"},
		{"or succeeds all the same", "claim start cancel done", jobrun.Succeeded, "", "cancel_requested succeeded"},
		{"or fails, and is not retried", "claim start cancel fail", jobrun.Failed, "", "cancel_requested failed"},
		{"or does nothing until the grace is over", "claim start cancel +31s grace", jobrun.Canceled, "", "cancel_requested canceled"},
		{"not before", "claim start cancel +10s grace", jobrun.Running, "", "cancel_requested"},
		{"when the worker is lost nobody else does it", "claim start cancel +40s look +31s look grace", jobrun.Canceled, "#1 ORPHANED", "cancel_requested confirming orphaned canceled"},
		{"nor when it was lost for the last time", "claim start cancel +40s look +31s look count grace", jobrun.Canceled, "#1 ORPHANED", "cancel_requested confirming orphaned canceled"},
		{"by force it ends at once", "claim start cancel!", jobrun.Canceled, "", "canceled"},
		{"also after it was asked", "claim start cancel cancel!", jobrun.Canceled, "", "cancel_requested canceled"},
		{"taking it away ends it as well", "claim start cancel reassign!", jobrun.Canceled, "", "cancel_requested canceled"},
		{"a backfill that is canceled leaves what runs", "claim start withdraw done", jobrun.Succeeded, "", "succeeded"},
		{"and ends what waits", "withdraw", jobrun.Canceled, "", "canceled"},

		{"a run that takes too long is ended", "claim start +11m clock", jobrun.TimedOut, "", "timed_out retry_created"},
		{"not within its grace", "claim start +10m clock", jobrun.Running, "", ""},
		{"nor when it waits", "claim +11m clock", jobrun.Assigned, "", ""},

		{"the leader skips what waits", "skip", jobrun.Skipped, "", "skipped"},
		{"or cancels it for a newer one", "replace", jobrun.Canceled, "", "canceled"},
		{"or what was not started", "claim replace", jobrun.Canceled, "", "canceled"},
		{"or asks its worker to stop it", "claim start stop ack", jobrun.Canceled, "", "cancel_requested canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := begun(t, 3)
			s.tell(tt.story)
			if s.run.State != tt.state {
				t.Errorf("it ends as %s, want %s", s.run.State, tt.state)
			}
			if got := strings.Join(s.attempts, ", "); got != tt.attempts {
				t.Errorf("attempts %q, want %q", got, tt.attempts)
			}
			if got := strings.Join(s.kinds, " "); got != tt.kinds {
				t.Errorf("told %q, want %q", got, tt.kinds)
			}
		})
	}
}

func TestNothingMovesWhatHasEnded(t *testing.T) {
	for _, end := range []string{"claim start done", "claim start fail!", "claim start timeout", "cancel", "skip"} {
		for word, in := range happenings {
			s := begun(t, 1)
			s.tell(end)
			c, err := jobrun.Apply(jobrun.Instance{Run: s.run, Spec: s.spec}, in, moment())
			if c.Changes() || err != nil && !fault.IsCode(err, jobrun.CodeConflict) {
				t.Errorf("%s, then %s: %v, %+v", end, word, err, c.After)
			}
		}
	}
}

func TestARunThatIsLostWaitsBeforeItIsAssignedAgain(t *testing.T) {
	s := begun(t, 1)
	s.tell("claim +30s look")
	r := s.run
	if wait := r.AvailableAt.Sub(s.now); wait != settings.Seconds(jobrun.OrphanBackoff) || r.AdmittedAt != nil ||
		r.LossesUsed != 1 {
		t.Errorf("it waits %s, admitted %v, lost %d times", wait, r.AdmittedAt, r.LossesUsed)
	}
	if r.LeaseToken == uuid.Nil || r.WorkerID == uuid.Nil {
		t.Error("the token of the one who had it is not on record")
	}
	for _, lost := range []string{"claim start drop", "claim drop", "claim start +31s release", "claim +21s release"} {
		s = begun(t, 1)
		s.tell(lost)
		if wait := s.run.AvailableAt.Sub(s.now); wait != settings.Seconds(jobrun.OrphanBackoff) || s.run.AdmittedAt != nil ||
			s.run.LossesUsed != 1 {
			t.Errorf("%s: it waits %s, admitted %v, lost %d times", lost, wait, s.run.AdmittedAt, s.run.LossesUsed)
		}
	}
	s = begun(t, 1)
	s.tell("claim release")
	if r := s.run; r.AvailableAt.After(s.now) || r.AdmittedAt == nil || r.LossesUsed != 0 {
		t.Errorf("what was given back waits until %s, admitted %v, lost %d times", r.AvailableAt, r.AdmittedAt, r.LossesUsed)
	}
}

func TestWhatIsToldOfADecision(t *testing.T) {
	for _, tt := range []struct {
		story  string
		actor  string
		epoch  int64
		reason string
	}{
		{"cancel", "ann", 0, "enough"},
		{"claim start cancel", "ann", 0, "enough"},
		{"claim start cancel ack", "", 0, "enough"},
		{"claim start cancel reassign!", "ann", 0, "enough"},
		{"claim reassign", "ann", 0, ""},
		{"claim release", "", 0, "stopping"},
		{"claim start drop", "", 0, "no heartbeat gets through"},
		{"claim +30s look", "", 4, jobrun.NeverStarted},
		{"claim start +40s look", "", 4, jobrun.LeaseRanOut},
		{"claim start +40s look +31s look", "", 4, jobrun.Unconfirmed},
		{"claim start detach", "ann", 0, jobrun.WasDetached},
		{"claim start cancel +31s grace", "", 4, "its worker did not stop it in time: enough"},
		{"claim start cancel +40s look +31s look grace", "", 4, "its worker is lost: enough"},
		{"claim start +11m clock", "", 4, "TIMED_OUT: it did not end within 10m0s"},
		{lossOfAll, "", 4, "LOST: it reached its limit of lost assignments (5 of 5)"},
		{"skip", "", 4, "forbidden"},
		{"claim replace", "", 4, "replaced"},
	} {
		s := begun(t, 1)
		s.tell(tt.story)
		e := s.last.Events[0]
		if e.Actor != tt.actor || e.Epoch != tt.epoch || e.Reason != tt.reason {
			t.Errorf("%s: told by %q under epoch %d: %q; want %q, %d, %q", tt.story, e.Actor, e.Epoch, e.Reason, tt.actor, tt.epoch, tt.reason)
		}
		if s.run.Attempt > 0 && e.WorkerID != s.run.WorkerID {
			t.Errorf("%s: told of worker %s, not %s", tt.story, e.WorkerID, s.run.WorkerID)
		}
	}
}

func TestARefusalSaysWhatMayBeDone(t *testing.T) {
	for _, tt := range []struct{ story, then, detail string }{
		{"claim start done", "cancel", "the job run is SUCCEEDED and cannot be canceled"},
		{"cancel", "reassign!", "the job run is CANCELED and cannot be reassigned"},
		{"claim start", "reassign", "the job run is RUNNING and its process may still be working: set force to reassign it anyway"},
		{"claim start", "skip", "the job run is RUNNING and cannot be skipped or canceled"},
		{"", "reassign", "the job run is PENDING and cannot be reassigned"},
	} {
		s := begun(t, 1)
		s.tell(tt.story)
		_, err := jobrun.Apply(jobrun.Instance{Run: s.run, Spec: s.spec}, happenings[tt.then], moment())
		if f := fault.As(err); f == nil || f.Detail != tt.detail {
			t.Errorf("%s, then %s: %v, want %q", tt.story, tt.then, err, tt.detail)
		}
	}
}

func TestTheLetterHearsHowItsRunEnded(t *testing.T) {
	for story, want := range map[string]dlq.Outcome{
		"claim start done": dlq.Succeeded, "cancel": dlq.RetryStopped, "skip": dlq.RetryStopped,
		"claim start fail!": dlq.GaveUp, lossOfAll: dlq.GaveUp,
		"claim start cancel fail": dlq.RetryStopped, "claim start fail": "",
	} {
		s := begun(t, 3)
		s.run.LetterID = uuid.New()
		s.tell(story)
		switch u := s.last.LetterUpdate; {
		case want == "" && u != nil:
			t.Errorf("%s: %+v", story, u)
		case want != "" && (u == nil || u.Outcome != want || u.ID != s.run.LetterID):
			t.Errorf("%s: the letter hears %+v, want %s", story, u, want)
		}
	}
}

func TestALongReasonIsCutWhereItIsStored(t *testing.T) {
	r := underWay()
	long := strings.Repeat("ä", jobrun.MaxReason+1)
	c := change(r, spec(1), jobrun.CancelRequested{Reason: long})
	if n := len([]rune(c.After.CancelReason)); n != jobrun.MaxReason {
		t.Errorf("%d characters are kept of the reason, want %d", n, jobrun.MaxReason)
	}
}
