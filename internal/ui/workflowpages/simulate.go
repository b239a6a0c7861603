package workflowpages

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// simulation is the form for simulating a workflow with given answers, and the result.
type simulation struct {
	*client.Workflow
	Payload  string
	CancelAt string
	Answers  []answerField
	Later    bool // some of its calls may be answered later
	Problem  *client.Problem
	Mistakes []string // mistakes found in the form before it is sent to the API
	Result   *client.Simulation
	Curl     string
	Tabs     []web.Tab
}

// answerField is the answer to one call.
type answerField struct {
	Key   string // key in the API: STEP or STEP/compensate
	Step  string
	Words string // as the visitor wrote it
	Call  string
	Undo  bool
	List  string // list of suggested answers
}

// Lists of answers that the form suggests.
const (
	listHTTP  = "http-answers"
	listLater = "later-answers"
	listRuns  = "run-answers"
)

// Job reports whether the call is to a job.
func (f answerField) Job() bool { return f.List == listRuns }

// simulate shows the form and, for a POST, how a saga would proceed.
func (p *pages) simulate(v *web.Visit) (*web.Page, error) {
	if p.kit.ReadOnly { // read-only pages have no forms
		return nil, web.ErrNoPage
	}
	if err := v.ParseForm(); err != nil {
		return nil, web.Malformed("The form cannot be read.")
	}
	version, err := number(v.Form.Get("v"))
	if err != nil {
		return nil, err
	}
	w, err := p.version(v, v.Form.Get("name"), version)
	if err != nil {
		return nil, err
	}
	d := &simulation{Workflow: w.Workflow, Payload: v.Form.Get("payload"), CancelAt: v.Form.Get("cancel_at")}
	if w.Definition == nil {
		return nil, web.ErrNoPage // it is damaged
	}
	d.Answers = fieldsOf(w.Definition, v.Form)
	d.Later = slices.ContainsFunc(d.Answers, func(f answerField) bool { return f.List == listLater })
	d.Tabs = p.tabsOf(w.Workflow, "simulate", false)
	page := &web.Page{Template: "workflow-simulate", Title: "Simulate " + w.Name, Nav: "Workflows", Data: d}
	if v.Method != "POST" {
		if d.Payload == "" {
			d.Payload = "{}"
		}
		return page, nil
	}
	page.Status, err = p.play(v, d)
	page.OwnCommand = d.Curl != ""
	return page, err
}

// fieldsOf returns the calls of a workflow, with the answers from the form.
func fieldsOf(def *client.WorkflowDefinition, form url.Values) (fields []answerField) {
	for i := range def.Steps {
		s := &def.Steps[i]
		for _, undo := range []bool{false, true} {
			key, words := s.Name, web.CallWords(web.ActionOf(s))
			if undo {
				key, words = s.Name+"/compensate", web.CallWords(web.UndoOf(s))
			}
			if words == "" {
				continue
			}
			f := answerField{Key: key, Step: s.Name, Call: words, Undo: undo, List: listHTTP,
				Words: strings.TrimSpace(form.Get("answer." + key))}
			waits, undoWaits := laterWaits(s)
			switch {
			case strings.HasPrefix(words, "job "):
				f.List = listRuns
			case undo && undoWaits != "", !undo && waits != "":
				f.List = listLater
			}
			fields = append(fields, f)
		}
	}
	return fields
}

// play lets the API simulate the workflow, and returns the status for the page; 0 means success.
func (p *pages) play(v *web.Visit, d *simulation) (status int, err error) {
	in := client.SimulationInput{WorkflowName: &d.Name, WorkflowVersion: new(int32(d.Version))} //nolint:gosec // from 1
	if text := strings.TrimSpace(d.Payload); text != "" {
		if !json.Valid([]byte(text)) {
			d.Mistakes = append(d.Mistakes, "The payload is not JSON.")
		}
		in.Payload = []byte(text)
	}
	if d.CancelAt != "" {
		in.CancelAt = &d.CancelAt
	}
	in.Answers = map[string][]client.SimulatedAnswer{}
	for _, f := range d.Answers {
		if f.Words == "" {
			continue
		}
		list, mistake := answersIn(f.Words)
		if mistake != "" {
			d.Mistakes = append(d.Mistakes, f.Key+": "+mistake)
		}
		in.Answers[f.Key] = list
	}
	if len(d.Mistakes) > 0 {
		return 422, nil
	}
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	d.Curl = web.Curl(v.Request, p.kit.Base, "POST", "/api/v1/workflows/simulate", body)
	res, err := p.kit.Client.SimulateWorkflowWithResponse(v.Context(), in, web.ChangesNothing)
	if err != nil {
		return 0, err
	}
	d.Result, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	var refusal *web.Refusal
	if errors.As(err, &refusal) {
		d.Problem = &refusal.Problem
		return refusal.Status, nil
	}
	return 0, err
}

// Dirty reports whether some effects remain at the end of the saga.
func (d *simulation) Dirty() bool { return d.Result.Clean != nil && !*d.Result.Clean }

// Took formats how long the saga takes, or returns "" if it takes no time.
func (d *simulation) Took() string {
	if d.Result.DurationMS == 0 {
		return ""
	}
	return web.Milliseconds(d.Result.DurationMS)
}

// Row is an entry of the path as shown on the page.
type Row struct {
	client.SimulationEntry
	At, Words, Tone, Shape string
	Answered, Ended        string
	Kept                   string // the output that a report has provided
	Undo                   bool
}

// Rows describes the path in words.
func (d *simulation) Rows() []Row {
	rows := make([]Row, len(d.Result.Path))
	for i, e := range d.Result.Path {
		r := Row{SimulationEntry: e, At: web.Milliseconds(e.AtMS)}
		switch e.Kind {
		case client.SimulationEntryKindWait:
			r.Words = "waits " + web.Milliseconds(e.WaitMS) + " for the next attempt"
		case client.SimulationEntryKindReportWait:
			r.Words = "waits " + web.Milliseconds(e.WaitMS) + " for the report"
		case client.SimulationEntryKindReport:
			r.Answered = "reports " + web.Words(string(e.Report.Result))
			if r.Kept = string(e.Output); e.Outcome == nil && e.Code != nil {
				r.Tone, r.Shape, r.Ended = "muted", "⤼", "too late"
			}
		case client.SimulationEntryKindReportMissing:
			r.Answered = "no report"
		case client.SimulationEntryKindCompensation:
			r.Words, r.Tone = "compensation begins", "undo"
		case client.SimulationEntryKindCancelRequested:
			r.Words = "a cancellation is requested"
		case client.SimulationEntryKindDeadlineExceeded:
			r.Words = "the deadline passes"
		case client.SimulationEntryKindSkipped:
			r.Words = "skipped: nothing to do"
		}
		if a := e.Answer; a != nil {
			switch {
			case a.Fault != nil:
				r.Answered = strings.ReplaceAll(string(*a.Fault), "_", " ")
			case a.RunState != nil:
				r.Answered = string(*a.RunState)
			case a.Status != nil:
				r.Answered = strconv.Itoa(*a.Status)
			}
		}
		r.Undo = e.Action != nil && *e.Action == client.StepActionCOMPENSATE
		if e.Outcome != nil {
			r.Tone, r.Shape, r.Ended = "bad", "✕", web.Words(string(*e.Outcome))
			switch *e.Outcome {
			case client.SimulatedOutcomeDONE:
				r.Tone, r.Shape = "done", "✓"
			case client.SimulatedOutcomeUNKNOWN:
				r.Tone, r.Shape = "undo", "?"
			case client.SimulatedOutcomeLATER:
				r.Tone, r.Shape = "wait", "○"
			}
		}
		rows[i] = r
	}
	return rows
}
