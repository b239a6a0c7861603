package workflowpages

import (
	"net/url"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// timing shows which steps are slow or fail.
type timing struct {
	*window
	*client.StepStatisticsList
	Rows     []timingRow
	Failures []failureRow
	Whole    bool   // durations are those of steps, not of attempts
	Other    string // URL for the other choice of versions
	Measure  string // URL for the other kind of durations
	Scale    string // label at the end of the bars' axis
	Version  int
}

// timingRow is one action of one step.
type timingRow struct {
	client.StepStatistics
	Undo               bool
	FailedShare        string
	P50, P95, P99, Max string // empty: nothing has ended
	// Bars, in thousandths of the axis.
	To50, To95, To99 int
	Words            string
}

type failureRow struct {
	client.StepFailureStatistics
	StepName string
	Undo     bool
	Share    string // share of the step's attempts
	List     string
}

// timingOf reads the statistics of a workflow's steps, either of all versions or, if requested, of
// the version shown on the page.
func (p *pages) timingOf(v *web.Visit, name string, version int) (*timing, error) {
	w, err := windowOf(v)
	if err != nil {
		return nil, err
	}
	ask := &client.GetStepStatisticsParams{WorkflowName: name, CreatedFrom: &w.From, CreatedTo: &w.To}
	q := v.URL.Query()
	versions, measure := "this", "step"
	if q.Get("versions") == "this" {
		versions = ""
		ask.WorkflowVersion = new(int32(version))
	}
	res, err := p.kit.Client.GetStepStatisticsWithResponse(v.Context(), ask)
	if err != nil {
		return nil, err
	}
	got, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	t := &timing{window: w, StepStatisticsList: got, Whole: q.Get("measure") == "step"}
	if t.Whole {
		measure = ""
	}
	if got.WorkflowVersion != nil {
		t.Version = *got.WorkflowVersion
	}
	t.Other, t.Measure = changed(q, "versions", versions), changed(q, "measure", measure)
	measured := func(s *client.StepStatistics) *client.DurationStatistics {
		if t.Whole {
			return s.StepDuration
		}
		return s.AttemptDuration
	}
	var slowest float64
	for i := range got.Steps {
		if d := measured(&got.Steps[i]); d != nil {
			slowest = max(slowest, d.P99Ms)
		}
	}
	end := web.NiceAbove(slowest)
	t.Scale = milliseconds(end)
	for i := range got.Steps {
		s := &got.Steps[i]
		row := timingRow{StepStatistics: *s, Undo: s.Action == client.StepActionCOMPENSATE}
		row.FailedShare = web.Percent(s.Failed, s.Failed+s.Completed)
		if d := measured(s); d != nil {
			row.P50, row.P95, row.P99 = milliseconds(d.P50Ms), milliseconds(d.P95Ms), milliseconds(d.P99Ms)
			row.Max = milliseconds(d.MaxMS)
			at := func(ms float64) int { return max(int(ms*1000/end), 2) }
			row.To50, row.To95, row.To99 = at(d.P50Ms), at(d.P95Ms), at(d.P99Ms)
			row.Words = "median " + row.P50 + ", 95 % within " + row.P95 + ", 99 % within " + row.P99
		}
		t.Rows = append(t.Rows, row)
		for _, f := range s.Failures {
			t.Failures = append(t.Failures, failureRow{
				StepFailureStatistics: f, StepName: s.StepName, Undo: row.Undo,
				Share: web.Percent(f.Attempts, s.Failed+s.Completed), List: failedSagas(name, w, s.StepName, f.Code),
			})
		}
	}
	return t, nil
}

// changed returns the page's URL with one parameter changed; an empty value removes it.
func changed(q url.Values, name, value string) string {
	to := url.Values{}
	for k, values := range q {
		to[k] = values
	}
	to.Set(name, value)
	if value == "" {
		to.Del(name)
	}
	return "?" + to.Encode()
}

// failedSagas returns the URL of a list of sagas. It contains a workflow's sagas that were created
// within a period and did not complete because a step failed with a code.
func failedSagas(name string, w *window, step, code string) string {
	return sagasURL(name, w.From, w.To, "status", "FAILED", "step", step, "error_code", code)
}
