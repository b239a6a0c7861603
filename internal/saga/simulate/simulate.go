// Package simulate plays a workflow against answers that its author chooses. It shows which
// requests would be sent, in which order and with which bytes, and how the saga would end. Nothing
// is sent or stored.
//
// It drives the rules of sagas (saga.Apply) as the engine does, on a clock of its own: a wait takes
// no time. Package participant, through a Transport, determines what requests look like and what
// answers mean.
//
// Files, each on top of those before it: answer, example, path, scenario, simulate.
package simulate

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Play plays a scenario to its end, or until it stops for the reason in Result.Stopped. It never
// fails, but Check must have accepted the Scenario.
func Play(s *Scenario, by Transport) Result {
	node := int64(1)
	p := &play{s: s, by: by, now: s.Start, asked: map[string]int{}}
	head := saga.New(s.Spec, s.Definition, max(s.Version, 1), &node, s.Start, s.Limits.Timeout)
	if head.TimeoutMS != nil {
		head.TimeoutAt = p.in(*head.TimeoutMS)
	}
	p.run = saga.NewInstance(head, s.Definition)
	for n := 0; p.stopped == "" && p.step(); n++ {
		if n == mostSteps || p.size > MostBytes {
			p.stopped = "the simulation exceeds its limit of steps or bytes"
		}
	}
	for p.stopped == "" && len(p.coming) > 0 {
		p.arrive()
	}
	return p.result()
}

// play is a scenario that is being played.
type play struct {
	s       *Scenario
	by      Transport
	run     saga.Instance
	now     time.Time
	ids     uint64
	asked   map[string]int // number of answers used so far, by key
	calls   int            // including job runs
	tries   int            // calls, including those that could not be sent
	letters int
	path    []Entry
	coming  []coming // in the order of their times
	stopped string
	flagged bool      // the cancel of the scenario was requested
	passed  time.Time // the latest deadline that has passed; after a pivot it has no effect and is kept
	size    int       // of the path, in bytes
}

// coming is a report that has not arrived yet.
type coming struct {
	Report
	call    saga.Call
	attempt reported.Attempt
	at      time.Time
}

// step performs the next task. It returns false if the saga has ended.
func (p *play) step() bool {
	if at := p.due(); at != nil && !at.After(p.now) && !p.run.State.Terminal() {
		p.deadline(*at)
		return true
	}
	switch p.run.Next(p.now) {
	case saga.Rest:
		return false
	case saga.Turn:
		p.apply(saga.Turned{})
	case saga.Send:
		p.call()
	case saga.Begin:
		p.apply(saga.Begun{})
	default: // Wait, CheckJobRun
		if p.run.JobRun() != uuid.Nil {
			p.job()
			return true
		}
		p.wait()
	}
	return true
}

// due returns the deadline of the current phase, or nil if there is none or it has already passed.
func (p *play) due() *time.Time {
	at := p.run.Deadline()
	if at == nil || at.Equal(p.passed) {
		return nil
	}
	return at
}

func (p *play) wait() {
	next := p.run.NextRunAt
	if p.run.SuspendedAt != nil || next == nil {
		p.stopped = "the saga waits for an operator"
		return
	}
	until, arrives := *next, false
	if len(p.coming) > 0 && !p.coming[0].at.After(until) {
		until, arrives = p.coming[0].at, true
	}
	if at := p.due(); at != nil && at.Before(until) {
		until, arrives = *at, false
	}
	if until.After(p.now) {
		e := Entry{Kind: Waited, For: until.Sub(p.now)}
		if p.run.Awaited() != nil {
			e.Kind = AwaitsReport
			e.Step, e.Action, e.Attempt = p.run.Def.Steps[p.run.CurrentStep].Name, p.run.Action(), p.run.Attempt
		}
		p.add(e)
		p.now = until
	}
	if arrives {
		p.arrive()
	}
}

func (p *play) deadline(at time.Time) {
	p.passed = at
	p.add(Entry{Kind: DeadlinePassed})
	p.apply(saga.DeadlinePassed{At: at})
}

// call makes the call in flight.
func (p *play) call() {
	if p.tries++; p.tries > MostCalls {
		p.stopped = "the simulation exceeds its limit of calls"
		return
	}
	if o, unsendable := p.run.Unsendable(p.s.Limits.Budget, p.now); unsendable {
		p.outcome(Entry{Kind: NotSent}, o)
		return
	}
	if p.run.LeaseOwner == nil { // a wait for a report has no owner, so the node that continues takes a new lease
		p.run.LeaseOwner, p.run.LeaseEpoch = new(int64(1)), p.run.LeaseEpoch+1
	}
	call := p.run.Call(saga.Defaults{StepTimeout: p.s.Limits.StepTimeout})
	if call.By.Names() != "" && p.s.Address != nil && !p.s.Address(&call) {
		p.outcome(Entry{Kind: NotSent}, registry.Unknown(&call, p.now))
		return
	}
	request, err := p.by.Request(call, p.now)
	if err != nil {
		p.stopped = err.Error()
		return
	}
	p.calls++
	answer := p.s.filled(p.answer(KeyOf(call.Step, call.Action)), &call)
	o := p.by.Outcome(call, answer)
	o.Request, o.StartedAt = call.Body, p.now
	p.now = p.now.Add(took(answer, call.Timeout))
	o.EndedAt = p.now
	attempt := p.run.InFlight()
	p.outcome(Entry{Kind: Called, Request: &request, Answer: &answer, Key: call.Key}, o)
	p.expect(call, attempt, answer.Reports)
}

// took returns how long a call takes. A timeout takes as long as the call is allowed to.
func took(a Answer, limit time.Duration) time.Duration {
	if a.Fault == "timeout" {
		return limit
	}
	return min(time.Duration(a.TakesMS)*time.Millisecond, limit)
}

// job ends the job run in flight.
func (p *play) job() {
	if p.tries++; p.tries > MostCalls {
		p.stopped = "the simulation exceeds its limit of calls"
		return
	}
	p.calls++
	c := p.run.JobCall(p.now)
	answer := p.answer(KeyOf(c.Step, p.run.Action()))
	if answer.RunState == "" {
		answer = Answer{RunState: "SUCCEEDED", Body: answer.Body, TakesMS: answer.TakesMS}
	}
	if c.Stop {
		answer.RunState = "CANCELED"
	}
	p.now = p.now.Add(time.Duration(answer.TakesMS) * time.Millisecond)
	end := saga.RunEnd{ID: c.ID, State: answer.RunState, Result: answer.Body, Reason: c.Why, At: p.now}
	request := Request{Job: c.Job, Body: c.Args}
	p.outcome(Entry{Kind: Ran, Request: &request, Answer: &answer}, saga.OutcomeOfRun(end))
}

// answer returns the next answer for a key. The last one is repeated; if there are none, the call
// succeeds.
func (p *play) answer(key string) Answer {
	list := p.s.Answers[key]
	if len(list) == 0 {
		return Answer{}
	}
	i := min(p.asked[key], len(list)-1)
	p.asked[key]++
	return list[i]
}

// outcome applies the outcome of the call in flight, after the events that occurred during the
// call.
func (p *play) outcome(e Entry, o saga.Outcome) {
	e.Verdict, e.Code, e.Message, e.Output = o.Verdict, o.Code, o.Message, o.Output
	e.Step, e.Action, e.Attempt = p.run.Def.Steps[p.run.CurrentStep].Name, p.run.Action(), p.run.Attempt
	e.At = o.StartedAt
	if o.StartedAt.IsZero() {
		e.At = p.now
	}
	p.overdue(e.At)
	p.path = append(p.path, e)
	p.size += e.size()
	if at := p.due(); at != nil && !at.After(p.now) {
		p.deadline(*at)
	}
	if p.s.CancelAt == e.Step && e.Action == saga.Execute && !p.flagged {
		p.flagged = true
		p.add(Entry{Kind: Cancelled})
		p.apply(saga.CancelRequested{})
	}
	p.apply(saga.Answered{Outcome: o})
}

// apply decides on an event and sets the values that a store would add. It returns false if the
// saga does not allow the event.
func (p *play) apply(e saga.Event) bool {
	change, err := saga.Apply(p.run, e, saga.Moment{
		Now: p.now, NewID: p.newID, Jitter: 0.5, CompensationTimeout: p.s.Limits.CompensationTimeout,
		Budget: p.s.Limits.Budget,
	})
	if err != nil { // a cancel or a report that comes too late
		return false
	}
	if change.Letter != nil {
		p.letters++
		change = change.WithoutLetter()
	}
	p.run = change.After
	for i := range change.Logs {
		p.unreported(&change.Logs[i])
	}
	if change.StartsCompensation {
		p.add(Entry{Kind: TurnedBack})
		p.run.CompensationTimeoutAt = nil
		if ms := p.run.CompensationTimeoutMS; ms != nil {
			p.run.CompensationTimeoutAt = p.in(*ms)
		}
	}
	for i := range change.Logs {
		if l := &change.Logs[i]; l.Status == saga.LogSkipped {
			p.add(Entry{Kind: Skipped, Step: l.StepName, Action: l.Action})
		}
	}
	return true
}

// expect schedules the reports of an attempt that was just answered.
func (p *play) expect(call saga.Call, attempt reported.Attempt, reports []Report) {
	at := p.now
	for _, r := range reports {
		at = at.Add(time.Duration(r.AfterMS) * time.Millisecond)
		p.coming = append(p.coming, coming{r, call, attempt, at})
	}
	slices.SortStableFunc(p.coming, func(a, b coming) int { return a.at.Compare(b.at) })
}

// overdue delivers the reports whose time passed during a call. No attempt was waiting for them.
func (p *play) overdue(until time.Time) {
	for len(p.coming) > 0 && !p.coming[0].at.After(until) {
		p.arrive()
	}
}

// late is a server's answer to a report that came too late.
const late = "the attempt was decided without this report, so the report changes nothing"

// arrive delivers the next report.
func (p *play) arrive() {
	c := p.coming[0]
	p.coming = p.coming[1:]
	e := Entry{
		At: c.at, Kind: Reported, Step: c.call.Step, Action: c.call.Action, Attempt: c.call.Attempt, Report: &c.Report,
	}
	event := saga.Reported{Attempt: c.attempt}
	if c.Result == reported.Heartbeat {
		event.Beat = &reported.Progress{}
	} else {
		o, err := p.by.Report(c.call, c.Result, c.content())
		if err != nil { // Check would have found this
			p.stopped = err.Error()
			return
		}
		event.Outcome = o
		if e.Verdict, e.Message, e.Output = o.Verdict, o.Message, o.Output; o.Verdict != saga.Done {
			e.Code = o.Code
		}
	}
	n := len(p.path)
	p.path = append(p.path, e)
	p.size += e.size()
	if !p.apply(event) {
		e.Verdict, e.Code, e.Message, e.Output = 0, callback.CodeLate, late, nil
		p.path[n] = e
	}
}

// unreported shows that a wait has ended without a report, if the log of an attempt says so.
func (p *play) unreported(l *saga.StepLog) {
	if l.Outcome == nil || *l.Outcome != reported.CodeExpired && *l.Outcome != reported.CodeEnded {
		return
	}
	p.add(Entry{
		Kind: Unreported, Step: l.StepName, Action: l.Action, Attempt: l.Attempt, Verdict: saga.Unknown,
		Code: *l.Outcome, Message: l.Error.Message,
	})
}

func (p *play) add(e Entry) {
	p.overdue(p.now)
	e.At = p.now
	p.path = append(p.path, e)
}

func (p *play) in(ms int64) *time.Time {
	at := p.now.Add(time.Duration(ms) * time.Millisecond).Truncate(time.Microsecond)
	return &at
}

// newID returns the same ids in every run.
func (p *play) newID() (id uuid.UUID) {
	p.ids++
	id = uuid.UUID{6: 0x70, 8: 0x80, 9: 1}
	binary.BigEndian.PutUint32(id[12:], uint32(p.ids)) //nolint:gosec // a simulation needs few ids
	return id
}

func (p *play) result() Result {
	r := Result{Path: p.path, Saga: p.run.Saga, Stopped: p.stopped, Calls: p.calls,
		Letters: p.letters, Took: p.now.Sub(p.s.Start), Outputs: p.run.Outputs()}
	for key, list := range p.s.Answers {
		if p.asked[key] < len(list) {
			r.Unused = append(r.Unused, key)
		}
	}
	slices.Sort(r.Unused)
	return r
}
