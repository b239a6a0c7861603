package saga

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/retry"
)

// wrongLetter describes what is wrong with the letter update in the change caused by e, or returns
// "".
func wrongLetter(e Event, before *Instance, c *Change) string {
	n, had, has := c.Letter, before.DeadLetter(), c.After.DeadLetter()
	_, forced := e.(FailureForced)
	told := dlq.Outcome("")
	if n != nil {
		told = n.Outcome
	}
	gaveUp := before.State == Compensating && c.After.State == Failed && !forced
	switch {
	case n != nil && (c.Operated == nil || !c.Operated.Interventions):
		return "a letter in a change that nobody will look at"
	case gaveUp != (told == dlq.GaveUp):
		return "a compensation gave up without saying so, or says so and did not"
	case gaveUp && (n.ID != had || had != uuid.Nil && has != had || had == uuid.Nil && has != n.Letter.ID):
		return "the letter of a compensation that gave up is another one than the saga remembers"
	case gaveUp:
		return ""
	case had == uuid.Nil && n != nil:
		return "tells of a letter that there is not"
	case had == uuid.Nil:
		return ""
	case told != "" && n.ID != had:
		return "tells of another letter"
	case before.State == Failed && c.After.State != Failed && told == "":
		return "reopens the saga and leaves its letter"
	case has == uuid.Nil && told != dlq.Succeeded && told != dlq.HandledManually:
		return "forgets a letter that is open"
	case has != uuid.Nil && c.After.CurrentStep != before.CurrentStep:
		return "leaves the step of the letter, and the letter"
	}
	return ""
}

// checkLetters keeps the letters as a store does, and compares them with the saga. A saga that has
// failed on its own has exactly one open letter, and no letter has to wait for one that is being
// retried.
func (w *world) checkLetters(e Event, before *Instance, c *Change) {
	t, after := w.t, &c.After
	if why := wrongLetter(e, before, c); why != "" {
		t.Fatalf("%#v: %s: %+v", e, why, c.Letter)
	}
	if n := c.Letter; n != nil {
		l := n.Letter // a new one
		if n.Outcome != dlq.GaveUp || n.ID != uuid.Nil {
			c, err := dlq.Apply(w.letters[n.ID], dlq.SourceReported{SourceUpdate: n}, dlq.Moment{Now: w.now})
			switch l = c.After; {
			case err != nil || !c.Changes():
				t.Fatalf("%+v changes nothing in %+v: %v", n, w.letters[n.ID], err)
			case n.Outcome == dlq.GaveUp && c.Attempt == nil:
				t.Fatalf("no retry has ended: %+v", l)
			}
		}
		w.letters[l.ID] = l
		w.happened["saga."+string(n.Outcome)]++
	}
	var open []dlq.Letter
	for _, l := range w.letters {
		if l.Status != dlq.Resolved {
			open = append(open, l)
		}
	}
	id := after.DeadLetter()
	_, forced := e.(FailureForced)
	switch {
	case len(open) > 1, len(open) == 1 && open[0].ID != id, len(open) == 0 && id != uuid.Nil:
		t.Fatalf("the saga has the letter %s; open are %+v", id, open)
	case after.State == Compensating && len(open) == 1 && open[0].Status != dlq.Retrying:
		t.Fatalf("undoes, while its letter is %s", open[0].Status)
	case after.State == Failed && len(open) == 1 && open[0].Status == dlq.Retrying:
		t.Fatal("waits, while its letter says that it is being retried")
	case after.State == Failed && before.State != Failed && !forced && len(open) != 1:
		t.Fatal("waits without a letter")
	}
}

func TestALetterSaysWhatGaveUp(t *testing.T) {
	r := point{pattern: "uuu", state: Compensating, step: 1, cause: CauseStepFailed, attempt: 3, owned: true}.run()
	r.CorrelationID, r.TraceID = new("order-7"), new("4bf92f3577b34da6a3ce929d0e0e4736")
	body := string(r.Call(Defaults{}).Body)
	for _, tt := range []struct {
		class retry.Class
		want  dlq.ErrorClass
	}{
		{retry.Timeout, dlq.Transient}, {retry.Network, dlq.Transient}, {retry.Unavailable, dlq.Transient},
		{retry.ServerError, dlq.Unknown}, {retry.BadResponse, dlq.Unknown}, {retry.Refused, dlq.Permanent},
	} {
		o := Outcome{
			Verdict:   Unknown,
			Class:     tt.class,
			Code:      "the_code",
			Message:   "secret words",
			Request:   []byte(body),
			StartedAt: noon,
			EndedAt:   noon,
		}
		if tt.class == retry.Refused {
			o.Verdict = Refused
		}
		c, err := happens(r, Answered{o}, moments(noon))
		if err != nil {
			t.Fatal(err)
		}
		l := c.Letter.Letter
		switch {
		case l.ID == uuid.Nil || l.ID != c.After.DeadLetter() || l.TenantID != r.Tenant.ID || l.Source != dlq.FromSaga ||
			l.Target.Kind != dlq.ToSaga:
			t.Errorf("%+v", l)
		case l.OriginalTopic != "saga.w.s1.compensate" || l.Link != dlq.Link{SagaID: r.ID, StepIndex: 1, StepName: "s1",
			Action: "COMPENSATE"}:
			t.Errorf("topic %q, link %+v", l.OriginalTopic, l.Link)
		case string(l.Content.Payload) != body || string(c.Logs[0].Request) != body || l.Encoding != dlq.JSON:
			t.Errorf("payload %s (%s); the call was %s", l.Content.Payload, l.Encoding, body)
		case l.Failure.Class != tt.want || l.Failure.Type != "the_code" || l.Failure.Message != c.After.Error.Message:
			t.Errorf("%s: %+v", tt.class, l.Failure)
		case l.Status != dlq.Pending || l.NextRetryAt != nil || l.MaxRetries != 3 || l.CorrelationID != "order-7" ||
			l.TraceID != *r.TraceID:
			t.Errorf("%+v", l)
		case strings.Contains(Plain(&l).Message, "secret") || !strings.Contains(Plain(&l).Message, "the_code"):
			t.Errorf("what may be shown is %q", Plain(&l).Message)
		}
	}
}

func TestWhoHadItRetriedIsKept(t *testing.T) {
	r := point{pattern: "uuu", state: Failed, step: 1, cause: CauseStepFailed, attempt: 3, mark: lettered}.run()
	m := moments(noon)
	m.Actor = "carla"
	c, err := happens(r, ResumeRequested{By: "x"}, m)
	if err != nil || c.Letter.Outcome != dlq.RetryStarted || c.Letter.Token == uuid.Nil {
		t.Fatalf("%v: %+v", err, c.Letter)
	}
	c.After.LeaseOwner = new(int64(42))
	c, err = Apply(
		c.After,
		Answered{Outcome{Verdict: Done, StartedAt: noon, EndedAt: noon.Add(time.Second)}},
		moments(noon),
	)
	if err != nil || c.Letter.Outcome != dlq.Succeeded || c.Letter.Actor != "carla" ||
		c.After.Interventions.RetriedBy != "" {
		t.Fatalf("%v: %+v", err, c.Letter)
	}
}

func TestAManualCompensationLeavesTheSagaClean(t *testing.T) {
	for _, verb := range []OrderVerb{UndoneStep, CompleteStep, SkipStep} {
		r := point{pattern: "uuu", state: Failed, step: 0, cause: CauseCancelled, attempt: 3, mark: lettered}.run()
		m := moments(noon)
		m.Actor = "key-1"
		c, err := happens(r, StepOrdered{Order: Order{Verb: verb, By: "carla", Reason: "called the bank"}}, m)
		if err != nil {
			t.Fatal(err)
		}
		if c.Letter.Outcome != dlq.HandledManually || c.After.State != Cancelled || *c.After.Clean != (verb != SkipStep) {
			t.Errorf("%s: the letter %s, the saga %s, clean %v", verb, c.Letter.Outcome, c.After.State, *c.After.Clean)
		}
		if v := Steps(c.After, c.Logs)[0]; verb == UndoneStep &&
			(v.State != StepStateCompensated || v.Compensation.State != UndoStateSkipped) {
			t.Errorf("its step is shown %s, its undo %s", v.State, v.Compensation.State)
		}
		if l := c.Logs[0]; verb == UndoneStep &&
			(l.Status != LogSkipped || !l.Final || string(l.Response) != `{"by":"carla","actor":"key-1","reason":"called the bank"}`) {
			t.Errorf("its log: %+v, %s", l, l.Response)
		}
	}
}

func TestTopicsOfLettersStayShortAndApart(t *testing.T) {
	long := strings.Repeat("ü", 200)
	seen := map[string]bool{}
	for _, names := range [][2]string{{"order", "reserve"}, {long, long}, {long, long + "x"}, {long + "x", long},
		{long, "short"}, {strings.Repeat("a", 255), strings.Repeat("b", 255)}} {
		topic := letterTopic(names[0], names[1])
		if n := utf8.RuneCountInString(topic); n > dlq.MaxTopic || !strings.HasPrefix(topic, "saga.") ||
			!strings.HasSuffix(topic, ".compensate") ||
			seen[topic] {
			t.Errorf("%d characters: %s", n, topic)
		}
		seen[topic] = true
	}
	if want := fmt.Sprintf("saga.%s.%s.compensate", "order", "reserve"); !seen[want] {
		t.Errorf("%v lack %s", seen, want)
	}
}

// All holders of a decision share one value, so the forms that stores write must be copies.
func TestTheOtherFormsOfAChangeLeaveTheDecisionAsItIs(t *testing.T) {
	r := point{pattern: "uuu", state: Compensating, step: 1, cause: CauseStepFailed, attempt: 3, owned: true}.run()
	decide := func() Change {
		c, err := Apply(
			r,
			Answered{Outcome{Verdict: Refused, Class: retry.Refused, Code: "no", StartedAt: noon, EndedAt: noon}},
			moments(noon),
		)
		if err != nil {
			t.Fatal(err)
		}
		c.Letter.Letter.ID = uuid.UUID{42}
		due := noon.Add(time.Hour)
		c.After.NextRunAt, c.After.Interventions.DeadLetter = &due, uuid.UUID{41}
		return c
	}
	c := decide()
	kept := *c.After.Interventions
	for name, tt := range map[string]struct {
		form   Change
		letter uuid.UUID
		due    time.Time
	}{
		"WithNewLetter": {c.WithNewLetter(), uuid.UUID{42}, noon.Add(time.Hour)},
		"WithoutLetter": {c.WithoutLetter(), uuid.Nil, noon.Add(time.Hour)},
		"WithoutRun":    {c.WithoutRun(), uuid.UUID{41}, noon},
	} {
		if got := tt.form.After; got.DeadLetter() != tt.letter || !got.NextRunAt.Equal(tt.due) {
			t.Errorf("%s: the saga names letter %s and is due at %s", name, got.DeadLetter(), got.NextRunAt)
		}
	}
	if c.After.DeadLetter() != kept.DeadLetter || !c.After.NextRunAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("the decision itself names letter %s and is due at %s", c.After.DeadLetter(), c.After.NextRunAt)
	}
}
