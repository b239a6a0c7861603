package dlq

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Letters of sagas and webhooks are retried by their source. The source reports the result in the
// transaction of its own change, and nothing else ends such a retry, so a letter and its source
// never disagree.

// Outcome is what the source of a letter reports about it.
type Outcome string

// What sources report.
const (
	RetryStarted    Outcome = "goes on"   // it is being tried again
	Succeeded       Outcome = "went well" // the failed work is now done
	HandledManually Outcome = "by hand"   // handled by a person, or no longer wanted
	GaveUp          Outcome = "gave up"   // it failed permanently, possibly again
	RetryStopped    Outcome = "stopped"   // it is no longer tried, and the retry had no effect
)

// SourceUpdate is a report from a source about its letter.
type SourceUpdate struct {
	Outcome Outcome
	// ID identifies the letter; zero means that there is none yet.
	ID uuid.UUID
	// Letter is set for GaveUp and complete (New). It is stored if the letter with ID is closed or
	// missing; otherwise only its failure is copied to that letter.
	Letter Letter
	// Token is set for RetryStarted. It is the token of the retry, unless the letter is already being
	// retried.
	Token uuid.UUID
	// Actor is the requester of the retry, or "" if unknown.
	Actor string
	// Action is an operator's action on the letter through its source, stored in the same
	// transaction; nil means none.
	Action *operator.Action
}

// SourceReported is a report about a letter from its saga or delivery.
type SourceReported struct{ *SourceUpdate }

func (SourceReported) event() {}

// Lease is the time that a retry made by the letter's source may go without an update before it is
// checked for being lost. The check also asks the source.
const Lease = 5 * time.Minute

// ReopensOn reports whether this letter is kept when its compensation or delivery gives up again.
// It is kept if it is open, or if it belongs to a delivery, because a delivery has only one letter.
func (l *Letter) ReopensOn(n *SourceUpdate) bool {
	return l.Status != Resolved || n.Outcome == GaveUp && l.Source == FromWebhook
}

// sourceReported applies an update from the letter's source, which may change nothing. A RESOLVED
// letter stays RESOLVED, and a later failure gets a new letter; only the letter of a webhook
// delivery is reopened.
func (d *decision) sourceReported(n SourceReported) {
	l, was := &d.After, d.After
	if !l.ReopensOn(n.SourceUpdate) {
		d.same = true
		return
	}
	switch n.Outcome {
	case RetryStarted:
		if l.Status != Retrying {
			d.to(Retrying, SourceGoesOn)
			l.Token, l.LastRetryAt = n.Token, &d.m.Now
		}
		until := d.m.Now.Add(Lease)
		l.Resolution, l.TerminalAt, l.NextRetryAt, l.LeaseUntil = "", nil, nil, &until
		return
	case Succeeded:
		d.end(SourceDone, Confirmed)
	case HandledManually:
		d.end(SourceDone, Manual)
	case RetryStopped:
		if l.Status != Retrying {
			d.same = true
			return
		}
		d.reopen()
	case GaveUp:
		l.Failure, l.Fingerprint = n.Letter.Failure, n.Letter.Fingerprint
		if was.Status == Retrying || was.Status == Resolved { // otherwise its lease expired, and the retry was counted
			l.RetryCount = min(l.RetryCount+1, l.MaxRetries)
		}
		if was.Status != Dead {
			d.reopen()
		}
	}
	if was.Status == Retrying {
		d.Attempt = was.attempted(n.SourceUpdate, d.m)
	}
	l.Token, l.LeaseUntil = uuid.Nil, nil
}

// reopen makes the letter PENDING again, or DEAD if no retries are left.
func (d *decision) reopen() {
	l := &d.After
	if l.RetryCount >= l.MaxRetries {
		d.end(SourceGaveUp, Exhausted)
		return
	}
	if l.Status != Pending {
		d.to(Pending, SourceGaveUp)
	}
	l.Resolution, l.TerminalAt, l.NextRetryAt = "", nil, nil
}

// attempted returns the retry that a source's report has ended.
func (l *Letter) attempted(n *SourceUpdate, m Moment) *Attempt {
	a := &Attempt{
		LetterID: l.ID, Token: l.Token, Revision: l.Revision, Target: l.Target, RedriveID: l.RedriveID, Actor: n.Actor,
		Outcome: Acknowledged, StartedAt: m.Now, EndedAt: m.Now,
	}
	if l.LastRetryAt != nil { // this time may come from the database's clock
		a.StartedAt = *l.LastRetryAt
		if a.EndedAt.Before(a.StartedAt) {
			a.EndedAt = a.StartedAt
		}
	}
	switch n.Outcome {
	case GaveUp:
		a.Outcome, a.Error = FailedDrive, n.Letter.Failure.Message
	case HandledManually, RetryStopped:
		a.Outcome, a.Error = Withdrawn, whyWithdrawn[n.Outcome]
	}
	return a
}

var whyWithdrawn = map[Outcome]string{
	HandledManually: "resolved manually before the retry ended", RetryStopped: "the retry was stopped",
}
