package dlq

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
)

// Drive is a claimed letter on its way, and what is to be sent of it.
type Drive struct {
	Letter            // RETRYING, with Token and LeaseUntil
	Send   Content    // of its Revision
	To     Target     // complete: with a topic, a URL
	Number int        // of the attempt
	Actor  string     // "" when it is automatic
	Forced bool       // it was DEAD: a failure leaves it DEAD
	Was    Resolution // of a Forced one, before it was claimed
	Due    bool       // automatic: its time had come
	// KeepHeaders is what the policy keeps of the headers that are otherwise left out.
	KeepHeaders []string
}

// Result is the outcome of a drive.
type Result struct {
	Outcome    AttemptOutcome
	Error      string // unless Acknowledged
	StatusCode int
	RetryAfter time.Duration // how long the target asked to be left alone; 0: it did not
	Written    *Position
	StartedAt  time.Time
	EndedAt    time.Time
	// Accepted: the target has taken the letter and will report the result later (a
	// saga, a job run); the letter stays RETRYING until then.
	Accepted bool
	// Missing: FailedDrive, because there is no such target, so that nothing was
	// sent. It counts only when the target is the letter's own.
	Missing bool
	// TooLarge: FailedDrive, because its target takes nothing as large as this, so that
	// nothing was sent. It does not count, and only a person can change it: there is no
	// automatic retry.
	TooLarge bool
	// Fault is set for Withdrawn only: what prevents the retry until someone changes
	// it; nil: an outage.
	Fault *fault.Error
}

// Lost returns the end of a drive whose lease expired. unsent: the letter was certainly
// not handed over, so there was no retry, and a letter without retries left was DEAD
// before (invariant D3: a PENDING one has a retry left).
func (d *Drive) Lost(unsent bool, started, now time.Time) Result {
	if !unsent {
		return Result{
			Outcome: Abandoned, Error: "retry abandoned: its node lost the lease, and the letter may have been sent",
			StartedAt: started, EndedAt: now,
		}
	}
	d.Forced = d.RetryCount >= d.MaxRetries
	return Result{
		Outcome: Withdrawn, Error: "retry withdrawn: its node lost the lease before the letter was sent", StartedAt: started, EndedAt: now,
	}
}

// Finish is the end of a drive, to be stored if its Token still holds the letter.
type Finish struct {
	TenantID    uuid.UUID
	LetterID    uuid.UUID
	Token       uuid.UUID
	Status      Status
	Resolution  Resolution
	RetryCount  int
	NextRetryAt *time.Time
	TerminalAt  *time.Time
	RedriveID   uuid.UUID // zero: as it was
	Attempt     Attempt
	At          time.Time
	Handover    uuid.UUID    // the note to be reverted; zero: none, or others need it still
	Fault       *fault.Error // of Result; not stored

	RetryAfter time.Duration // of Result; redrives honour it
}

// elsewhere reports whether a target other than the letter's was requested.
func (d *Drive) elsewhere() bool {
	own := d.Destination(nil)
	partition := func(t *Target) int32 {
		if t.Partition == nil {
			return -1
		}
		return *t.Partition
	}
	return own.Kind != d.To.Kind || own.Topic != d.To.Topic || own.URL != d.To.URL || partition(&own) != partition(&d.To)
}

// Finished decides how a result changes a letter (seed 3: success is RESOLVED, failure
// counts, DEAD when no retry is left). Withdrawn counts nothing, because there was no
// retry. After Accepted the letter stays RETRYING, and the driver stores nothing.
func (d *Drive) Finished(r Result, p *Policy, m Moment) Finish {
	f := Finish{
		TenantID: d.TenantID, LetterID: d.ID, Token: d.Token, RetryCount: d.RetryCount, RedriveID: d.RedriveID,
		At: m.Now, Fault: r.Fault, RetryAfter: r.RetryAfter,
		Attempt: Attempt{
			LetterID: d.ID, Number: d.Number, Token: d.Token, Revision: d.Revision, Target: d.To,
			Outcome: r.Outcome, Error: r.Error,
			StatusCode: r.StatusCode, Written: r.Written, RedriveID: d.RedriveID, Actor: d.Actor, StartedAt: r.StartedAt,
			EndedAt: r.EndedAt,
		},
	}
	end := func(on Trigger, why Resolution) {
		f.Status, f.Resolution, f.TerminalAt = moved(Retrying, why.Status(), on), why, &m.Now
	}
	unmade := r.Outcome == Withdrawn || r.Missing && d.elsewhere()
	switch {
	case r.Accepted:
		f.Status = Retrying
	case r.Outcome == Acknowledged:
		end(Acked, Redriven)
	case (unmade || r.TooLarge) && d.Forced:
		end(RetryWithdraw, cmp.Or(d.Was, Exhausted))
	case unmade:
		f.Status = moved(Retrying, Pending, RetryWithdraw)
		again := *p
		again.AutoRetry = p.AutoRetry || d.Due // what was to be retried still is: a policy holds it, and may let it go
		f.NextRetryAt = d.nextRetry(&again, d.Failures(), m)
	case r.TooLarge:
		f.Status = moved(Retrying, Pending, RetryWithdraw)
	default:
		f.RetryCount = min(d.RetryCount+1, d.MaxRetries)
		switch {
		case d.RetryCount+1 >= d.MaxRetries && d.Was != Poison:
			end(LastFailed, Exhausted)
			return f
		case d.Forced:
			end(LastFailed, cmp.Or(d.Was, Exhausted))
			return f
		}
		f.Status = moved(Retrying, Pending, RetryFailed)
		f.NextRetryAt = later(d.nextRetry(p, d.Failures()+1, m), r.RetryAfter, m)
	}
	return f
}

// later moves the time of an automatic retry to when the target wants to be called again,
// if it has asked to be left alone for longer: at most an hour, as for steps of sagas.
func later(at *time.Time, asked time.Duration, m Moment) *time.Time {
	wanted := m.Now.Add(min(asked, retry.MaxAfter)).Truncate(time.Microsecond) // as it is stored
	if at == nil || !wanted.After(*at) {
		return at
	}
	return &wanted
}
