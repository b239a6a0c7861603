package dlq

import (
	"fmt"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// RedriveStates lists all states.
var RedriveStates = []RedriveState{RedrivePending, AwaitingApproval, RedriveRunning, RedrivePaused, RedriveHalted,
	RedriveCompleted, RedriveCanceled}

// Over reports whether waiting for the end of a redrive is pointless because it has ended or
// because an operator must decide.
func (s RedriveState) Over() bool { return s.Terminal() || s == RedriveHalted }

// Terminal reports whether this state is final.
func (s RedriveState) Terminal() bool { return s == RedriveCompleted || s == RedriveCanceled }

// RedriveVerb is what causes a transition of a redrive: an operator's action or the redrive's own
// progress.
type RedriveVerb string

// Verbs of operators.
const (
	PauseRedrive   RedriveVerb = "pause"
	ResumeRedrive  RedriveVerb = "resume"
	CancelRedrive  RedriveVerb = "cancel"
	ApproveRedrive RedriveVerb = "approve"
)

// RedriveVerbs lists the verbs of operators.
var RedriveVerbs = []RedriveVerb{PauseRedrive, ResumeRedrive, CancelRedrive, ApproveRedrive}

// Verbs of redrives themselves.
const (
	BeginRedrive    RedriveVerb = "begin"
	HaltRedrive     RedriveVerb = VerbHalt
	CompleteRedrive RedriveVerb = "complete"
)

// RedriveEdge is one legal transition of a redrive.
type RedriveEdge struct {
	From, To RedriveState
	On       RedriveVerb
}

// RedriveEdges is the complete transition table of redrives.
var RedriveEdges = []RedriveEdge{
	{RedrivePending, RedriveRunning, BeginRedrive},
	{RedriveRunning, RedriveHalted, HaltRedrive},
	{RedriveRunning, RedriveCompleted, CompleteRedrive},
	{RedrivePending, RedrivePaused, PauseRedrive},
	{RedriveRunning, RedrivePaused, PauseRedrive},
	{RedrivePaused, RedrivePending, ResumeRedrive},
	{RedriveHalted, RedrivePending, ResumeRedrive},
	{RedrivePending, RedriveCanceled, CancelRedrive},
	{AwaitingApproval, RedriveCanceled, CancelRedrive},
	{RedriveRunning, RedriveCanceled, CancelRedrive},
	{RedrivePaused, RedriveCanceled, CancelRedrive},
	{RedriveHalted, RedriveCanceled, CancelRedrive},
	{AwaitingApproval, RedrivePending, ApproveRedrive},
}

// Recounting is the transition that restarts the counts of StopOn, because the operator who resumes
// a halted redrive has seen the failures that halted it. The counters grow until the transition is
// stored, so the store reads them at that point.
var Recounting = RedriveEdge{RedriveHalted, RedrivePending, ResumeRedrive}

// after returns the state to which a verb leads. It returns false if the table contains no such
// transition.
func (s RedriveState) after(on RedriveVerb) (RedriveState, bool) {
	i := slices.IndexFunc(RedriveEdges, func(e RedriveEdge) bool { return e.From == s && e.On == on })
	if i < 0 {
		return s, false
	}
	return RedriveEdges[i].To, true
}

// RedrivesFrom lists the states that have a transition on any of these verbs. Stores derive
// their conditions from it.
func RedrivesFrom(on ...RedriveVerb) (from []RedriveState) {
	for _, s := range RedriveStates {
		if slices.ContainsFunc(on, func(v RedriveVerb) bool { _, can := s.after(v); return can }) {
			from = append(from, s)
		}
	}
	return from
}

// Ahead lists the states in which an earlier redrive withholds its letters from later redrives. A
// halted redrive does not, so that an operator can request another redrive.
var Ahead = []RedriveState{RedrivePending, RedriveRunning, RedrivePaused}

// Running lists the states in which letters are driven, and thus in which a redrive may halt.
var Running = RedrivesFrom(HaltRedrive)

// to moves r along one edge. A transition that is not in the table is a bug in the rules, and
// must never reach a store. The test of all pairs finds such bugs.
func (r *Redrive) to(on RedriveVerb, now time.Time) {
	next, ok := r.State.after(on)
	if !ok {
		panic(fmt.Sprintf("dlq: the transition table has no transition of a redrive from %s for the verb %s", r.State, on))
	}
	if r.State = next; next.Terminal() {
		r.EndedAt = &now
	}
}

// Actions lists the actions that are currently possible on a redrive. It is never nil.
func (r *Redrive) Actions() []string {
	out := []string{}
	for _, v := range RedriveVerbs {
		if r.accepts(v) {
			out = append(out, string(v))
		}
	}
	if !r.State.Terminal() && !r.Unreadable {
		out = append(out, VerbUpdate)
	}
	return out
}

// accepts reports whether a verb is currently possible. A damaged redrive can only be canceled.
func (r *Redrive) accepts(v RedriveVerb) bool {
	_, can := r.State.after(v)
	return can && (v == CancelRedrive || !r.Unreadable)
}

// Moved applies an operator's verb. A resumed redrive is PENDING until a node takes it up, which
// happens immediately. Resuming after a halt by the canary ends the canary. Resuming after a halt
// because of too many letters covers all letters that were found. The stop condition is kept and
// counts from there. Faults: Conflict; Forbidden if the requester approves the redrive.
func (r Redrive) Moved(verb RedriveVerb, actor string, now time.Time) (Redrive, error) {
	if !r.accepts(verb) || !slices.Contains(RedriveVerbs, verb) {
		return r, fault.New(fault.Conflict, CodeRedriveConflict, "the redrive is %s and does not allow the action %s", r.State, verb).Allowing(r.Actions())
	}
	if verb == ApproveRedrive {
		if actor == r.Actor {
			return r, fault.New(fault.Forbidden, CodeSelfApproval, "a redrive must be approved by someone other than its requester")
		}
		r.ApprovedBy = actor
	}
	if verb == Recounting.On && r.State == Recounting.From {
		if r.overrun() { // nothing was sent yet, so a canary still comes first
			r.HaltsAbove = new(r.Matched)
		} else {
			r.CanaryOK, r.WatchedAt = true, nil
		}
		r.HaltReason = ""
		r.DoneBefore, r.FailedBefore = r.Done, r.Failed
	}
	r.to(verb, now)
	r.Version++
	r.UpdatedAt = now
	return r, nil
}

// Active reports whether a redrive has work to do once its start time has come.
func (r *Redrive) Active() bool {
	_, begins := r.State.after(BeginRedrive)
	_, ends := r.State.after(CompleteRedrive)
	return (begins || ends) && !r.Unreadable
}

// Begun returns a redrive that a node takes up, completed with what the store sees now. begins is
// false if it is already running or must not run.
func (r Redrive) Begun(snapshot page.Snapshot, now time.Time) (after Redrive, begins bool) {
	if _, begins = r.State.after(BeginRedrive); !begins {
		return r, false
	}
	if r.StartedAt == nil {
		r.StartedAt = &now
		if r.IncludeLater {
			r.Snapshot = snapshot
		}
	}
	r.to(BeginRedrive, now)
	r.Version++
	r.UpdatedAt, r.ProgressAt = now, &now
	return r, true
}

// PageSize returns the number of letters to gather next, at most limit, or 0 if the redrive already
// has its maximum. Ids are gathered in a single page.
func (r *Redrive) PageSize(limit int) int64 {
	most := int64(limit)
	if r.Filter == nil {
		most = max(1, int64(len(r.IDs)))
	}
	if r.Max > 0 {
		most = min(most, max(0, r.Max-r.Matched))
	}
	return most
}

// GatheredBy reports whether a page of PageSize letters was the last one. found is the number of
// letters that matched, and stored is the number of new ones among them.
func (r *Redrive) GatheredBy(size, found, stored int64) bool {
	return found < size || r.Filter == nil || r.Max > 0 && r.Matched+stored >= r.Max
}

// overrun reports whether the redrive found more letters than it may cover.
func (r *Redrive) overrun() bool {
	return r.Gathered && r.HaltsAbove != nil && r.Matched > *r.HaltsAbove
}
