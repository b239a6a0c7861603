package dlq

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
)

// Drive is a claimed letter, and what is to be sent of it.
type Drive struct {
	Letter         // RETRYING, with Token and LeaseUntil
	Send   Content // of its Revision
	To     Target  // complete: with a topic, a URL
	Number int     // of the attempt
	Actor  string  // "" when it is automatic
	// ActorName is what people call the actor.
	ActorName string
	Forced    bool       // it was DEAD: a failure leaves it DEAD
	Was       Resolution // of a Forced one, before it was claimed
	Due       bool       // automatic: its time had come
	// KeepHeaders lists the headers that the policy keeps although they are dropped by default.
	KeepHeaders []string
}

// Result is the outcome of a drive.
type Result struct {
	Outcome    AttemptOutcome
	Error      string // unless Acknowledged
	StatusCode int
	RetryAfter time.Duration // the target's Retry-After, or how far ahead a letter waits at a gate; 0: none
	Written    *Position
	StartedAt  time.Time
	EndedAt    time.Time
	// Accepted means that the target has accepted the letter and will report the result later
	// (a saga, a job run); the letter stays RETRYING until then.
	Accepted bool
	// Missing means FailedDrive because the target does not exist, so nothing was sent. It
	// counts only if the target is the letter's own.
	Missing bool
	// TooLarge means FailedDrive because the letter is too large for the target, so nothing was
	// sent. It does not count, and there is no automatic retry, because only a person can
	// change this.
	TooLarge bool
	// Unreached means that no connection could be made, so nothing was sent.
	Unreached bool
	// Fault is set for Withdrawn only: what prevents the retry until someone changes
	// it; nil: an outage.
	Fault *fault.Error
}

// DriveEnded is the end of a retry that Skald made of the letter.
type DriveEnded struct {
	Drive  *Drive
	Result Result
	Policy *Policy // of the letter's topic
}

func (DriveEnded) event() {}

// Lost returns the end of a drive whose lease expired. unsent means that the letter was
// certainly not handed over, so there was no retry; a letter without retries left becomes DEAD
// again (invariant D3: a PENDING one has a retry left).
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
	Handover    uuid.UUID    // the note to be deleted; zero: none, or others still need it
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

// Finished returns how a result changes the letter, as it is stored. After Accepted the letter
// stays RETRYING, and the driver stores nothing; so it does after the error of Apply, until the
// lease has expired.
func (d *Drive) Finished(r Result, p *Policy, m Moment) (Finish, error) {
	l := d.Letter
	l.Status = Retrying // as every letter on its way is, also one of which little was read (Lost)
	c, err := Apply(l, DriveEnded{d, r, p}, m)
	if err != nil {
		return Finish{TenantID: d.TenantID, LetterID: d.ID, Token: d.Token, Status: Retrying}, err
	}
	return Finish{
		TenantID: d.TenantID, LetterID: d.ID, Token: d.Token, RedriveID: d.RedriveID,
		Status: c.After.Status, Resolution: c.After.Resolution, RetryCount: c.After.RetryCount,
		NextRetryAt: c.After.NextRetryAt, TerminalAt: c.After.TerminalAt,
		Attempt: *c.Attempt, At: m.Now, Fault: r.Fault, RetryAfter: r.RetryAfter,
	}, nil
}

// driveEnded decides how a result changes the letter (seed 3: success is RESOLVED, failure
// counts, DEAD when no retry is left). Withdrawn counts nothing, because there was no retry.
func (d *decision) driveEnded(e DriveEnded) {
	drive, r, p, l := e.Drive, &e.Result, e.Policy, &d.After
	d.Attempt = &Attempt{
		LetterID: l.ID, Number: drive.Number, Token: l.Token, Revision: l.Revision, Target: drive.To,
		Outcome: r.Outcome, Error: r.Error,
		StatusCode: r.StatusCode, Written: r.Written, RedriveID: drive.RedriveID,
		Actor: drive.Actor, ActorName: drive.ActorName, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
	}
	failures := l.Failures()
	l.Resolution, l.TerminalAt, l.NextRetryAt = "", nil, nil
	unmade := r.Outcome == Withdrawn || r.Missing && drive.elsewhere()
	switch {
	case r.Accepted:
		d.same = true
	case r.Outcome == Acknowledged:
		d.end(Acked, Redriven)
	case (unmade || r.TooLarge) && drive.Forced:
		d.end(RetryWithdraw, cmp.Or(drive.Was, Exhausted))
	case unmade:
		d.to(Pending, RetryWithdraw)
		again := *p
		again.AutoRetry = p.AutoRetry || drive.Due // it is still to be retried: a policy holds it, and may release it
		l.NextRetryAt = later(l.nextRetry(&again, failures, d.m), r.RetryAfter, d.m)
	case r.TooLarge:
		d.to(Pending, RetryWithdraw)
	default:
		l.RetryCount++
		last := l.RetryCount >= l.MaxRetries
		l.RetryCount = min(l.RetryCount, l.MaxRetries)
		switch {
		case last && drive.Was != Poison:
			d.end(LastFailed, Exhausted)
		case drive.Forced:
			d.end(LastFailed, cmp.Or(drive.Was, Exhausted))
		default:
			d.to(Pending, RetryFailed)
			l.NextRetryAt = later(l.nextRetry(p, failures+1, d.m), r.RetryAfter, d.m)
		}
	}
}

// later postpones an automatic retry to the time that the target requested, if that is later:
// by at most an hour, as for steps of sagas.
func later(at *time.Time, asked time.Duration, m Moment) *time.Time {
	wanted := m.Now.Add(min(asked, retry.MaxAfter)).Truncate(time.Microsecond) // as it is stored
	if at == nil || !wanted.After(*at) {
		return at
	}
	return &wanted
}
