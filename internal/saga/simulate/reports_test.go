package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/simulate"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

const promises = `
name: w
timeout_ms: 600000
retry: {max_attempts: 2, initial_interval_ms: 20000, max_interval_ms: 20000, jitter: 0}
steps:
- name: a
  action: {http: {url: "http://a.example"}}
  answer: {later: "status == 202", later_ms: 60000, output: "${body.id}"}
  output_schema: {type: integer}
  compensation: {http: {url: "http://a.example/undo"}, answer: {later: "status == 202"}}
- {name: b, action: {http: {url: "http://b.example"}}, compensation: none}
- {name: c, type: job, job: settle, compensation: none}
`

// after returns the answer "later", followed by the given reports.
func after(reports ...simulate.Report) simulate.Answer {
	return simulate.Answer{Status: 202, Reports: reports}
}

const (
	seconds = 1000
	minutes = 60 * seconds
)

func TestReportsOfASimulation(t *testing.T) {
	done := simulate.Report{Result: reported.Done, Output: []byte(`{"id":7}`)}
	at := func(ms int64, r simulate.Report) simulate.Report {
		r.AfterMS = ms
		return r
	}
	beat := simulate.Report{Result: reported.Heartbeat}
	refused := simulate.Report{Result: reported.Refused, Error: []byte(`{"message":"full"}`)}
	no := []simulate.Answer{{Status: 409}}
	for name, tt := range map[string]struct {
		answers map[string][]simulate.Answer
		change  func(*simulate.Scenario)
		want    []string
		state   saga.State
	}{
		"done": {map[string][]simulate.Answer{"a": {after(at(5*seconds, done))}}, nil,
			[]string{"0s call a execute", "0s report_wait a execute", "5s report a execute",
				"5s call b execute", "5s job_run c execute"}, saga.Completed},
		"at once": {map[string][]simulate.Answer{"a": {after(done)}}, nil,
			[]string{"0s call a execute", "0s report a execute", "0s call b execute", "0s job_run c execute"}, saga.Completed},
		"a heartbeat makes room": {map[string][]simulate.Answer{
			"a": {after(at(50*seconds, beat), at(50*seconds, done))}}, nil,
			[]string{"0s call a execute", "0s report_wait a execute", "50s report a execute",
				"50s report_wait a execute", "1m40s report a execute", "1m40s call b execute", "1m40s job_run c execute"},
			saga.Completed},
		"refused": {map[string][]simulate.Answer{"a": {after(at(5*seconds, refused))}}, nil,
			[]string{"0s call a execute", "0s report_wait a execute", "5s report a execute reported_refused",
				"5s compensation"}, saga.Compensated},
		"not applied, then done": {map[string][]simulate.Answer{
			"a": {after(simulate.Report{Result: reported.NotApplied}), after(done)}}, nil,
			[]string{"0s call a execute", "0s report a execute reported_not_applied", "0s wait",
				"20s call a execute", "20s report a execute", "20s call b execute", "20s job_run c execute"}, saga.Completed},
		"unknown to the end": {map[string][]simulate.Answer{"a": {after(simulate.Report{Result: reported.Unknown})}}, nil,
			[]string{"0s call a execute", "0s report a execute reported_unknown", "0s wait", "20s call a execute",
				"20s report a execute reported_unknown", "20s compensation", "20s call a compensate"}, saga.Compensated},
		"none comes": {map[string][]simulate.Answer{"a": {after(), {Status: 200, Body: []byte(`{"id":7}`)}}}, nil,
			[]string{"0s call a execute", "0s report_wait a execute", "1m0s report_missing a execute later_expired",
				"1m0s wait", "1m20s call a execute", "1m20s call b execute", "1m20s job_run c execute"}, saga.Completed},
		"it comes too late, while the next attempt waits": {map[string][]simulate.Answer{
			"a": {after(at(70*seconds, done)), after()}}, nil,
			[]string{"0s call a execute", "0s report_wait a execute", "1m0s report_missing a execute later_expired",
				"1m0s wait", "1m10s report a execute SAGA_CALLBACK_LATE", "1m10s wait", "1m20s call a execute",
				"1m20s report_wait a execute", "2m20s report_missing a execute later_expired", "2m20s compensation",
				"2m20s call a compensate"}, saga.Compensated},
		"it comes too late, during the next call": {map[string][]simulate.Answer{
			"a": {after(at(85*seconds, done)), {Status: 200, Body: []byte(`{"id":8}`), TakesMS: 10 * seconds}}},
			func(s *simulate.Scenario) { s.Limits.StepTimeout = minutes * 1e6 },
			[]string{"0s call a execute", "0s report_wait a execute", "1m0s report_missing a execute later_expired",
				"1m0s wait", "1m20s call a execute", "1m25s report a execute SAGA_CALLBACK_LATE", "1m30s call b execute",
				"1m30s job_run c execute"}, saga.Completed},
		"the deadline ends the wait": {map[string][]simulate.Answer{"a": {after(at(40*seconds, done))}},
			func(s *simulate.Scenario) { s.Definition.TimeoutMS = 30 * seconds },
			[]string{"0s call a execute", "0s report_wait a execute", "30s deadline_exceeded",
				"30s report_missing a execute later_ended", "30s compensation", "30s call a compensate",
				"40s report a execute SAGA_CALLBACK_LATE"}, saga.TimedOut},
		"a cancel during the call leaves no wait": {map[string][]simulate.Answer{"a": {after(at(seconds, done))}},
			func(s *simulate.Scenario) { s.CancelAt = "a" },
			[]string{"0s call a execute", "0s cancel_requested", "0s report_missing a execute later_ended",
				"0s compensation", "0s call a compensate", "1s report a execute SAGA_CALLBACK_LATE"}, saga.Cancelled},
		"of a compensation": {map[string][]simulate.Answer{"a": {{Body: []byte(`{"id":7}`)}}, "b": no,
			"a/compensate": {after(simulate.Report{Result: reported.Done, AfterMS: 60 * minutes})}},
			func(s *simulate.Scenario) { s.Limits.CompensationTimeout = 0 },
			[]string{"0s call a execute", "0s call b execute http_409", "0s compensation", "0s call a compensate",
				"0s report_wait a compensate", "1h0m0s report a compensate"}, saga.Compensated},
	} {
		t.Run(name, func(t *testing.T) {
			path, r := play(t, promises, func(s *simulate.Scenario) {
				s.Answers = tt.answers
				if tt.change != nil {
					tt.change(s)
				}
			})
			if diff := cmp.Diff(tt.want, path); diff != "" {
				t.Errorf("path (-want +got):\n%s", diff)
			}
			if r.Saga.State != tt.state || r.Stopped != "" {
				t.Errorf("ended as %s, stopped %q", r.Saga.State, r.Stopped)
			}
		})
	}
}

// TestAReportGivesTheOutput checks that the output follows the rule for it, and that the node that
// continues after a wait has a new lease.
func TestAReportGivesTheOutput(t *testing.T) {
	_, r := play(t, promises, func(s *simulate.Scenario) {
		s.Answers = map[string][]simulate.Answer{
			"a": {after(simulate.Report{Result: reported.Done, Output: []byte(`{"id":7}`), AfterMS: seconds})},
		}
	})
	e := r.Path[2]
	if string(e.Output) != "7" || e.Verdict != saga.Done || e.Report == nil || string(r.Outputs["a"]) != "7" {
		t.Errorf("the report is shown as %+v, outputs %s", e, r.Outputs)
	}
	if before, then := r.Path[0].Request.Head, r.Path[3].Request.Head; !strings.Contains(before, "X-Saga-Callback: ") ||
		!strings.Contains(before, "X-Saga-Fence: 1\r\n") || !strings.Contains(then, "X-Saga-Fence: 2\r\n") {
		t.Errorf("requests before and after the wait:\n%s%s", before, then)
	}
}

func TestMistakesInSimulatedReports(t *testing.T) {
	done, object := reported.Done, []byte(`{"id":7}`)
	for name, tt := range map[string]struct {
		key    string
		answer simulate.Answer
		at     string // below the answer
		why    string
	}{
		"no rule for later answers": {"b", after(simulate.Report{Result: done}), "/reports", "this call has no rule"},
		"an answer that is not later": {"a", simulate.Answer{Body: object, Reports: []simulate.Report{{Result: done}}},
			"/reports", "this answer does not"},
		"a fault": {"a", simulate.Answer{Fault: "timeout", Reports: []simulate.Report{{Result: done}}}, "/reports",
			"this answer does not"},
		"a job": {"c", simulate.Answer{RunState: "FAILED", Reports: []simulate.Report{{Result: done}}}, "",
			"only run_state"},
		"an unknown word": {"a", after(simulate.Report{Result: "failed"}), "/reports/0/result",
			"must be one of [done refused not_applied unknown heartbeat]"},
		"after the end": {"a",
			after(simulate.Report{Result: done, Output: object}, simulate.Report{Result: done, Output: object}),
			"/reports/1", "already decided the attempt"},
		"an output of a failure": {"a", after(simulate.Report{Result: reported.Refused, Output: object}),
			"/reports/0/output", "is allowed only with the result done"},
		"an output of a heartbeat": {"a", after(simulate.Report{Result: reported.Heartbeat, Output: object}),
			"/reports/0/output", "is allowed only with the result done"},
		"an output of a compensation": {"a/compensate", after(simulate.Report{Result: done, Output: object}),
			"/reports/0/output", "is allowed only with the result done of an action"},
		"an error of what was done": {"a", after(simulate.Report{Result: done, Error: object}), "/reports/0/error",
			"is allowed only with the results refused"},
		"an output that the rule cannot be taken from": {"a", after(simulate.Report{Result: done, Output: []byte(`{}`)}),
			"/reports/0/output", "rules cannot be applied"},
		"an output that does not fit": {"a", after(simulate.Report{Result: done, Output: []byte(`{"id":"x"}`)}),
			"/reports/0/output", "does not match output_schema"},
		"too many": {"a", after(append(make([]simulate.Report, simulate.MostAnswers), simulate.Report{Result: done})...),
			"of all answers", "answers and reports"},
	} {
		t.Run(name, func(t *testing.T) {
			def, err := workflow.ParseYAML([]byte(promises), workflow.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range tt.answer.Reports {
				if r := &tt.answer.Reports[i]; r.Result == "" {
					r.Result = reported.Heartbeat
				}
			}
			s := simulate.Scenario{Definition: def, Answers: map[string][]simulate.Answer{tt.key: {tt.answer}}}
			at := "/answers/" + strings.ReplaceAll(tt.key, "/", "~1") + "/0" + tt.at
			if tt.at == "of all answers" {
				at = "/answers"
			}
			wrong := s.Check(written)
			for _, f := range wrong {
				if f.Pointer == at && strings.Contains(f.Message, tt.why) {
					return
				}
			}
			t.Errorf("%+v; want %q at %s", wrong, tt.why, at)
		})
	}
}
