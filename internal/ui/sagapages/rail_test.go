package sagapages

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// attemptAt returns an attempt that began and ended the given numbers of seconds after noon.
func attemptAt(
	step int, name string, action client.StepAction, n int, from, to float64, status client.StepLogStatus,
) client.StepLog {
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	end := at(to)
	return client.StepLog{
		ID: uuid.New(), StepIndex: step, StepName: name, Action: action, Attempt: n, StartedAt: at(from), CompletedAt: &end,
		Status: status, Final: status == client.StepLogStatusSUCCESS,
	}
}

func undo(state client.CompensationStateName) *client.CompensationState {
	return &client.CompensationState{StateName: state, Attempts: 1, MaxAttempts: 3}
}

// brokenOff is a saga with five steps whose third step was rejected. The compensation of the second
// step was done, and that of the first was abandoned.
func brokenOff() story {
	ended := noon.Add(2 * time.Hour)
	no := false
	return story{
		saga: &client.Saga{
			State: client.SagaStateFailed, Lifecycle: client.SagaLifecycleFailed, CompletedAt: &ended, NeedsAttention: true,
			Clean: &no,
		},
		steps: []client.StepView{
			{StepIndex: 0, Name: "a", StateName: client.StepStateNameCompensating, CompensationState: undo("failed")},
			{StepIndex: 1, Name: "b", StateName: client.StepStateNameCompensated, CompensationState: undo("completed")},
			{
				StepIndex: 2, Name: "c", StateName: client.StepStateNameFailed,
				Error: &client.SagaError{Type: "refused", Code: "http_409"},
			},
			{StepIndex: 3, Name: "d", StateName: client.StepStateNamePending},
		},
		logs: []client.StepLog{
			attemptAt(0, "a", "EXECUTE", 1, 0, 1, "SUCCESS"), attemptAt(1, "b", "EXECUTE", 1, 1, 2, "SUCCESS"),
			attemptAt(2, "c", "EXECUTE", 1, 2, 3, "FAILED"), attemptAt(1, "b", "COMPENSATE", 1, 3, 4, "SUCCESS"),
			attemptAt(0, "a", "COMPENSATE", 1, 4, 5, "FAILED"), attemptAt(0, "a", "COMPENSATE", 2, 7199, 7200, "FAILED"),
		},
		now: noon.Add(3 * time.Hour), query: url.Values{},
	}
}

func TestTheRailTurnsWhereAStepWasRefused(t *testing.T) {
	r := newRail(brokenOff())
	type row struct {
		forward, back string
		track         track
	}
	want := []row{
		{"done", "undo gave up 1/3", track{lane{"", gone}, lane{"", gone}, false}},
		{"done", "undone", track{lane{gone, gone}, lane{gone, gone}, false}},
		{"refused", "", track{lane{gone, ""}, lane{gone, ""}, true}},
		{"never reached", "", track{}},
	}
	for i, w := range want {
		got := r.Rows[i]
		if got.Forward.Words != w.forward || got.Back.Words != w.back || got.Track != w.track {
			t.Errorf("%s: %q %q %+v, want %+v", got.Name, got.Forward.Words, got.Back.Words, got.Track, w)
		}
	}
	if len(r.Axis.Folds) != 1 || !strings.Contains(r.Axis.Folds[0].Label.Text, "1 h 59 min") {
		t.Fatalf("the two hours between the attempts are not folded: %+v", r.Axis.Folds)
	}
	s := brokenOff()
	open, err := url.Parse(r.Axis.Folds[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	s.query = open.Query()
	if r = newRail(s); len(r.Axis.Folds) != 0 || !r.Axis.Unfolded {
		t.Errorf("the link of a fold does not unfold it: %+v", r.Axis.Folds)
	}
}

func TestAStepInDoubtIsNotShownAsDone(t *testing.T) {
	s := brokenOff()
	c := &s.steps[2]
	c.InDoubt, c.StateName, c.CompensationState = new(true), client.StepStateNameCompensated, undo("completed")
	if row := newRail(s).Rows[2]; row.Forward.Words != "may have been done" || row.Forward.Tone == "done" ||
		row.Back.Words != "undone" || !row.settled() {
		t.Errorf("undone: %+v %+v", row.Forward, row.Back)
	}
	c.StateName, c.CompensationState = client.StepStateNameFailed, nil
	if row := newRail(s).Rows[2]; row.Forward.Words != "may have been done" || row.settled() {
		t.Errorf("forced to fail: %+v, settled %v", row.Forward, row.settled())
	}
	c.StateName, c.Attempts, c.MaxAttempts = client.StepStateNameRunning, 2, 5
	if row := newRail(s).Rows[2]; row.Forward.Words != "running, may have been done 2/5" {
		t.Errorf("on its second attempt: %+v", row.Forward)
	}
	c.Attempts = 6 // a person has repeated one of them
	if row := newRail(s).Rows[2]; row.Forward.Words != "running, may have been done, 6 attempts" {
		t.Errorf("repeated by hand: %+v", row.Forward)
	}
}

func TestWhatIsToComeIsDashed(t *testing.T) {
	s := brokenOff()
	s.saga.State, s.saga.Lifecycle = client.SagaStateCompensating, client.SagaLifecycleCompensating
	s.saga.CompletedAt = nil
	s.steps[0].CompensationState = undo("pending")
	r := newRail(s)
	if got := r.Rows[0].Track.Back; got != (lane{"", coming}) {
		t.Errorf("the undo that is to come: %+v", got)
	}
	if got := r.Rows[1].Track.Back; got != (lane{coming, gone}) {
		t.Errorf("the undo that was done: %+v", got)
	}
	if r.Axis.Now == nil {
		t.Error("a saga that has not ended shows no now")
	}
	s.saga.State, s.saga.Lifecycle = client.SagaStateRunning, client.SagaLifecycleActive
	s.steps[2].StateName = client.StepStateNameRunning
	r = newRail(s)
	if got := r.Rows[2].Track.Forward; got != (lane{gone, coming}) {
		t.Errorf("the step that runs: %+v", got)
	}
	if d := r.Rows[3]; d.Track.Forward != (lane{coming, ""}) || d.Forward.Words != "pending" {
		t.Errorf("the last step: %+v %q", d.Track.Forward, d.Forward.Words)
	}
}

func TestViewsOfTheRail(t *testing.T) {
	for show, want := range map[string]string{"": "abcd", "open": "ac", "failed": "ac", "nonsense": "abcd"} {
		s := brokenOff()
		s.query = url.Values{"show": {show}}
		names := ""
		r := newRail(s)
		for _, row := range r.Rows {
			names += row.Name
		}
		if names != want || r.Hidden != 4-len(names) {
			t.Errorf("%q shows %s and hides %d, want %s", show, names, r.Hidden, want)
		}
	}
}

func TestRetriesAreRounds(t *testing.T) {
	s := brokenOff()
	s.logs = append(s.logs, attemptAt(0, "a", "EXECUTE", 2, 7300, 7301, "SUCCESS"))
	r := newRail(s)
	if len(r.Axis.Bands) != 2 || !r.Axis.Bands[1].Odd || r.Axis.Bands[1].X <= r.Axis.Bands[0].X {
		t.Errorf("%+v", r.Axis.Bands)
	}
}

func TestManyAttemptsAreFewBars(t *testing.T) {
	s := brokenOff()
	s.logs = nil
	for n := range 300 {
		s.logs = append(s.logs, attemptAt(0, "a", "EXECUTE", n+1, float64(n), float64(n)+0.5, "FAILED"))
	}
	r := newRail(s)
	if n := len(r.Rows[0].Drawing.Bars); n != mostBars+1 {
		t.Errorf("%d bars", n)
	}
	if !strings.HasPrefix(r.Rows[0].Drawing.Beside, "260 attempts in ") {
		t.Errorf("%q", r.Rows[0].Drawing.Beside)
	}
}

// TestWhatWasNotCalledSaysSo covers steps that were decided by a person or a condition instead of a
// response.
func TestWhatWasNotCalledSaysSo(t *testing.T) {
	s := brokenOff()
	b := &s.steps[1]
	b.Skipped, b.InDoubt = new(true), new(true)
	if row := newRail(s).Rows[1]; row.Forward.Words != "skipped, may have been done" || row.Back.Words != "undone" {
		t.Errorf("skipped in doubt, then undone: %+v %+v", row.Forward, row.Back)
	}
	b.InDoubt, b.StateName, b.CompensationState = nil, client.StepStateNameSkipped, nil
	s.logs[1].Status, s.logs[1].OutcomeCode = client.StepLogStatusSKIPPED, new("when")
	if row := newRail(s).Rows[1]; row.Forward.Words != "skipped: its condition was false" {
		t.Errorf("passed over: %+v", row.Forward)
	}
	s.saga.LeftCompensations = []client.LeftCompensation{{StepIndex: 0}}
	if row := newRail(s).Rows[0]; row.Back.Words != "undo gave up 1/3, left to a person: the saga continued" {
		t.Errorf("left: %+v", row.Back)
	}
	for want, l := range map[string]client.StepLog{
		"skipped: its condition was false, so it was not called": {Status: "SKIPPED", OutcomeCode: new("when")},
		"skipped by a person: no call was made":                  {Status: "SKIPPED", OutcomeCode: new("operator")},
		"completed by a person: no call was made":                {Status: "SUCCESS", OutcomeCode: new("operator")},
		"failed by a person: no call was made":                   {Status: "FAILED", OutcomeCode: new("operator")},
		"nothing to undo: the step has no compensation":          {Status: "SKIPPED", Action: "COMPENSATE"},
		"undone by a person: no call was made": {Status: "SKIPPED", Action: "COMPENSATE",
			ResponsePayload: []byte(`{"by":"ann"}`)},
		"done: the answer is the step's output": {Status: "SUCCESS", OutcomeCode: new("http_200")},
	} {
		if got := outcome(&l); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
		if called(&l) != strings.HasPrefix(want, "done") {
			t.Errorf("%s: called is %v", want, called(&l))
		}
	}
}
