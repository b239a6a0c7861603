package sagapages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// attemptPanel shows one attempt: the request, the response, and what they mean.
type attemptPanel struct {
	Log               *client.StepLog
	Title             string
	Means, Tone       string
	Took              string
	Headers           []header
	Request, Response document
	Called            bool   // false: the attempt was a decision, so nothing was sent
	When, WhenGave    string // the condition of the step and its value; empty: none
	Kept              string // the template that computed the response from the participant's answer; empty: none
	Comparisons       []comparison
	Curl              string
	NoCurl            string // the reason why there is no command
	Run               *client.JobRun
	Close             string // URL of the page without the panel
	Before, After     string // URLs of the adjacent attempts; empty: none
}

type header struct{ Name, Value, Means string }

// document is a JSON document with its size. Documents that are too large are not shown.
type document struct {
	Raw      json.RawMessage
	Size     int
	Hidden   bool // the visitor may not read it
	TooLarge bool
}

// comparison is the difference between two documents.
type comparison struct {
	Title string
	Lines []web.DiffLine // empty: they are equal
	Ok    bool
}

func documentOf(raw json.RawMessage) document {
	return document{
		Raw: raw, Size: len(raw), Hidden: string(raw) == hiddenText, TooLarge: len(raw) > mostShown,
	}
}

// chosen returns the attempt in the URL or, if the saga needs attention, the last failed attempt.
// It returns nil if there is none.
func (s *story) chosen() *client.StepLog {
	step, attempt := s.query.Get("step"), s.query.Get("attempt")
	var found *client.StepLog
	for i := range s.logs {
		l := &s.logs[i]
		switch {
		case step != "" && l.StepName == step && (attempt == "" || attemptKey(l) == attempt):
			found = l
		case step == "" && s.saga.NeedsAttention && toneOf(l) == "bad" &&
			(found == nil || l.StartedAt.After(found.StartedAt)):
			found = l
		}
	}
	return found
}

// panel describes the chosen attempt, or returns nil if there is none.
func (p *pages) panel(v *web.Visit, s *story) (*attemptPanel, error) {
	l := s.chosen()
	if l == nil {
		return nil, nil
	}
	related := s.comparedWith(l)
	if err := p.open(v, s, append(related.all(), l)...); err != nil {
		return nil, err
	}
	a := &attemptPanel{
		Log: l, Title: l.StepName + " · " + attemptName(l), Tone: toneOf(l),
		Request: documentOf(l.RequestPayload), Response: documentOf(l.ResponsePayload),
		Close: with(map[string][]string{"tab": {s.query.Get("tab")}}, "show", s.query.Get("show")),
	}
	a.Means = outcome(l)
	if l.CompletedAt != nil {
		a.Took = web.Duration(l.CompletedAt.Sub(l.StartedAt))
	}
	a.neighbours(s, l)
	again := false
	if a.Called = called(l); a.Called {
		again = a.compare(related, l)
	}
	job := false
	if s.definition != nil && l.StepIndex < len(s.definition.Steps) {
		of := &s.definition.Steps[l.StepIndex]
		call := callOf(of, l.Action)
		a.expressions(of, call, l)
		if call != nil && a.Called {
			job = call.Job != nil
			a.curl(v, s, l, call, again)
		}
	}
	if !a.Called {
		return a, nil
	}
	if !job {
		a.headers(v, s, l, again)
	} else if run, err := p.runOf(v, s, l); err == nil {
		a.Run = run
	}
	return a, nil
}

// Outcomes of attempts that made no call.
const (
	codeByHand = "operator"
	codeWhen   = "when"
)

func codeOf(l *client.StepLog) string {
	if l.OutcomeCode == nil {
		return ""
	}
	return *l.OutcomeCode
}

// called reports whether the attempt was a call and not a decision.
func called(l *client.StepLog) bool {
	return l.Status != client.StepLogStatusSKIPPED && codeOf(l) != codeByHand
}

// expressions shows the results of the step's expressions, in addition to the request as it was
// sent.
func (a *attemptPanel) expressions(of *client.Step, call *client.Call, l *client.StepLog) {
	if of.When != nil && l.Action == client.StepActionEXECUTE && codeOf(l) != codeByHand {
		a.When, a.WhenGave = *of.When, strconv.FormatBool(codeOf(l) != codeWhen)
	}
	rules := of.Answer
	if l.Action == client.StepActionCOMPENSATE {
		rules = nil
		if call != nil {
			rules = call.Answer
		}
	}
	if rules == nil || rules.Output == nil || l.Status != client.StepLogStatusSUCCESS || !a.Called {
		return
	}
	if raw, err := json.Marshal(rules.Output); err == nil {
		a.Kept = string(raw)
	}
}

// outcome describes what an attempt's result means, in the terms of docs/participants.md.
func outcome(l *client.StepLog) string {
	code := codeOf(l)
	unsure := "unknown: it may have been applied"
	if l.Error != nil && !l.Error.Retryable && l.Error.Type == "refused" {
		return "permanently refused: nothing was applied"
	}
	switch {
	case l.Status == client.StepLogStatusRUNNING:
		return "in flight: no answer yet"
	case l.Status == client.StepLogStatusSKIPPED && code == codeWhen:
		return "skipped: its condition was false, so it was not called"
	case l.Status == client.StepLogStatusSKIPPED && code == "" && len(l.ResponsePayload) > 0: // skipped by a person
		return "undone by a person: no call was made"
	case l.Status == client.StepLogStatusSKIPPED && code == "":
		return "nothing to undo: the step has no compensation"
	case l.Status == client.StepLogStatusSKIPPED:
		return "skipped by a person: no call was made"
	case code == codeByHand && l.Status == client.StepLogStatusSUCCESS:
		return "completed by a person: no call was made"
	case code == codeByHand:
		return "failed by a person: no call was made"
	case l.Status == client.StepLogStatusSUCCESS && l.Action == client.StepActionCOMPENSATE:
		return "undone"
	case l.Status == client.StepLogStatusSUCCESS:
		return "done: the answer is the step's output"
	case slices.Contains(notApplied, code):
		return "definitely not applied"
	}
	return unsure
}

// notApplied are the codes of attempts whose request was not carried out.
var notApplied = []string{
	"http_425", "http_429", "dial_failed", "dial_timeout", "dns_failed", "tls_failed", "not_sent", "egress_denied",
	"invalid_request", "request_too_large", "mapping_failed", "participant_unknown", "secret_unavailable",
}

// neighbours finds the previous and the next attempt, ordered by time.
func (a *attemptPanel) neighbours(s *story, l *client.StepLog) {
	ordered := make([]*client.StepLog, len(s.logs))
	for i := range s.logs {
		ordered[i] = &s.logs[i]
	}
	slices.SortStableFunc(ordered, func(x, y *client.StepLog) int { return x.StartedAt.Compare(y.StartedAt) })
	i := slices.Index(ordered, l)
	if i > 0 {
		a.Before = attemptURL(s.query, ordered[i-1])
	}
	if i+1 < len(ordered) {
		a.After = attemptURL(s.query, ordered[i+1])
	}
}

// others contains the attempts with which an attempt is compared; each may be nil.
type others struct {
	before, first *client.StepLog // with the same step and direction
	forward       *client.StepLog // the action that a compensation undoes
	retried       bool            // an earlier attempt was considered the last one
}

func (o *others) all() []*client.StepLog {
	all := []*client.StepLog{o.before, o.first, o.forward}
	return slices.DeleteFunc(all, func(l *client.StepLog) bool { return l == nil })
}

// comparedWith finds the attempts with which l is compared.
func (s *story) comparedWith(l *client.StepLog) (with others) {
	for i := range s.logs {
		o := &s.logs[i]
		switch {
		case o.StepIndex != l.StepIndex || o.ID == l.ID || !called(o):
		case o.Action == l.Action && o.Attempt < l.Attempt:
			if with.before == nil || o.Attempt > with.before.Attempt {
				with.before = o
			}
			if with.first == nil || o.Attempt < with.first.Attempt {
				with.first = o
			}
			with.retried = with.retried || o.Final
		case o.Action == client.StepActionEXECUTE && l.Action == client.StepActionCOMPENSATE &&
			o.Status == client.StepLogStatusSUCCESS && o.StartedAt.Before(l.StartedAt):
			if with.forward == nil || o.Attempt > with.forward.Attempt {
				with.forward = o
			}
		}
	}
	return with
}

// compare shows the differences from the previous attempt, and those between the step's response
// and the output that its compensation receives. It reports whether an operator's retry has changed
// the call since the first attempt for this step and direction.
func (a *attemptPanel) compare(with others, l *client.StepLog) (again bool) {
	before, first, forward := with.before, with.first, with.forward
	again = with.retried
	if before != nil && !a.Request.Hidden {
		a.add("Request, compared with the previous attempt", before.RequestPayload, l.RequestPayload)
		a.add("Response, compared with the previous attempt", before.ResponsePayload, l.ResponsePayload)
	}
	if forward != nil && !a.Request.Hidden {
		var sent struct{ Output json.RawMessage }
		if json.Unmarshal(l.RequestPayload, &sent) == nil && len(sent.Output) > 0 {
			a.add("The step's response, compared with the output passed to its undo", forward.ResponsePayload, sent.Output)
		}
	}
	if first != nil && !again {
		lines, ok := compare(first.RequestPayload, l.RequestPayload)
		again = !ok || len(lines) > 0
	}
	return again
}

func (a *attemptPanel) add(title string, before, after json.RawMessage) {
	if len(before) == 0 && len(after) == 0 {
		return
	}
	c := comparison{Title: title}
	c.Lines, c.Ok = compare(before, after)
	a.Comparisons = append(a.Comparisons, c)
}

const defaultTenant = "00000000-0000-0000-0000-000000000001"

// keyOf returns the Idempotency-Key of an attempt's call, unless an operator has changed the call.
func keyOf(v *web.Visit, l *client.StepLog) string {
	key := l.SagaID.String() + "/" + l.StepName + "/" + strings.ToLower(string(l.Action))
	if tenant := v.Who.TenantID.String(); tenant != defaultTenant {
		key = tenant + "/" + key
	}
	return key
}

func (a *attemptPanel) headers(v *web.Visit, s *story, l *client.StepLog, again bool) {
	key := header{"Idempotency-Key", keyOf(v, l), "the same in every attempt"}
	if again {
		key.Means = "an operator's retry may have appended #2, #3, …"
	}
	a.Headers = []header{
		key, {"X-Saga-Action", strings.ToLower(string(l.Action)), ""}, {"X-Saga-Attempt", fmt.Sprint(l.Attempt), ""},
	}
	if e := s.explain; e != nil && e.Owner != nil && l.CompletedAt == nil {
		a.Headers = append(a.Headers, header{"X-Saga-Fence", fmt.Sprint(e.Owner.LeaseEpoch), "increases when another node takes over"})
	}
}

func callOf(st *client.Step, action client.StepAction) *client.Call {
	if action == client.StepActionCOMPENSATE {
		return web.UndoOf(st)
	}
	return web.ActionOf(st)
}

// curl returns the command that repeats the call with the same key.
func (a *attemptPanel) curl(v *web.Visit, s *story, l *client.StepLog, call *client.Call, again bool) {
	switch {
	case call.HTTP == nil:
		return
	case call.HTTP.URL == nil:
		a.NoCurl = "The step names its participant: see its page for the current address."
		return
	case a.Request.Hidden:
		a.NoCurl = "You lack the permission to read the request."
		return
	case evaluated(call.HTTP):
		a.NoCurl = "Expressions determine more than its body, but only the body is stored. Simulate, on the page of the " +
			"workflow, shows whole requests."
		return
	case again:
		a.NoCurl = "An operator's retry may have given this call a different key; the preview of a retry shows which one."
		return
	case a.Request.TooLarge:
		a.NoCurl = "The request is too large for a command line."
		return
	}
	method := "POST"
	if call.HTTP.Method != nil {
		method = string(*call.HTTP.Method)
	}
	own := [][2]string{
		{"Content-Type", "application/json"}, {"Idempotency-Key", keyOf(v, l)}, {"X-Saga-Id", l.SagaID.String()},
		{"X-Saga-Step", l.StepName}, {"X-Saga-Action", strings.ToLower(string(l.Action))},
		{"X-Saga-Attempt", fmt.Sprint(l.Attempt)}, {"X-Saga-Tenant", v.Who.TenantID.String()},
	}
	var b strings.Builder
	b.WriteString("curl -X " + method + " " + quoted(*call.HTTP.URL))
	for _, h := range own {
		b.WriteString(" \\\n  -H " + quoted(h[0]+": "+h[1]))
	}
	for _, name := range slices.Sorted(maps.Keys(call.HTTP.Headers)) {
		b.WriteString(" \\\n  -H " + quoted(name+": "+call.HTTP.Headers[name]))
	}
	b.WriteString(" \\\n  -d " + quoted(string(l.RequestPayload)))
	a.Curl = b.String()
}

// evaluated reports whether expressions determine anything in a request other than a JSON body.
func evaluated(call *client.HTTPCall) bool {
	mapped := strings.Contains(*call.URL, "${") || call.Form != nil
	for _, value := range call.Headers {
		mapped = mapped || strings.Contains(value, "${")
	}
	return mapped
}

// quoted returns s quoted as a single word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// runOf returns the job run that carries out an attempt, or nil if there is none.
func (p *pages) runOf(v *web.Visit, s *story, l *client.StepLog) (*client.JobRun, error) {
	id, size := s.saga.SagaID, client.PageSize(50)
	res, err := p.kit.Client.ListJobRunsWithResponse(
		v.Context(), &client.ListJobRunsParams{SagaID: &id, PageSize: &size},
	)
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	var found *client.JobRun
	for i := range list.JobRuns {
		r := &list.JobRuns[i]
		if r.SagaStep == nil || *r.SagaStep != l.StepIndex || r.SagaAction == nil ||
			!strings.EqualFold(*r.SagaAction, string(l.Action)) {
			continue
		}
		if found == nil || distance(r.CreatedAt, l.StartedAt) < distance(found.CreatedAt, l.StartedAt) {
			found = r
		}
	}
	return found, nil
}

func distance(a, b time.Time) time.Duration { return a.Sub(b).Abs() }
