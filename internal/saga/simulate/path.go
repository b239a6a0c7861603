package simulate

import (
	"encoding/json"
	"time"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Kind is the kind of an entry in a path.
type Kind string

// The kinds of entries.
const (
	Called         Kind = "call"              // a request was sent
	Ran            Kind = "job_run"           // a job run was requested and has ended
	NotSent        Kind = "not_sent"          // a request could not be sent
	Skipped        Kind = "skipped"           // a step or a compensation is not needed
	Waited         Kind = "wait"              // the wait for the next attempt
	AwaitsReport   Kind = "report_wait"       // the wait for a report after the answer "later"
	Reported       Kind = "report"            // a report or a heartbeat arrived
	Unreported     Kind = "report_missing"    // the wait has ended without a report
	TurnedBack     Kind = "compensation"      // from here on, the saga compensates
	Cancelled      Kind = "cancel_requested"  // as specified by the scenario
	DeadlinePassed Kind = "deadline_exceeded" // the deadline of the saga or of its compensation
)

// Kinds lists all kinds of entries.
var Kinds = []Kind{Called, Ran, NotSent, Skipped, Waited, AwaitsReport, Reported, Unreported, TurnedBack, Cancelled,
	DeadlinePassed}

// Entry is one event in a path.
type Entry struct {
	At      time.Time
	Kind    Kind
	Step    string
	Action  saga.Action
	Attempt int // counted from 1
	Key     string
	Request *Request
	Answer  *Answer
	Report  *Report
	Verdict saga.Verdict // 0 means none
	Code    string
	Message string
	Output  json.RawMessage
	For     time.Duration // the length of a wait
}

// size estimates how many bytes an entry takes when it is shown.
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

// Request is a request that is sent.
type Request struct {
	Method, URL string
	Head        string // the request line and the headers, as they are sent
	Body        []byte
	Job         string // used instead: the job whose run is requested, with Body as its arguments
}

// Transport determines how requests are written and how answers are interpreted.
type Transport struct {
	// Request returns the request of a call as it is sent at the given time.
	Request func(c saga.Call, at time.Time) (Request, error)
	Outcome func(c saga.Call, a Answer) saga.Outcome
	// Report returns the outcome that a report gives to a call. The error *reported.Unfit means
	// that the report cannot be stored.
	Report func(c saga.Call, result reported.Result, content json.RawMessage) (saga.Outcome, error)
}

// Result is the result of a simulation.
type Result struct {
	Path    []Entry
	Saga    saga.Saga
	Outputs map[string]json.RawMessage
	Stopped string // the reason why the simulation stopped before the saga ended; "" if the saga ended
	Calls   int
	Letters int // number of dead letters, from compensations that gave up
	Took    time.Duration
	// Unused lists the keys whose answers were not all used, in order.
	Unused []string
}
