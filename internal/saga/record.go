package saga

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

// log appends the step log of a call whose outcome is known.
func (d *decision) log(action Action, o Outcome, status LogStatus, final bool) {
	ended, ms := o.EndedAt, o.EndedAt.Sub(o.StartedAt).Milliseconds()
	l := d.attempt(action, o, status)
	l.Final, l.Response, l.CompletedAt, l.DurationMS = final, o.Response, &ended, &ms
	d.After.recorded, d.After.awaited = false, nil
	if o.Code != "" {
		l.Outcome = &o.Code
	}
	if status == LogSuccess {
		l.Response = o.Output
	} else {
		l.Error = d.outcomeError(o, o.Message)
	}
	d.Logs = append(d.Logs, l)
}

// attempt returns the step log of the current attempt. The request is kept in full if its outputs
// come from attempts that are stored under other numbers, because an operator retried the saga
// while the driver held them.
func (d *decision) attempt(action Action, o Outcome, status LogStatus) StepLog {
	if n := len(o.Parts); !bytes.Equal(o.Parts, d.After.given[:n]) {
		o.Parts = nil
	}
	return StepLog{
		ID: d.m.NewID(), SagaID: d.s.ID, StepIndex: d.s.CurrentStep, StepName: d.After.Def.Steps[d.s.CurrentStep].Name,
		Action: action, Attempt: d.s.Attempt, Status: status, Request: o.Request, Parts: o.Parts, StartedAt: o.StartedAt,
		UpdatedAt: d.m.Now, Completes: d.After.recorded,
	}
}

// failedStatus maps an unsuccessful outcome to seed 1's status.
func failedStatus(o Outcome) LogStatus {
	if o.Class == retry.Timeout {
		return LogTimeout
	}
	return LogFailed
}

func (d *decision) outcomeError(o Outcome, message string) *Error {
	e := d.newError(o.Code, string(o.Class), message)
	e.Retryable = o.Verdict != Refused
	e.Details, e.StackTrace, e.Cause = o.Response, o.StackTrace, o.Cause.at(d.m.Now)
	return e
}

// at returns a copy of an error and of its causes, all with the same time.
func (e *Error) at(now time.Time) *Error {
	if e == nil {
		return nil
	}
	c := *e
	c.Timestamp, c.Cause = now, e.Cause.at(now)
	return &c
}

// follows appends cause to the chain of causes of an error. The chain must not be shared.
func (e *Error) follows(cause *Error) {
	for e.Cause != nil {
		e = e.Cause
	}
	e.Cause = cause
}

func (d *decision) newError(code, kind, message string) *Error {
	return &Error{Code: code, Message: message, Type: kind, Timestamp: d.m.Now}
}

// LogStatus is seed 1's status of a step log, plus RUNNING (requirements/saga.md D7).
type LogStatus string

// The log statuses. A log is LogRunning if and only if CompletedAt is nil.
const (
	LogRunning LogStatus = "RUNNING"
	LogSuccess LogStatus = "SUCCESS"
	LogFailed  LogStatus = "FAILED"
	LogTimeout LogStatus = "TIMEOUT"
	LogSkipped LogStatus = "SKIPPED"
)

// LogStatuses lists every log status.
var LogStatuses = []LogStatus{LogSuccess, LogFailed, LogTimeout, LogSkipped, LogRunning}

// StepLog is one attempt of one action of one step (seed 1, saga_step_logs).
type StepLog struct {
	ID        uuid.UUID
	SagaID    uuid.UUID
	StepIndex int
	StepName  string
	Action    Action
	Attempt   int
	Status    LogStatus
	Final     bool // whether this is the outcome row that seed 1 means; false for an attempt that is retried
	Outcome   *string
	Request   json.RawMessage
	// Parts, if not nil, describes Request, which a store then need not keep (MakeRequests).
	Parts     Parts
	Response  json.RawMessage
	Error     *Error
	StartedAt time.Time
	// CompletedAt is nil while the call runs.
	CompletedAt *time.Time
	DurationMS  *int64
	UpdatedAt   time.Time
	// Completes means that there is a RUNNING row of the same step, action and attempt, which this
	// log completes or replaces instead of adding a second row. It is set by Apply.
	Completes bool
	// ContentUnreadable means that encrypted content of the log could not be decrypted and is left
	// out.
	ContentUnreadable bool
}

// LeaveContent drops the fields that brief logs omit: the request, and the response unless the
// attempt was skipped or is running. The response of a running attempt is the progress that the
// participant has reported.
func (l *StepLog) LeaveContent() {
	l.Request, l.Parts = nil, nil
	if l.Status != LogSkipped && l.Status != LogRunning {
		l.Response = nil
	}
}

// InOrder sorts step logs as seed 1 lists them: by step, and then in the order of their calls.
func InOrder(logs []StepLog) []StepLog {
	slices.SortStableFunc(logs, func(a, b StepLog) int {
		return cmp.Or(cmp.Compare(a.StepIndex, b.StepIndex), a.StartedAt.Compare(b.StartedAt),
			cmp.Compare(a.Attempt, b.Attempt))
	})
	return logs
}
