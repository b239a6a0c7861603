package simulate

import (
	"encoding/json"
	"time"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Kind is what happens in an entry of a path.
type Kind string

// Kinds of entries.
const (
	Called         Kind = "call"              // a request was sent
	Ran            Kind = "job_run"           // a job run was requested, and has ended
	NotSent        Kind = "not_sent"          // a request could not be sent
	Skipped        Kind = "skipped"           // a step, or a compensation, is not needed
	Waited         Kind = "wait"              // until the next attempt
	AwaitsReport   Kind = "report_wait"       // for the report of an answer that was later
	Reported       Kind = "report"            // a report, or a heartbeat, came
	Unreported     Kind = "report_missing"    // the wait has ended without a report
	TurnedBack     Kind = "compensation"      // from here on the saga is compensated
	Cancelled      Kind = "cancel_requested"  // as the scenario says
	DeadlinePassed Kind = "deadline_exceeded" // of the saga, or of its compensation
)

// Kinds lists them.
var Kinds = []Kind{Called, Ran, NotSent, Skipped, Waited, AwaitsReport, Reported, Unreported, TurnedBack, Cancelled,
	DeadlinePassed}

// Entry is one thing that happens.
type Entry struct {
	At      time.Time
	Kind    Kind
	Step    string
	Action  saga.Action
	Attempt int // from 1
	Key     string
	Request *Request
	Answer  *Answer
	Report  *Report
	Verdict saga.Verdict // 0: none
	Code    string
	Message string
	Output  json.RawMessage
	For     time.Duration // of a wait
}

// size estimates the bytes that an entry takes where it is shown.
func (e *Entry) size() int {
	n := len(e.Output)
	if e.Request != nil {
		n += len(e.Request.Head) + len(e.Request.Body)
	}
	if e.Answer != nil {
		n += len(e.Answer.Body)
	}
	if e.Report != nil {
		n += len(e.Report.content())
	}
	return n
}

// Request is what is sent.
type Request struct {
	Method, URL string
	Head        string // the request line and the headers, as they are sent
	Body        []byte
	Job         string // instead, the job whose run is requested with Body as its arguments
}

// Transport is how requests are written and what answers mean.
type Transport struct {
	// Request returns the request of a call as it is sent at a time.
	Request func(c saga.Call, at time.Time) (Request, error)
	Outcome func(c saga.Call, a Answer) saga.Outcome
	// Report returns what a report makes of a call; *reported.Unfit: it cannot be kept.
	Report func(c saga.Call, result reported.Result, content json.RawMessage) (saga.Outcome, error)
}

// Result is how it went.
type Result struct {
	Path    []Entry
	Saga    saga.Saga
	Outputs map[string]json.RawMessage
	Stopped string // why the simulation ended before the saga; "": the saga ended
	Calls   int
	Letters int // dead letters: compensations that gave up
	Took    time.Duration
	// Unused are the keys whose answers were not all used, in order.
	Unused []string
}
