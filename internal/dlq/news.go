package dlq

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Letters of sagas and webhooks are retried by their source: it goes on, and
// tells in the transaction of its own change what became of it. Nobody else
// ends such a retry, so a letter never says anything else than its source.

// Outcome is what the source of a letter reports about it.
type Outcome string

// What sources report.
const (
	RetryStarted    Outcome = "goes on"   // it is being tried again
	Succeeded       Outcome = "went well" // what had failed is done
	HandledManually Outcome = "by hand"   // somebody has dealt with it, or it is not wanted any more
	GaveUp          Outcome = "gave up"   // it has failed for good, perhaps once more
	RetryStopped    Outcome = "stopped"   // it is no longer tried, and nothing has come of it
)

// SourceUpdate is one report of a source about its letter.
type SourceUpdate struct {
	Outcome Outcome
	// ID names the letter; zero: there is none yet.
	ID uuid.UUID
	// Letter is of GaveUp: the letter to be stored when the one of ID is not open
	// any more, or is not there; else its failure is the one that is taken over.
	// It is complete (New).
	Letter Letter
	// Token is of GoesOn: that of the retry, unless the letter is being retried.
	Token uuid.UUID
	// Actor is who had it tried, "" when nobody is known.
	Actor string
	// Action is what somebody has done to the letter by way of its source; stored
	// with the rest. Nil: nothing.
	Action *operator.Action
}

// Lease is how long a retry that its source makes is left alone by those who
// look for lost ones, without news. They ask the source as well.
const Lease = 5 * time.Minute

// ReopensOn tells whether a letter is still the one of a compensation or a delivery
// that gives up once more: it is open, or it is a delivery's, which has only one.
func (l *Letter) ReopensOn(n *SourceUpdate) bool {
	return l.Status != Resolved || n.Outcome == GaveUp && l.Source == FromWebhook
}

// ApplyUpdate returns a stored letter after an update of its source; changed is false when
// they are nothing new. ended is the retry that ended with them, nil when none
// was under way; its Number is left to the store. A letter that is RESOLVED stays
// so, and what gives up after that gets another one; but a webhook's delivery is
// always the same, and its letter is open again.
func (l Letter) ApplyUpdate(n *SourceUpdate, m Moment) (after Letter, ended *Attempt, changed bool) {
	if !l.ReopensOn(n) {
		return l, nil, false
	}
	was := l
	switch n.Outcome {
	case RetryStarted:
		if l.Status != Retrying {
			l.Status = moved(l.Status, Retrying, SourceGoesOn)
			l.Token, l.LastRetryAt = n.Token, &m.Now
		}
		until := m.Now.Add(Lease)
		l.Resolution, l.TerminalAt, l.NextRetryAt, l.LeaseUntil = "", nil, nil, &until
		return l.next(m), nil, true
	case Succeeded:
		l = l.ended(SourceDone, Confirmed, m)
	case HandledManually:
		l = l.ended(SourceDone, Manual, m)
	case RetryStopped:
		if l.Status != Retrying {
			return l, nil, false
		}
		l.reopen(m)
	case GaveUp:
		l.Failure, l.Fingerprint = n.Letter.Failure, n.Letter.Fingerprint
		if was.Status == Retrying || was.Status == Resolved { // else its lease has passed, and that retry was counted
			l.RetryCount = min(l.RetryCount+1, l.MaxRetries)
		}
		if was.Status != Dead {
			l.reopen(m)
		} else {
			l = l.next(m)
		}
	}
	if was.Status == Retrying {
		ended = was.attempted(n, m)
	}
	l.Token, l.LeaseUntil = uuid.Nil, nil
	return l, ended, true
}

// reopen makes l PENDING again, or DEAD when no retry is left.
func (l *Letter) reopen(m Moment) {
	if l.RetryCount >= l.MaxRetries {
		*l = l.ended(SourceGaveUp, Exhausted, m)
		return
	}
	if l.Status != Pending {
		l.Status = moved(l.Status, Pending, SourceGaveUp)
	}
	l.Resolution, l.TerminalAt, l.NextRetryAt = "", nil, nil
	*l = l.next(m)
}

// attempted is the retry that news have ended.
func (l *Letter) attempted(n *SourceUpdate, m Moment) *Attempt {
	a := &Attempt{
		LetterID: l.ID, Token: l.Token, Revision: l.Revision, Target: l.Target, RedriveID: l.RedriveID, Actor: n.Actor,
		Outcome: Acknowledged, StartedAt: m.Now, EndedAt: m.Now,
	}
	if l.LastRetryAt != nil { // which the database's clock may have said
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
