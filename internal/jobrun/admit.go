package jobrun

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Candidate is a run of a concurrency key as AdmitKey sees it.
type Candidate struct {
	ID           uuid.UUID
	RootRunID    uuid.UUID
	State        State // not terminal
	Trigger      Trigger
	Policy       Policy
	ScheduledFor time.Time
	AvailableAt  time.Time
	Due          bool // its AvailableAt has passed
	Admitted     bool // claimable, or held by a worker
	// CancelRequested reports that its worker has been asked to stop the run.
	CancelRequested bool
	QueueLimit      int  // with Queue: how many runs may wait; 0: any number
	HoldsKey        bool // a retry that keeps the key, so that no other run starts, while it waits
}

// Step is the action taken on a candidate.
type Step string

// These are the steps. A candidate without a step waits.
const (
	StepAdmit     Step = "admit"      // it may be claimed
	StepSkip      Step = "skip"       // it ends as SKIPPED
	StepCancel    Step = "cancel"     // it ends as CANCELED without running
	StepAskCancel Step = "ask_cancel" // its worker is asked to stop it
)

// Admission is the decision about one candidate, with its reason.
type Admission struct {
	ID     uuid.UUID
	Step   Step
	Reason string
}

// Because begins the reason for skipping a run under the policy forbid; it is followed by the run
// that has the key.
const Because = "because "

// AdmitKey decides about the runs of one concurrency key (S18, sweep 10), of which at most one may
// be claimable or held by a worker. all contains the runs of the key that a worker holds, that are
// claimable, or that are waiting and due, and all waiting retries of the key.
//
// A run that is due while another one has not ended follows its own policy: forbid skips it, queue
// makes it wait, and replace ends the other run first. A retry continues older work: it waits even
// under forbid and replaces nothing, but it is skipped if a newer run has the key. A canceled run
// that is still running keeps its key until its worker ends it or the grace period is over (S9).
func AdmitKey(all []Candidate) []Admission {
	k := admission{}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(a.AvailableAt.Compare(b.AvailableAt), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	for i := range all {
		c := &all[i]
		switch {
		case slices.Contains(HoldingStates, c.State) || c.Admitted:
			k.holders = append(k.holders, c)
		case c.Trigger == ByRetry && c.HoldsKey && k.retry == nil:
			k.retry = c
		case c.Due:
			k.waiting = append(k.waiting, c)
		}
	}
	if len(k.holders) == 0 {
		k.choose()
	}
	if len(k.holders) > 0 {
		k.hold(k.holders[0])
	}
	return k.decided
}

type admission struct {
	holders []*Candidate
	retry   *Candidate // the first waiting retry that holds the key
	waiting []*Candidate
	decided []Admission
	fresh   bool // the holder was admitted by this call
}

func (k *admission) decide(c *Candidate, s Step, format string, args ...any) {
	k.decided = append(k.decided, Admission{ID: c.ID, Step: s, Reason: fmt.Sprintf(format, args...)})
}

// choose admits the first run that may start, if the key is free.
func (k *admission) choose() {
	if c := k.retry; c != nil {
		k.holders = append(k.holders, c)
		if c.Due {
			k.decide(c, StepAdmit, "")
			k.fresh = true
		}
		return
	}
	for len(k.waiting) > 0 {
		c := k.waiting[0]
		k.waiting = k.waiting[1:]
		if by := k.replacer(); c.Policy == Replace && by != nil {
			k.decide(c, StepSkip, "replaced by run %s, scheduled for %s, before it started", by.ID, stamp(by.ScheduledFor))
			continue
		}
		k.decide(c, StepAdmit, "")
		k.holders, k.fresh = append(k.holders, c), true
		return
	}
}

// replacer returns the newest waiting run that replaces the runs before it, or nil if there is
// none.
func (k *admission) replacer() *Candidate {
	for _, c := range slices.Backward(k.waiting) {
		if c.Policy == Replace && c.Trigger != ByRetry {
			return c
		}
	}
	return nil
}

// hold decides about the waiting runs while h holds the key.
func (k *admission) hold(h *Candidate) {
	by, queued := k.replacer(), 0
	for _, c := range k.waiting {
		retry := c.Trigger == ByRetry
		switch {
		case c.Policy == Forbid && !retry:
			was := "had not ended"
			if h.State == Running {
				was = "was still running"
			}
			k.decide(c, StepSkip, Because+"run %s, scheduled for %s, %s", h.ID, stamp(h.ScheduledFor), was)
		case c.Policy == Replace && retry:
			k.decide(c, StepSkip, "a newer run holds its concurrency key: run %s, scheduled for %s", h.ID, stamp(h.ScheduledFor))
		case c.Policy == Replace && c != by:
			k.decide(c, StepSkip, "replaced by run %s, scheduled for %s, before it started", by.ID, stamp(by.ScheduledFor))
		case c.Policy == Queue && !retry:
			if queued++; c.QueueLimit > 0 && queued > c.QueueLimit {
				k.decide(c, StepSkip, "its concurrency key has already reached the queue_limit of %d", c.QueueLimit)
			}
		}
	}
	if by == nil || k.fresh {
		return
	}
	for _, old := range k.holders {
		switch {
		case old.State != Running:
			k.decide(old, StepCancel, "replaced by run %s, scheduled for %s", by.ID, stamp(by.ScheduledFor))
		case !old.CancelRequested:
			k.decide(old, StepAskCancel, "replaced by run %s, scheduled for %s", by.ID, stamp(by.ScheduledFor))
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
