package jobrun

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Event is a request that concerns a run, or something that has happened to it. The types below are
// the only events.
type Event interface{ event() }

// Reported is a worker's report of how the execution ended; Error is nil on success.
type Reported struct{ Result }

// CancelAcknowledged is a worker's report that it stopped the run on request.
type CancelAcknowledged struct{}

// CancelRequested is a cancel by an operator, a saga, a bulk, a backfill, or the deletion of a
// definition. Force ends a RUNNING run immediately and fences its worker instead of asking the
// worker to stop. Waiting leaves a RUNNING run unchanged.
type CancelRequested struct {
	Actor, Reason  string
	Force, Waiting bool
}

// ReassignRequested is an operator's request to take the run from its worker. For a started run,
// Force is required.
type ReassignRequested struct {
	Actor, Reason string
	Force         bool
}

// Decided is the leader's decision because of a concurrency policy or a pause (AdmitKey): StepSkip,
// StepCancel or StepAskCancel. It does not change runs that have started in the meantime.
type Decided struct {
	Step   Step
	Reason string
}

// Withdrawn is a change of the run's definition that removes the run's slot before a worker has
// claimed the run (Following).
type Withdrawn struct{ Actor, Reason string }

// LeaseExpired is the leader's check of a lease (sweeps 2 to 4). It changes nothing if the lease
// has not expired. Likewise, the following events change nothing before their deadlines have
// passed.
type LeaseExpired struct{ Settings Settings }

// Detached is an operator detaching the run's worker permanently.
type Detached struct {
	Settings Settings
	Actor    string
}

// LossesExhausted is the leader's check of how often the run was lost (sweep 5, S7).
type LossesExhausted struct{}

// TimeoutPassed is the leader's check of the run's timeout (sweep 6, S21).
type TimeoutPassed struct{ Settings Settings }

// CancelExpired means that the grace period of a requested cancel has passed without an
// acknowledgement (sweep 7, S9).
type CancelExpired struct{ Settings Settings }

func (Reported) event()           {}
func (Released) event()           {}
func (CancelAcknowledged) event() {}
func (CancelRequested) event()    {}
func (ReassignRequested) event()  {}
func (Decided) event()            {}
func (Withdrawn) event()          {}
func (LeaseExpired) event()       {}
func (Detached) event()           {}
func (LossesExhausted) event()    {}
func (TimeoutPassed) event()      {}
func (CancelExpired) event()      {}

// verdict returns how the run ends according to its worker's report.
func (r *Reported) verdict() verdict {
	v := verdict{state: Succeeded, by: Worker, exitCode: r.ExitCode, result: r.Value, resources: r.Resources}
	if r.Error != nil {
		v.state, v.err = Failed, r.Error
	}
	if r.Error != nil && r.TimedOut {
		v.state = TimedOut
	}
	return v
}

// verdict is how a run ends.
type verdict struct {
	state     State // terminal
	by        Mover
	actor     string
	reason    string
	err       *Error // of Failed and TimedOut
	exitCode  *int
	result    json.RawMessage
	resources Resources
}

// Moment carries all nondeterministic inputs of a decision.
type Moment struct {
	Now    time.Time
	Jitter float64 // in [0,1)
	NewID  func() uuid.UUID
	// Epoch is the epoch of the deciding leader; 0 means that the leader did not decide.
	Epoch int64
}

// These are the outcomes of attempts after which another attempt may follow.
const (
	AttemptOrphaned   = "ORPHANED"
	AttemptReleased   = "RELEASED"
	AttemptReassigned = "REASSIGNED"
)
